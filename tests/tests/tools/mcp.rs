//! The MCP server, as an agent's client meets it: messages on pipes, calls in the sandbox, and the
//! host as witness.

use palisade_client::{Answer, Operator, OperatorEvent, Registration};
use palisade_tests::{
    Mcp, Mode, UNASKED, World, mcp_text as text, processes, profile_with,
    rooms::{Rooms, until},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;

/// Returns the parameters that a client of 2026-07-28 sends with each request.
fn inline(more: Value) -> Value {
    let mut params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

#[test]
fn clients_of_each_era_are_served() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let socket = daemon.socket.to_str().unwrap();
        let arguments = ["--socket", socket, "--profile", UNASKED];
        let bash = json!({"name": "bash", "arguments": {"command": "echo $((6*7))"}});
        for version in ["2025-06-18", "2025-11-25"] {
            let mut mcp = Mcp::start(&world, &arguments);
            let welcome = mcp.initialize(version);
            assert_eq!(welcome["protocolVersion"], version, "{welcome}");
            assert_eq!(welcome["serverInfo"]["name"], "palisade");
            let instructions = welcome["instructions"].as_str().unwrap();
            assert!(instructions.contains("shell commands"), "{instructions}");
            let listed = mcp.ask("tools/list", json!({}));
            assert!(listed["result"]["tools"].as_array().unwrap().len() > 20, "{listed}");
            let answer = mcp.ask("tools/call", bash.clone());
            assert_eq!(text(&answer["result"]), "42\n[exit 0]", "{mode:?} {version}: {answer}");
            assert_eq!(mcp.ask("ping", json!({}))["result"], json!({}));
            mcp.end();
        }
        let mut mcp = Mcp::start(&world, &arguments);
        let found = mcp.ask("server/discover", inline(json!({})));
        let versions = found["result"]["supportedVersions"].as_array().unwrap();
        assert!(versions.contains(&json!("2026-07-28")), "{found}");
        let listed = mcp.ask("tools/list", inline(json!({})));
        assert_eq!(listed["result"]["resultType"], "complete", "{listed}");
        let answer = mcp.ask("tools/call", inline(bash));
        assert_eq!(text(&answer["result"]), "42\n[exit 0]", "{mode:?}: {answer}");
        mcp.end();
    }
}

/// The list is told before any daemon is there, and is the one that the daemon has.
#[test]
fn tools_are_listed_without_a_daemon_and_are_the_daemons() {
    let [mode, ..] = Mode::all()[..] else { panic!("no mode") };
    let world = World::new(mode);
    let mut mcp = Mcp::start(&world, &[]);
    mcp.initialize("2025-11-25");
    let own = mcp.ask("tools/list", json!({}))["result"]["tools"].clone();
    let pid = i32::try_from(mcp.child.id()).unwrap();
    assert_eq!(processes::tree(pid).len(), 1, "no daemon was started");
    mcp.end();
    let daemon = world.daemon();
    let mut mcp = Mcp::over(&world, &daemon, &[]);
    let daemons = mcp.ask("tools/list", json!({}))["result"]["tools"].clone();
    mcp.end();
    let advice = "palisade tools --format json | jq . > client/mcp/src/tools.json";
    assert_eq!(own, daemons, "the lists differ; write it anew: {advice}");
    for tool in own.as_array().unwrap() {
        let hints = tool["annotations"].as_object().unwrap();
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(hints[hint].is_boolean(), "{hint}: {tool}");
        }
        assert!(tool["inputSchema"]["properties"].is_object(), "{tool}");
    }
}

#[test]
fn the_command_line_becomes_the_server() {
    let [mode, ..] = Mode::all()[..] else { panic!("no mode") };
    let world = World::new(mode);
    let mut command = world.command("palisade");
    command.args(["mcp", "--tools", "Read,grep"]);
    let mut mcp = Mcp::spawn(&world, command);
    mcp.initialize("2025-06-18");
    let listed = mcp.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["grep", "read_file", "read_output"]);
    let refused =
        mcp.ask("tools/call", json!({"name": "bash", "arguments": {"command": "touch made"}}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(!world.workspace().join("made").exists());
    mcp.end();
    let output = world.command("palisade").args(["mcp", "--workspace", "/none"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_call_writes_in_the_workspace_and_nowhere_else() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mut mcp = Mcp::over(&world, &daemon, &[]);
        let written = mcp.call("Write", json!({"file_path": "a.txt", "contents": "hello\n"}));
        assert_eq!(written["isError"], false, "{mode:?}: {written}");
        let path = world.workspace().join("a.txt");
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello\n");
        let edited = json!({"path": "a.txt", "old_str": "hello", "new_str": "bye"});
        assert_eq!(mcp.call("edit", edited)["isError"], false);
        assert_eq!(fs::read_to_string(&path).unwrap(), "bye\n");

        let outside = world.outside().join("new");
        let line = format!("echo x > {}", outside.display());
        let refused = mcp.call("bash", json!({"command": line}));
        assert_eq!(refused["isError"], true, "{mode:?}: {refused}");
        assert!(text(&refused).ends_with("\n[exit 1]") || text(&refused).contains("[exit 1]\n"));
        assert_eq!(refused["structuredContent"]["exit_code"], 1);
        let read = mcp.call("read_file", json!({"path": world.canary()}));
        assert_eq!(read["isError"], true, "{mode:?}: {read}");
        let errno = &read["structuredContent"]["error"]["errno"];
        assert!(errno.as_i64().is_some_and(|errno| errno > 0), "{mode:?}: {read}");
        world.assert_canary_untouched();
        mcp.end();
    }
}

/// A model has to know that its call did not run as it was written.
#[test]
fn what_was_changed_in_a_call_is_said() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mut mcp = Mcp::over(&world, &daemon, &[]);
        let env = json!({"LD_PRELOAD": "/tmp/x.so", "PLAIN": "1"});
        let changed = json!({"command": "echo $PLAIN", "env": env, "timeout": 1_000_000_000});
        let result = mcp.call("bash", changed);
        assert_eq!(result["isError"], false, "{mode:?}: {result}");
        let said = text(&result);
        assert!(said.starts_with("1\n[exit 0]\n[changed: "), "{mode:?}: {said}");
        for part in ["[changed: the variable LD_PRELOAD", "[changed: the timeout of 1000000000 ms"]
        {
            assert!(said.contains(part), "{mode:?}: {part}: {said}");
        }
        let facts = result["structuredContent"]["adjustments"].as_array().unwrap();
        assert_eq!(facts.len(), 2, "{mode:?}: {result}");
        let control = mcp.call("bash", json!({"command": "echo on", "timeout": 10_000}));
        assert_eq!(text(&control), "on\n[exit 0]", "{mode:?}: nothing was changed");
        mcp.end();
    }
}

/// Without an approver a loss is denied, in words that a model can act on.
#[test]
fn a_loss_is_denied_with_a_remedy_and_did_not_happen() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let kept = world.workspace().join("kept.txt");
        fs::write(&kept, "precious\n").unwrap();
        world.give(&kept);
        let mut mcp = Mcp::start(&world, &["--profile", "workspace"]);
        mcp.initialize("2025-11-25");
        let denied = mcp.call("bash", json!({"command": "rm kept.txt; echo gone"}));
        assert_eq!(denied["isError"], true, "{mode:?}: {denied}");
        let said = text(&denied);
        assert!(said.contains("\nDenied: ") && said.contains("kept.txt"), "{said}");
        assert!(said.contains("What to do: ") && said.contains("private daemon"), "{said}");
        assert_eq!(denied["structuredContent"]["error"]["code"], "denied");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "precious\n");
        let control =
            mcp.call("bash", json!({"command": "echo x > new.txt; rm new.txt; echo gone"}));
        assert_eq!(control["isError"], false, "{mode:?}: {control}");
        mcp.end();
    }
}

#[test]
fn a_cancelled_call_ends_with_everything_it_started() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mut mcp = Mcp::over(&world, &daemon, &[]);
        let mark = processes::mark();
        let line = format!(
            "trap '' TERM; (setsid bash -c 'exec -a {mark} sleep 600' &); exec -a {mark} sleep 600"
        );
        let arguments = json!({"command": line, "timeout_ms": 500_000});
        let id = mcp.send("tools/call", json!({"name": "bash", "arguments": arguments}));
        until("the call is under way", || processes::marked(&mark).len() >= 2);
        mcp.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
        until("the call's processes are gone", || processes::marked(&mark).is_empty());
        let next = mcp.call("bash", json!({"command": "echo on"}));
        assert_eq!(text(&next), "on\n[exit 0]", "{mode:?}: the session goes on");
        assert!(mcp.seen.iter().all(|message| message["id"] != json!(id)), "{:?}", mcp.seen);
        mcp.end();
    }
}

#[test]
fn the_end_of_input_ends_everything() {
    for mode in Mode::all() {
        let world = World::new(mode);
        // Its own private daemon, which has to end too.
        let mut mcp = Mcp::start(&world, &["--profile", "workspace"]);
        mcp.initialize("2025-11-25");
        let mark = processes::mark();
        let line =
            format!("(setsid bash -c 'exec -a {mark} sleep 600' &); exec -a {mark} sleep 600");
        let arguments = json!({"command": line, "timeout_ms": 500_000});
        mcp.send("tools/call", json!({"name": "bash", "arguments": arguments}));
        until("the call is under way", || processes::marked(&mark).len() >= 2);
        let rooms = processes::tree(i32::try_from(mcp.child.id()).unwrap());
        assert!(rooms.iter().any(|process| process.name == "palisaded"), "{rooms:?}");
        mcp.end();
        assert_eq!(processes::marked(&mark), [], "{mode:?}");
        let left = processes::all();
        assert!(rooms.iter().all(|room| !left.contains(room)), "{mode:?}: {left:?}");
    }
}

#[test]
fn what_is_no_message_and_what_is_no_tool_are_typed_errors() {
    let [mode, ..] = Mode::all()[..] else { panic!("no mode") };
    let world = World::new(mode);
    let mut mcp = Mcp::start(&world, &[]);
    mcp.initialize("2025-11-25");
    mcp.say("{\"jsonrpc\": \"2.0\", ");
    assert_eq!(mcp.hear()["error"]["code"], -32700);
    mcp.say("[1, 2]");
    assert_eq!(mcp.hear()["error"]["code"], -32600);
    mcp.say("{\"jsonrpc\": \"1.0\", \"id\": 77, \"method\": \"ping\"}");
    let refused = mcp.hear();
    assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32600), &json!(77)));
    mcp.say(&format!("{{\"x\": \"{}\"}}", "x".repeat(17 << 20)));
    assert_eq!(mcp.hear()["error"]["code"], -32600);
    let cases = [
        ("tools/call", json!({"name": "bish", "arguments": {}}), -32602),
        ("tools/call", json!({"nome": "bash"}), -32602),
        ("tools/rename", json!({}), -32601),
        ("prompts/list", json!({}), -32601),
        ("resources/list", json!({}), -32601),
        ("resources/templates/list", json!({}), -32601),
    ];
    for (method, params, code) in cases {
        let answer = mcp.ask(method, params.clone());
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
    }
    let unknown = mcp.ask("tools/call", json!({"name": "bish", "arguments": {}}));
    assert_eq!(unknown["error"]["data"]["code"], "tool_not_found");
    let invalid = mcp.call("read_file", json!({"offset": 1}));
    assert_eq!(invalid["isError"], true);
    assert!(text(&invalid).contains("Error (invalid_arguments): `path`"), "{invalid}");
    // A failure without a result has its code in the structured content too.
    for arguments in [json!({}), json!({"call_id": "no id"})] {
        let failed = mcp.call("read_output", arguments);
        assert!(text(&failed).contains("Error (invalid_arguments): `call_id`"), "{failed}");
        let facts = &failed["structuredContent"];
        assert_eq!(facts["success"], false, "{failed}");
        assert_eq!(facts["error"]["code"], "invalid_arguments", "{failed}");
        assert_eq!(facts["error"]["hint"], "give the call_id that the result names", "{failed}");
    }
    mcp.end();
}

#[test]
fn a_long_output_is_cut_and_can_be_read_on() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mut mcp = Mcp::over(&world, &daemon, &["--max-output", "2000"]);
        // The daemon keeps the second of them itself: it is longer than its own results.
        for lines in [2000, 40_000] {
            let result = mcp.call("bash", json!({"command": format!("seq {lines}; echo last")}));
            let said = text(&result);
            assert!(said.chars().count() <= 2000, "{mode:?}: {}", said.len());
            assert!(said.starts_with("1\n2\n3\n") && said.ends_with("\nlast\n[exit 0]"), "{said}");
            let (_, rest) = said.split_once("read_output with call_id \"").expect(&said);
            let (id, rest) = rest.split_once("\" and offset ").unwrap();
            let mut offset: u64 = rest.split_once(' ').unwrap().0.parse().unwrap();
            let mut whole = said.get(..usize::try_from(offset).unwrap()).unwrap().to_owned();
            loop {
                let page = mcp.call("read_output", json!({"call_id": id, "offset": offset}));
                assert!(text(&page).chars().count() <= 2000);
                let facts = &page["structuredContent"];
                whole.push_str(facts["output"].as_str().unwrap());
                offset = facts["end"].as_u64().unwrap();
                if offset >= facts["total"].as_u64().unwrap() {
                    break;
                }
            }
            let expected: String = (1..=lines).map(|n| format!("{n}\n")).collect();
            assert!(whole == expected + "last\n", "{mode:?}: {} bytes", whole.len());
        }
        mcp.end();
    }
}

#[test]
fn a_long_call_is_answered_with_a_ticket_that_works_once() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mut mcp = Mcp::over(&world, &daemon, &["--wait", "200ms"]);
        let line = "echo x >> runs; until test -e go; do sleep 0.02; done; echo done";
        let arguments = json!({"command": line, "timeout_ms": 500_000});
        let with = |ticket: &str| {
            let mut arguments = arguments.clone();
            arguments["ticket"] = json!(ticket);
            arguments
        };
        let first = mcp.call("bash", arguments.clone());
        assert_eq!(first["structuredContent"]["status"], "pending", "{mode:?}: {first}");
        let ticket = first["structuredContent"]["ticket"].as_str().unwrap().to_owned();
        assert!(text(&first).contains(&ticket) && text(&first).contains(": it is still running. "));
        let other = mcp.call("bash", json!({"command": "touch stolen", "ticket": ticket}));
        assert!(text(&other).contains("belongs to another call"), "{other}");
        assert!(!world.workspace().join("stolen").exists());
        let second = mcp.call("bash", with(&ticket));
        let next = second["structuredContent"]["ticket"].as_str().unwrap().to_owned();
        assert_ne!(next, ticket);
        let used = mcp.call("bash", with(&ticket));
        assert_eq!(used["isError"], true, "{used}");
        fs::write(world.workspace().join("go"), "").unwrap();
        let mut last = mcp.call("bash", with(&next));
        // The command may take longer to notice than the call waits.
        while let Some(ticket) = last["structuredContent"]["ticket"].as_str().map(str::to_owned) {
            last = mcp.call("bash", with(&ticket));
        }
        assert_eq!(text(&last), "done\n[exit 0]", "{mode:?}");
        let runs = fs::read_to_string(world.workspace().join("runs")).unwrap();
        assert_eq!(runs, "x\n", "it ran once");
        mcp.end();
    }
}

#[test]
fn a_client_that_asks_for_it_hears_of_progress() {
    let [mode, ..] = Mode::all()[..] else { panic!("no mode") };
    let world = World::new(mode);
    let daemon = world.daemon();
    let mut mcp = Mcp::over(&world, &daemon, &[]);
    let line = "until test -e go; do sleep 0.02; done";
    let id = mcp.send(
        "tools/call",
        json!({"name": "bash", "_meta": {"progressToken": "p1"},
            "arguments": {"command": line, "timeout_ms": 500_000}}),
    );
    let news = mcp.hear();
    assert_eq!(news["method"], "notifications/progress", "{news}");
    assert_eq!(news["params"]["progressToken"], "p1");
    assert!(news["params"]["progress"].as_f64().unwrap() >= 5.0, "{news}");
    fs::write(world.workspace().join("go"), "").unwrap();
    assert_eq!(text(&mcp.answer(id)["result"]), "[exit 0]");
    mcp.end();
}

#[test]
fn a_lost_cell_or_daemon_costs_one_call_at_most() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let mut daemon = world.daemon();
        let mut mcp = Mcp::over(&world, &daemon, &[]);
        let echo = || json!({"command": "echo on"});
        assert_eq!(text(&mcp.call("bash", echo())), "on\n[exit 0]");
        let cell = Rooms::of(daemon.child.id()).cell("cell 1 files").pid;
        kill_process(Pid::from_raw(cell).unwrap(), Signal::KILL).unwrap();
        until("the daemon has noticed", || {
            !Rooms::of(daemon.child.id()).cells.iter().any(|cell| cell.name.starts_with("cell 1 "))
        });
        let lost = mcp.call("bash", echo());
        assert_eq!(lost["structuredContent"]["error"]["code"], "cell_failed", "{mode:?}: {lost}");
        assert!(text(&lost).contains("the next call opens a new one"), "{lost}");
        let again = mcp.call("bash", echo());
        assert!(text(&again).starts_with("on\n[exit 0]\n[a new session was opened"), "{again}");
        assert_eq!(text(&mcp.call("bash", echo())), "on\n[exit 0]");

        daemon.signal(Signal::KILL);
        daemon.child.wait().unwrap();
        let daemon = world.daemon();
        let again = mcp.call("bash", echo());
        assert!(text(&again).starts_with("on\n[exit 0]\n[a new session was opened"), "{again}");
        mcp.end();
        drop(daemon);
    }
}

#[test]
fn an_image_arrives_as_an_image() {
    let [mode, ..] = Mode::all()[..] else { panic!("no mode") };
    let world = World::new(mode);
    let daemon = world.daemon();
    fs::write(world.workspace().join("a.png"), b"\x89PNG\r\n\x1a\n0000").unwrap();
    let mut mcp = Mcp::over(&world, &daemon, &[]);
    let result = mcp.call("Read", json!({"file_path": "a.png"}));
    let expected = json!({"type": "image", "data": "iVBORw0KGgowMDAw", "mimeType": "image/png"});
    assert_eq!(result["content"][1], expected, "{result}");
    assert!(result["structuredContent"].is_null());
    mcp.end();
}

/// A call that needs approval gets it from an operator while the agent holds a ticket.
#[test]
fn an_approval_that_takes_long_reaches_the_call_through_its_ticket() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_profile("asking", &profile_with(&[]));
        let kept = world.workspace().join("kept.txt");
        fs::write(&kept, "precious\n").unwrap();
        world.give(&kept);
        let daemon = world.daemon();
        let socket = daemon.socket.to_str().unwrap();
        let arguments = ["--socket", socket, "--profile", "asking", "--wait", "200ms"];
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let stream =
            mode.act(|| std::os::unix::net::UnixStream::connect(&daemon.operators).unwrap());
        stream.set_nonblocking(true).unwrap();
        let operator = runtime.block_on(async {
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            let operator = Operator::from_stream(stream).await.unwrap();
            operator.register(Registration::new("person:test")).await.unwrap();
            operator
        });
        let mut mcp = Mcp::start(&world, &arguments);
        mcp.initialize("2025-11-25");
        let line = json!({"command": "rm kept.txt"});
        let mut answer = mcp.call("bash", line.clone());
        assert_eq!(answer["structuredContent"]["status"], "pending", "{mode:?}: {answer}");
        // What the command lost is asked about when it has ended.
        while answer["structuredContent"]["waits_for"] != "approval" {
            let ticket = answer["structuredContent"]["ticket"].as_str().expect("a ticket");
            answer = mcp.call("bash", json!({"command": "rm kept.txt", "ticket": ticket}));
        }
        assert!(text(&answer).contains(": it is waiting for approval. "), "{answer}");
        assert!(kept.exists(), "nobody has approved it yet");
        let approver = runtime.spawn(async move {
            while let Some(event) = operator.next().await {
                if let OperatorEvent::ApprovalRequest(request) = event {
                    operator.answer(&request, Answer::approve()).await.unwrap();
                }
            }
        });
        while let Some(ticket) = answer["structuredContent"]["ticket"].as_str().map(str::to_owned) {
            answer = mcp.call("bash", json!({"command": "rm kept.txt", "ticket": ticket}));
        }
        assert_eq!(answer["isError"], false, "{mode:?}: {answer}");
        assert!(!kept.exists());
        approver.abort();
        mcp.end();
    }
}
