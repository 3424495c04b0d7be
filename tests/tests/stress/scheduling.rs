//! The order of calls: side by side as many as may, the others in order, batches in order, and
//! nobody held up by somebody else.

use palisade_protocol::{
    Batch, Call, CallOptions, ErrorCode, Reply, Request,
    limits::{MAX_BATCH, MAX_CALLS_IN_FLIGHT},
    wire::Dialect,
};
use palisade_tests::{
    Mode, World, profile_with,
    raw::{DIALECTS, Raw, call},
};
use serde_json::{Value, json};
use std::{fs, time::Duration};

fn one(tool: &str, arguments: Value) -> Call {
    let Request::Call(call) = call(tool, &arguments, CallOptions::default()) else {
        panic!("not a call");
    };
    call
}

fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn the_results_of_a_batch_are_in_order_and_its_writes_too() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        for dialect in DIALECTS {
            fs::remove_file(world.workspace().join("order")).unwrap_or_default();
            let mut raw = Raw::opened(daemon.connect(mode), dialect, &world.workspace());
            let mut calls = vec![one("bash", json!({"command": "sleep 0.3; echo 0 > order"}))];
            calls.extend(
                (1..8).map(|n| one("bash", json!({"command": format!("echo {n} >> order")}))),
            );
            calls.push(one("bash", json!({"command": "cat order"})));
            calls.push(one("no_such_tool", json!({})));
            calls.push(one("bash", json!({"command": "exit 3"})));
            let Reply::Batch(batch) = raw.ask(Request::Batch(Batch { calls })) else {
                panic!("no batch")
            };
            assert_eq!(batch.results.len(), 11);
            assert_eq!(batch.results[8].stdout, "0\n1\n2\n3\n4\n5\n6\n7\n");
            let code = |n: usize| batch.results[n].error.as_ref().map(|error| error.code);
            assert_eq!(
                (code(0), code(9), code(10)),
                (None, Some(ErrorCode::ToolNotFound), Some(ErrorCode::CommandFailed))
            );
            // Invalid batches.
            let attach = CallOptions { attach: true, ..CallOptions::default() };
            let attached = Call { options: attach, ..one("bash", json!({"command": "cat"})) };
            for calls in [
                vec![],
                vec![one("bash", json!({"command": "true"})); MAX_BATCH + 1],
                vec![attached],
            ] {
                assert_eq!(raw.refusal(Request::Batch(Batch { calls })), ErrorCode::InvalidRequest);
            }
        }
    }
}

#[test]
fn a_refused_batch_leaves_the_keys_of_its_calls_free() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mut raw = Raw::opened(daemon.connect(mode), Dialect::Frames, &world.workspace());
        let keyed = |key: &str, command: &str| {
            let options =
                CallOptions { idempotency_key: Some(key.into()), ..CallOptions::default() };
            Call { options, ..one("bash", json!({"command": command})) }
        };
        // The second call has the key of the first and another command.
        let calls = vec![keyed("key", "echo made"), keyed("key", "echo other")];
        assert_eq!(raw.refusal(Request::Batch(Batch { calls })), ErrorCode::InvalidRequest);
        let Reply::Result(result) = raw.ask(Request::Call(keyed("key", "echo made"))) else {
            panic!("{mode:?}: no result")
        };
        assert_eq!(result.stdout, "made\n", "{mode:?}");
    }
}

#[test]
fn a_batch_is_cancelled_whole_and_counts_as_its_calls() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mut raw = Raw::opened(daemon.connect(mode), Dialect::Frames, &world.workspace());
        let sleeps = || {
            Request::Batch(Batch {
                calls: vec![one("bash", json!({"command": "sleep 300"})); MAX_BATCH],
            })
        };
        let ids: Vec<_> =
            (0..MAX_CALLS_IN_FLIGHT / MAX_BATCH).map(|_| raw.send(sleeps())).collect();
        let refused =
            raw.refusal(call("bash", &json!({"command": "true"}), CallOptions::default()));
        assert_eq!(refused, ErrorCode::LimitReached);
        for id in ids {
            let cancel = raw.send(Request::Cancel(palisade_protocol::Cancel { call: id }));
            let mut wanted = vec![cancel, id];
            while !wanted.is_empty() {
                let (answered, reply) = raw.reply();
                wanted.retain(|id| Some(*id) != answered);
                if let Reply::Batch(batch) = reply {
                    assert!(batch.results.iter().all(|result| result.cancelled));
                }
            }
        }
        assert!(raw.result("bash", &json!({"command": "true"})).success);
    }
}

#[test]
fn as_many_as_the_profile_allows_run_side_by_side() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("single", &profile_with(&[("parallel = 8", "parallel = 1")]));
        for index in 0..100 {
            let path = world.workspace().join(format!("file-{index}"));
            fs::write(&path, format!("{index}\n")).unwrap();
            world.give(&path);
        }
        for profile in ["unasked", "single"] {
            let sandbox = world.open_with(profile);
            let outputs: Vec<String> = sandbox.wait(async {
                let mut running = Vec::new();
                for index in 0..100 {
                    let call =
                        sandbox.session.call("read_file", json!({"path": format!("file-{index}")}));
                    // More than may be in flight wait for their place.
                    running.push(tokio::spawn(call.into_future()));
                }
                let mut outputs = Vec::new();
                for call in running {
                    outputs.push(call.await.unwrap().unwrap().output);
                }
                outputs
            });
            let expected: Vec<String> = (0..100).map(|index| format!("{index}\n")).collect();
            assert_eq!(outputs, expected);
            // A waiting job_output takes nobody's place.
            let result = sandbox.done("bash", json!({"command": "sleep 1000", "background": true}));
            let job = palisade_tests::data(&result)["job"].clone();
            let waiting =
                sandbox.session.call("job_output", json!({"job": job, "wait_ms": 600_000}));
            let waiting = sandbox.wait(waiting.start()).unwrap();
            assert_eq!(sandbox.done("read_file", json!({"path": "file-7"})).output, "7\n");
            assert_eq!(sandbox.ok("echo beside"), "beside\n");
            drop(waiting);
        }
    }
}

#[test]
fn ten_thousand_calls_of_one_session_starve_nobody() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let broker = daemon.child.id();
        let mut greedy = Raw::opened(daemon.connect(mode), Dialect::Frames, &world.workspace());
        let mut beside = Raw::opened(daemon.connect(mode), Dialect::Frames, &world.workspace());
        let before = memory(broker);
        let writer = std::thread::spawn(move || {
            for _ in 0..10_000 {
                greedy.send(call("bash", &json!({"command": "true"}), CallOptions::default()));
            }
            greedy
        });
        // It does not read, so that in the end its own writing waits; others get their answers.
        for _ in 0..20 {
            assert_eq!(beside.result("bash", &json!({"command": "echo hi"})).stdout, "hi\n");
        }
        let grown = memory(broker).saturating_sub(before);
        assert!(grown < 64 * 1024, "{grown} KiB more for calls that wait");
        drop(beside);
        // The greedy one is let go while it still writes.
        let end = std::time::Instant::now() + Duration::from_secs(2);
        while std::time::Instant::now() < end && !writer.is_finished() {
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut third = Raw::opened(daemon.connect(mode), Dialect::JsonLines, &world.workspace());
        assert!(third.result("bash", &json!({"command": "true"})).success);
        drop(daemon);
        drop(writer.join().unwrap());
    }
}

#[test]
fn the_client_lets_ten_thousand_calls_wait_for_their_place() {
    let world = World::new(Mode::User);
    let sandbox = world.open();
    fs::write(world.workspace().join("file"), "text\n").unwrap();
    world.give(&world.workspace().join("file"));
    let good = sandbox.wait(async {
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..10_000 {
            let call = sandbox.session.call("read_file", json!({"path": "file"}));
            running.spawn(call.into_future());
        }
        let mut good = 0;
        while let Some(done) = running.join_next().await {
            good += usize::from(done.unwrap().unwrap().output == "text\n");
        }
        good
    });
    assert_eq!(good, 10_000);
}

#[test]
fn a_reader_that_stops_reading_holds_up_nobody_else() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let broker = daemon.child.id();
        let before = memory(broker);
        let mut deaf = Raw::opened(daemon.connect(mode), Dialect::Frames, &world.workspace());
        let options = CallOptions { stream: true, ..CallOptions::default() };
        for _ in 0..16 {
            let line = json!({"command": "head -c 50000000 /dev/zero", "timeout_ms": 600_000});
            deaf.send(call("bash", &line, options.clone()));
        }
        let mut beside = Raw::opened(daemon.connect(mode), Dialect::Frames, &world.workspace());
        for _ in 0..20 {
            assert_eq!(beside.result("bash", &json!({"command": "echo hi"})).stdout, "hi\n");
        }
        let grown = memory(broker).saturating_sub(before);
        assert!(grown < 64 * 1024, "{grown} KiB more for a reader that does not read");
    }
}
