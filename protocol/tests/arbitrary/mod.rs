//! Arbitrary requests and messages for the property tests: every variant, every field.

mod operator;
mod provider;

use palisade_protocol::*;
use proptest::{collection::vec, option, prelude::*};

fn text() -> BoxedStrategy<String> {
    prop_oneof![
        Just(String::new()),
        "[a-z]{1,12}",
        "\\PC{0,16}",
        vec(any::<char>(), 0..8).prop_map(String::from_iter),
    ]
    .boxed()
}

fn texts() -> BoxedStrategy<Vec<String>> {
    vec(text(), 0..3).boxed()
}

fn name<T: TryFrom<String, Error = NameError> + std::fmt::Debug>() -> impl Strategy<Value = T> {
    "[A-Za-z0-9_.-]{1,128}".prop_map(|text| T::try_from(text).unwrap())
}

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..300).prop_map(Bytes)
}

fn stream() -> impl Strategy<Value = Stream> {
    prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr), Just(Stream::Content)]
}

fn path() -> BoxedStrategy<RawPath> {
    prop_oneof![vec(any::<u8>(), 0..32).prop_map(RawPath), text().prop_map(RawPath::from)].boxed()
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((text(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Generates an object, as arguments, schemas and data are: written compactly or over several
/// lines.
fn object() -> impl Strategy<Value = JsonText> {
    (vec((text(), value()), 0..4), any::<bool>()).prop_map(|(fields, pretty)| {
        let value = serde_json::Value::Object(fields.into_iter().collect());
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        JsonText::parse(text).unwrap()
    })
}

fn call() -> impl Strategy<Value = Call> {
    (
        (name(), object(), option::of(text())),
        (option::of(any::<u64>()), any::<[bool; 5]>(), option::of(operator::thinking())),
        (option::of(text()), vec((text(), text()), 0..3)),
    )
        .prop_map(
            |((tool, arguments, reason), (timeout_ms, flags, thinking), (key, claims))| {
                let [dry_run, stream, progress, attach, receipt] = flags;
                let options = CallOptions {
                    timeout_ms,
                    dry_run,
                    stream,
                    progress,
                    attach,
                    reverse_thinking: thinking,
                    idempotency_key: key,
                    receipt,
                    claims: claims.into_iter().map(|(name, value)| Claim { name, value }).collect(),
                };
                Call { tool, arguments, reason, options }
            },
        )
}

fn guard() -> impl Strategy<Value = Guard> {
    prop_oneof![Just(Guard::Off), Just(Guard::Text), Just(Guard::Auto), Just(Guard::Transaction)]
}

fn open() -> impl Strategy<Value = Open> {
    let ask = prop_oneof![
        Just(Ask::Never),
        Just(Ask::Destructive),
        Just(Ask::Sensitive),
        Just(Ask::Always)
    ];
    let options =
        (option::of(ask), option::of(any::<u64>()), option::of(guard()), any::<bool>(), texts());
    (path(), option::of(text()), options).prop_map(
        |(workspace, profile, (ask, grace_ms, guard, record, allow_domains))| {
            let options = OpenOptions { ask, grace_ms, guard, record, allow_domains };
            Open { workspace, profile, options }
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<u16>(), text(), texts()).prop_map(|(version, client, capabilities)| {
            Request::Hello(Hello { version, client, capabilities })
        }),
        open().prop_map(Request::Open),
        call().prop_map(Request::Call),
        vec(call(), 0..4).prop_map(|calls| Request::Batch(Batch { calls })),
        (name(), text(), option::of(vec(any::<u64>(), 0..4))).prop_map(
            |(session, token, calls)| { Request::Resume(Resume { session, token, calls }) }
        ),
        Just(Request::Jobs),
        Just(Request::Connections),
        (option::of(path()), option::of(name()), option::of(name())).prop_map(
            |(workspace, session, prefix)| {
                Request::UndoRecords(UndoQuery { workspace, session, prefix })
            }
        ),
        (any::<u64>(), bytes(), any::<bool>())
            .prop_map(|(call, data, end)| Request::Input(Input { call, data, end })),
        any::<u64>().prop_map(|call| Request::Cancel(Cancel { call })),
        Just(Request::Close),
        Just(Request::Ping),
        (name(), any::<u64>(), option::of(any::<u64>())).prop_map(|(call_id, offset, limit)| {
            Request::Output(OutputQuery { call_id, offset, limit })
        }),
        vec(name(), 0..4).prop_map(|names| Request::Tools(ToolsQuery { names })),
        Just(Request::Status),
        operator::request(),
        provider::request(),
    ]
}

/// Generates any request, under an id that JSON can hold.
pub(crate) fn envelope() -> impl Strategy<Value = Envelope> {
    let id = prop_oneof![0..300_u64, 0..=limits::MAX_ID];
    (id, request()).prop_map(|(id, request)| Envelope { id, request })
}

fn error_code() -> impl Strategy<Value = ErrorCode> {
    proptest::sample::select(ErrorCode::ALL)
}

fn error() -> impl Strategy<Value = WireError> {
    (error_code(), text(), text(), any::<Option<u64>>(), any::<Option<i32>>()).prop_map(
        |(code, message, hint, retry_after_ms, errno)| WireError {
            code,
            message,
            hint,
            retry_after_ms,
            errno,
        },
    )
}

fn limits_of_session() -> impl Strategy<Value = SessionLimits> {
    any::<[u64; 7]>().prop_map(|n| SessionLimits {
        timeout_ms: n[0],
        max_timeout_ms: n[1],
        output_bytes: n[2],
        file_bytes: n[3],
        spool_bytes: n[4],
        jobs: n[5],
        parallel: n[6],
    })
}

fn receipt() -> impl Strategy<Value = Receipt> {
    let landlock = (any::<u32>(), texts(), texts(), any::<u32>())
        .prop_map(|(abi, rights, scopes, rules)| LandlockReceipt { abi, rights, scopes, rules });
    let seccomp =
        (text(), any::<u32>(), any::<u32>()).prop_map(|(digest, instructions, syscalls)| {
            SeccompReceipt { digest, instructions, syscalls }
        });
    let limit = (text(), any::<u64>(), text()).prop_map(|(name, value, by)| LimitReceipt {
        name,
        value,
        by,
    });
    let degraded = (text(), text()).prop_map(|(layer, why)| Degraded { layer, why });
    let network =
        (text(), vec(any::<u16>(), 0..4)).prop_map(|(mode, ports)| NetworkReceipt { mode, ports });
    let observed = (text(), vec(denial(), 0..3))
        .prop_map(|(under, would_refuse)| Observed { under, would_refuse });
    (
        (text(), text(), text(), texts()),
        (option::of(landlock), option::of(seccomp)),
        (any::<[u32; 3]>(), vec(any::<u32>(), 0..4), any::<bool>(), option::of(any::<u32>())),
        (
            vec(limit, 0..3),
            vec(degraded.clone(), 0..3),
            guard(),
            vec(degraded, 0..3),
            network,
            option::of(observed),
            vec(bytes(), 0..3),
        ),
    )
        .prop_map(|(texts, kernel, ids, lists)| Receipt {
            profile: texts.0,
            profile_digest: texts.1,
            landlock: kernel.0,
            seccomp: kernel.1,
            namespaces: texts.3,
            uid: ids.0[0],
            gid: ids.0[1],
            groups: ids.1,
            capabilities: texts.2,
            no_new_privs: ids.2,
            securebits: ids.0[2],
            limits: lists.0,
            degraded: lists.1,
            guard: lists.2,
            unrecorded: lists.3,
            network: lists.4,
            for_uid: ids.3,
            observed: lists.5,
            unguarded: lists.6.into_iter().map(|path| RawPath(path.0)).collect(),
        })
}

fn finding() -> impl Strategy<Value = Finding> {
    let severity =
        prop_oneof![Just(Severity::Notice), Just(Severity::Warning), Just(Severity::Danger)];
    let span = any::<[u32; 2]>().prop_map(|[start, end]| Span { start, end });
    ((text(), text(), text()), severity, (texts(), texts()), option::of(span)).prop_map(
        |((kind, why, program), severity, (arguments, targets), span)| Finding {
            kind,
            why,
            severity,
            program,
            arguments,
            span,
            targets,
        },
    )
}

fn denial() -> impl Strategy<Value = Denial> {
    (text(), text(), text(), text(), text(), text()).prop_map(
        |(layer, rule, target, remedy, at, opens)| Denial {
            layer,
            rule,
            target,
            remedy,
            at,
            opens,
        },
    )
}

fn approval_outcome() -> impl Strategy<Value = ApprovalOutcome> {
    prop_oneof![
        Just(ApprovalOutcome::Approved),
        Just(ApprovalOutcome::Modified),
        Just(ApprovalOutcome::Denied),
        Just(ApprovalOutcome::Passed),
        Just(ApprovalOutcome::Replaced),
        Just(ApprovalOutcome::Withheld),
    ]
}

fn decided_by() -> impl Strategy<Value = DecidedBy> {
    prop_oneof![
        Just(DecidedBy::Default),
        text().prop_map(DecidedBy::Approver),
        text().prop_map(DecidedBy::AgentClient),
        text().prop_map(DecidedBy::Remembered),
    ]
}

fn result() -> impl Strategy<Value = CallResult> {
    let checkpoint = (approval_outcome(), decided_by(), text())
        .prop_map(|(decision, by, reason)| Checkpoint { decision, by, reason });
    (
        (name(), name(), option::of(name()), option::of(text())),
        (text(), text(), text(), option::of(error()), option::of(object())),
        (any::<[bool; 7]>(), any::<[u64; 2]>(), any::<[Option<i32>; 2]>()),
        (
            vec(finding(), 0..3),
            vec(denial(), 0..3),
            option::of(checkpoint),
            (text(), option::of(receipt())),
            option::of(route()),
        ),
    )
        .prop_map(|(names, texts, numbers, lists)| CallResult {
            call_id: names.0,
            tool: names.1,
            success: numbers.0[0],
            output: texts.0,
            truncated: numbers.0[1],
            lossy: numbers.0[2],
            execution_time_ms: numbers.1[0],
            error: texts.3,
            stdout: texts.1,
            stderr: texts.2,
            exit_code: numbers.2[0],
            signal: numbers.2[1],
            timed_out: numbers.0[3],
            cancelled: numbers.0[4],
            oom: numbers.0[5],
            pipe_held: numbers.0[6],
            omitted_bytes: numbers.1[1],
            spool: names.2,
            data: texts.4,
            undo: names.3,
            findings: lists.0,
            denials: lists.1,
            checkpoint: lists.2,
            route: lists.4,
            receipt_digest: lists.3.0,
            receipt: lists.3.1.map(Box::new),
        })
}

fn route() -> impl Strategy<Value = Route> {
    (0..3_u8).prop_map(|number| codec::decode(&[number]).unwrap())
}

fn metadata() -> impl Strategy<Value = ToolMetadata> {
    (any::<[bool; 5]>(), 0..5_u8, 0..6_u8, text()).prop_map(
        |(flags, class, operation, search_hint)| ToolMetadata {
            concurrency_safe: flags[0],
            read_only: flags[1],
            destructive: flags[2],
            permission_class: codec::decode(&[class]).unwrap(),
            audit_operation: codec::decode(&[operation]).unwrap(),
            requires_checkpoint: flags[3],
            requires_reverse_thinking: flags[4],
            search_hint,
        },
    )
}

fn tool() -> impl Strategy<Value = ToolSpec> {
    (name(), vec(name(), 0..3), text(), object(), metadata()).prop_map(
        |(name, aliases, description, schema, metadata)| ToolSpec {
            name,
            aliases,
            description,
            schema,
            metadata,
        },
    )
}

fn status() -> impl Strategy<Value = Status> {
    let layer =
        (text(), any::<bool>(), text(), text()).prop_map(|(layer, available, detail, advice)| {
            LayerStatus { layer, available, detail, advice }
        });
    let session = (name(), path(), text(), any::<u64>(), any::<u32>()).prop_map(
        |(session, workspace, profile, calls, in_flight)| SessionStatus {
            session,
            workspace,
            profile,
            calls,
            in_flight,
        },
    );
    (
        (text(), text(), text()),
        (text(), text(), text(), text()),
        vec(layer, 0..3),
        texts(),
        (vec(session, 0..3), operator::kept()),
        (any::<bool>(), text(), text()),
    )
        .prop_map(|(host, rooms, layers, profiles, (sessions, kept), records)| Status {
            server: host.0,
            build_id: host.1,
            kernel: host.2,
            mode: rooms.0,
            broker: rooms.1,
            launcher: rooms.2,
            egress: rooms.3,
            layers,
            profiles,
            sessions,
            kept,
            records: RecordsStatus { available: records.0, detail: records.1, advice: records.2 },
        })
}

fn connection() -> impl Strategy<Value = ConnectionInfo> {
    let texts = (text(), text(), text(), option::of(text()));
    ((name(), vec(name(), 0..3)), texts, any::<u16>(), any::<u64>()).prop_map(
        |((session, call_ids), (host, asked, rule, address), port, time_ms)| ConnectionInfo {
            session,
            call_ids,
            host,
            port,
            asked,
            rule,
            address,
            time_ms,
        },
    )
}

fn job() -> impl Strategy<Value = JobInfo> {
    ((name(), name(), text()), any::<[u64; 3]>(), any::<bool>(), any::<[Option<i32>; 2]>())
        .prop_map(|((session, call_id, command), numbers, running, end)| JobInfo {
            session,
            job: numbers[0],
            call_id,
            command,
            running,
            exit_code: end[0],
            signal: end[1],
            output_bytes: numbers[1],
            time_ms: numbers[2],
        })
}

fn undo_record() -> impl Strategy<Value = UndoRecord> {
    ((name(), name(), name(), path()), any::<[u64; 2]>(), any::<[bool; 2]>()).prop_map(
        |((call_id, session, tool, workspace), numbers, flags)| UndoRecord {
            call_id,
            session,
            tool,
            workspace,
            age_ms: numbers[0],
            bytes: numbers[1],
            loss: flags[0],
            undone: flags[1],
        },
    )
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        (any::<u16>(), text(), texts()).prop_map(|(version, server, capabilities)| {
            Reply::Welcome(Welcome { version, server, capabilities })
        }),
        (
            name(),
            path(),
            (receipt(), text()),
            option::of(text()),
            any::<u64>(),
            limits_of_session()
        )
            .prop_map(
                |(session, workspace, (receipt, receipt_digest), token, grace_ms, limits)| {
                    Reply::Opened(Box::new(Opened {
                        session,
                        workspace,
                        receipt,
                        receipt_digest,
                        token,
                        grace_ms,
                        limits,
                    }))
                }
            ),
        (
            (name(), path(), (receipt(), text()), any::<u64>(), open(), limits_of_session()),
            vec(any::<u64>(), 0..3),
            vec(any::<u64>(), 0..3)
        )
            .prop_map(
                |(
                    (session, workspace, (receipt, receipt_digest), grace_ms, terms, limits),
                    running,
                    finished,
                )| {
                    Reply::Resumed(Box::new(Resumed {
                        session,
                        workspace,
                        receipt,
                        receipt_digest,
                        grace_ms,
                        terms,
                        running,
                        finished,
                        limits,
                    }))
                }
            ),
        vec(result(), 0..3).prop_map(|results| Reply::Batch(BatchResults { results })),
        vec(job(), 0..3).prop_map(|jobs| Reply::Jobs(Jobs { jobs })),
        vec(connection(), 0..3)
            .prop_map(|connections| Reply::Connections(Connections { connections })),
        (vec(undo_record(), 0..3), any::<u64>())
            .prop_map(|(records, more)| Reply::UndoRecords(UndoRecords { records, more })),
        result().prop_map(|result| Reply::Result(Box::new(result))),
        Just(Reply::Done),
        Just(Reply::Pong),
        (name(), any::<[u64; 3]>(), bytes()).prop_map(
            |(call_id, [offset, spooled, total], data)| {
                Reply::Output(OutputPage { call_id, offset, data, spooled, total })
            }
        ),
        vec(tool(), 0..3).prop_map(|tools| Reply::Tools(ToolList { tools })),
        status().prop_map(|status| Reply::Status(Box::new(status))),
        error().prop_map(Reply::Error),
        operator::reply(),
        provider::reply(),
    ]
}

/// Generates any message that the daemon may send.
pub(crate) fn message() -> impl Strategy<Value = ServerMessage> {
    prop_oneof![
        6 => (option::of(0..=limits::MAX_ID), reply())
            .prop_map(|(id, reply)| ServerMessage::Reply { id, reply }),
        1 => (any::<u64>(), stream(), bytes()).prop_map(|(call, stream, data)| {
            ServerMessage::Event(Event::Output { call, stream, data })
        }),
        1 => (any::<u64>(), text(), any::<u64>(), option::of(any::<u64>())).prop_map(
            |(call, message, done, total)| {
                ServerMessage::Event(Event::Progress { call, message, done, total })
            }
        ),
        3 => operator::event().prop_map(ServerMessage::Event),
        1 => provider::event().prop_map(ServerMessage::Event),
    ]
}
