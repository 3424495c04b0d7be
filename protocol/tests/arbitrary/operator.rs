//! Arbitrary requests, replies and events of operators and observers.

use super::{
    approval_outcome, bytes, decided_by, error, finding, name, object, path, stream, text, texts,
};
use palisade_protocol::*;
use proptest::{collection::vec, option, prelude::*};

pub(super) fn thinking() -> impl Strategy<Value = ReverseThinking> {
    (texts(), texts(), text(), text()).prop_map(
        |(assumptions, failure_scenarios, verdict, verdict_reason)| ReverseThinking {
            assumptions,
            failure_scenarios,
            verdict,
            verdict_reason,
        },
    )
}

fn review() -> impl Strategy<Value = Review> {
    prop_oneof![Just(Review::Input), Just(Review::Output), Just(Review::Effects)]
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        Just(Scope::ExactCall),
        texts().prop_map(|words| Scope::CommandPrefix(CommandPrefix { words })),
        path().prop_map(|path| Scope::Path(PathScope { path })),
        (path(), texts(), texts()).prop_map(|(path, kinds, programs)| Scope::Losses(LossScope {
            path,
            kinds,
            programs
        })),
    ]
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        Just(Decision::Approve),
        object().prop_map(|arguments| Decision::ApproveModified(Modified { arguments })),
        (text(), text()).prop_map(|(reason, guidance)| Decision::Deny(Deny { reason, guidance })),
        Just(Decision::Pass),
        (text(), option::of(object()))
            .prop_map(|(output, data)| Decision::Replace(Replace { output, data })),
        text().prop_map(|reason| Decision::Withhold(Withhold { reason })),
        (any::<bool>(), vec(path(), 0..3)).prop_map(|(without_deletions, without)| {
            Decision::ApprovePart(Part { without_deletions, without })
        }),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let until = prop_oneof![Just(Until::Session), any::<u64>().prop_map(Until::Ms)];
    let remember = (scope(), until).prop_map(|(scope, until)| Remember { scope, until });
    (name(), text(), decision(), option::of(remember)).prop_map(
        |(request, digest, decision, remember)| Answer { request, digest, decision, remember },
    )
}

pub(super) fn request() -> impl Strategy<Value = Request> {
    let times = (option::of(any::<u64>()), option::of(any::<u64>()));
    prop_oneof![
        (text(), vec(review(), 0..3), vec(name(), 0..3), any::<i32>(), times, option::of(name()))
            .prop_map(|(name, reviews, tools, priority, (deadline_ms, heartbeat_ms), session)| {
                Request::Register(Register {
                    name,
                    reviews,
                    tools,
                    priority,
                    deadline_ms,
                    heartbeat_ms,
                    session,
                })
            }),
        answer().prop_map(|answer| Request::Answer(Box::new(answer))),
        Just(Request::Withdraw),
        Just(Request::Pending),
        Just(Request::Grants),
        name().prop_map(|id| Request::Revoke(Revoke { id })),
        option::of(name()).prop_map(|session| Request::Subscribe(Subscribe { session })),
        name().prop_map(|session| Request::Abort(Abort { session })),
        Just(Request::Overview),
        (name(), vec(scope(), 0..3)).prop_map(|(request, scopes)| {
            Request::ScopeHistory(ScopeQuery { request, scopes })
        }),
        option::of(name()).prop_map(|prefix| Request::Records(RecordQuery { prefix })),
        name().prop_map(|call_id| Request::Kill(Kill { call_id })),
        any::<(Option<u32>, bool, bool, u64)>().prop_map(|(uid, spools, undo, older_than_ms)| {
            Request::Forget(Forget { uid, spools, undo, older_than_ms })
        }),
    ]
}

fn view() -> impl Strategy<Value = View> {
    let line =
        (text(), vec(any::<u32>(), 0..3)).prop_map(|(text, findings)| ViewLine { text, findings });
    let target = (path(), option::of(text()), any::<u64>(), any::<bool>())
        .prop_map(|(path, there, size, lost)| Target { path, there, size, lost });
    let change = ((path(), text(), option::of(path())), any::<[u64; 3]>(), any::<bool>()).prop_map(
        |((path, effect, from), [entries, size_before, size], lost)| FileChange {
            path,
            effect,
            from,
            entries,
            size_before,
            size,
            lost,
        },
    );
    (vec(line, 0..3), vec(target, 0..3), option::of(text()), any::<bool>(), vec(change, 0..3))
        .prop_map(|(lines, targets, diff, diff_cut, changes)| View {
            lines,
            targets,
            diff,
            diff_cut,
            changes,
        })
}

fn approval_request() -> impl Strategy<Value = ApprovalRequest> {
    let asker = ((any::<u32>(), any::<u32>()), option::of(text()), name(), text(), path())
        .prop_map(|((uid, pid), unit, session, profile, workspace)| Asker {
            uid,
            pid,
            unit,
            session,
            profile,
            workspace,
        });
    (
        (name(), text(), review(), asker, name(), name()),
        (object(), path(), option::of(text()), option::of(thinking())),
        (vec(finding(), 0..3), text(), view(), option::of(text())),
        (texts(), texts(), any::<u64>(), (any::<u64>(), texts(), any::<u64>())),
    )
        .prop_map(|(ids, call, seen, rest)| ApprovalRequest {
            id: ids.0,
            digest: ids.1,
            review: ids.2,
            asker: ids.3,
            call_id: ids.4,
            tool: ids.5,
            arguments: call.0,
            cwd: call.1,
            reason: call.2,
            reverse_thinking: call.3,
            findings: seen.0,
            why: seen.1,
            view: seen.2,
            output: seen.3,
            scopes: rest.0,
            prefix: rest.1,
            remember_ms: rest.2,
            quorum: rest.3.0,
            approved_by: rest.3.1,
            expires_in_ms: rest.3.2,
        })
}

fn grant() -> impl Strategy<Value = Grant> {
    (
        (name(), option::of(name()), any::<u32>(), text(), name()),
        (scope(), text(), text(), option::of(any::<u64>()), any::<u64>()),
    )
        .prop_map(|(whose, what)| Grant {
            id: whose.0,
            session: whose.1,
            uid: whose.2,
            profile: whose.3,
            tool: whose.4,
            scope: what.0,
            summary: what.1,
            by: what.2,
            expires_in_ms: what.3,
            used: what.4,
        })
}

pub(super) fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        name().prop_map(|handler| Reply::Registered(Registered { handler })),
        (option::of(name()), any::<u64>())
            .prop_map(|(grant, missing)| Reply::Answered(Answered { grant, missing })),
        overview().prop_map(|overview| Reply::Overview(Box::new(overview))),
        any::<[u64; 3]>().prop_map(|[spools, calls, bytes]| {
            Reply::Forgotten(Forgotten { spools, calls, bytes })
        }),
        vec(approval_request(), 0..3).prop_map(|requests| Reply::Pending(Pending { requests })),
        vec(grant(), 0..3).prop_map(|grants| Reply::Grants(Grants { grants })),
        (any::<[u64; 2]>(), vec(any::<[u64; 2]>(), 0..3)).prop_map(
            |([period_ms, requests], scopes)| {
                let used = |[covered, denied]: [u64; 2]| ScopeUse { covered, denied };
                let scopes = scopes.into_iter().map(used).collect();
                Reply::ScopeHistory(ScopeHistory { period_ms, requests, scopes })
            }
        ),
        (name(), texts(), any::<bool>()).prop_map(|(call_id, lines, is_cut)| {
            Reply::Records(CallRecords { call_id, lines, is_cut })
        }),
    ]
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let whose = || (name(), name(), name());
    prop_oneof![
        approval_request().prop_map(|request| Event::ApprovalRequest(Box::new(request))),
        (name(), approval_outcome(), decided_by()).prop_map(|(request, outcome, by)| {
            Event::ApprovalClosed(ApprovalClosed { request, outcome, by })
        }),
        (name(), decided_by(), any::<u64>()).prop_map(|(request, by, missing)| {
            Event::ApprovalGiven(ApprovalGiven { request, by, missing })
        }),
        (whose(), object(), review(), (approval_outcome(), decided_by(), text(), text())).prop_map(
            |(whose, arguments, review, (decision, by, reason, digest))| {
                Event::ToolApproval(Approval {
                    session: whose.0,
                    call_id: whose.1,
                    tool: whose.2,
                    arguments,
                    review,
                    decision,
                    by,
                    reason,
                    digest,
                })
            }
        ),
        (whose(), object(), option::of(text())).prop_map(|(whose, arguments, reason)| {
            Event::CallStarted(CallStarted {
                session: whose.0,
                call_id: whose.1,
                tool: whose.2,
                arguments,
                reason,
            })
        }),
        (
            whose(),
            (any::<bool>(), option::of(any::<i32>()), option::of(error())),
            (text(), any::<u64>())
        )
            .prop_map(
                |(whose, (success, exit_code, error), (output, execution_time_ms))| {
                    Event::CallEnded(CallEnded {
                        session: whose.0,
                        call_id: whose.1,
                        tool: whose.2,
                        success,
                        exit_code,
                        error,
                        output,
                        execution_time_ms,
                    })
                }
            ),
        (whose(), error()).prop_map(|(whose, error)| {
            Event::Denied(Denied { session: whose.0, call_id: whose.1, tool: whose.2, error })
        }),
        (name(), name(), stream(), bytes()).prop_map(|(session, call_id, stream, data)| {
            Event::CallOutput { session, call_id, stream, data }
        }),
        any::<(u64, u64)>().prop_map(|(events, bytes)| Event::Lost { events, bytes }),
    ]
}

/// Generates an overview of what is stored for a user's calls.
pub(super) fn kept() -> impl Strategy<Value = KeptOverview> {
    any::<(u32, [u64; 4])>().prop_map(|(uid, bytes)| KeptOverview {
        uid,
        spool_bytes: bytes[0],
        spool_most: bytes[1],
        undo_bytes: bytes[2],
        undo_most: bytes[3],
    })
}

fn overview() -> impl Strategy<Value = Overview> {
    let session = (
        (name(), any::<u32>(), option::of(any::<u32>()), text(), path()),
        (any::<[u64; 2]>(), any::<[u32; 3]>(), option::of(any::<u64>())),
    )
        .prop_map(
            |((session, uid, pid, profile, workspace), (times, counts, memory_bytes))| {
                SessionOverview {
                    session,
                    uid,
                    pid,
                    profile,
                    workspace,
                    time_ms: times[0],
                    calls: times[1],
                    in_flight: counts[0],
                    jobs: counts[1],
                    memory_bytes,
                    runs_as: counts[2],
                }
            },
        );
    let stage = proptest::sample::select(&CallStage::ALL[..]);
    let call = (name(), name(), name(), stage, any::<u64>(), text()).prop_map(
        |(call_id, session, tool, stage, time_ms, summary)| CallOverview {
            call_id,
            session,
            tool,
            stage,
            time_ms,
            summary,
        },
    );
    let parts = (vec(session, 0..3), vec(call, 0..3), vec(kept(), 0..3));
    (text(), any::<bool>(), any::<[u64; 3]>(), parts).prop_map(
        |(
            server,
            launcher,
            [memory_bytes, approval_requests, lost_records],
            (sessions, calls, kept),
        )| {
            Overview {
                server,
                launcher,
                memory_bytes,
                approval_requests,
                lost_records,
                sessions,
                calls,
                kept,
            }
        },
    )
}
