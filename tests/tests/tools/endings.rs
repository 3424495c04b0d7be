//! The beginning and end of a call: standard input, deadlines, statuses and signals.

use palisade_client::Running;
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Mode, Sandbox, World, processes};
use serde_json::json;
use std::time::Duration;

const MIB: usize = 1 << 20;

fn code(result: &CallResult) -> Option<ErrorCode> {
    result.error.as_ref().map(|error| error.code)
}

/// Runs a line with something on its standard input.
fn fed(sandbox: &Sandbox, line: &str, input: Vec<u8>) -> CallResult {
    let call = sandbox.session.bash(line).timeout(Duration::from_secs(60)).stdin(input);
    sandbox.wait(async { call.await }).unwrap()
}

#[test]
fn standard_input_is_at_its_end_unless_something_is_given() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        assert_eq!(
            sandbox.ok("cat | wc -c; readlink /proc/self/fd/0"),
            "0\n/dev/null\n",
            "{mode:?}"
        );
        assert_eq!(sandbox.ok("read line || echo nothing"), "nothing\n", "{mode:?}");
        // By argument, by attachment, and an empty one.
        let result = sandbox.call("bash", json!({"command": "cat", "stdin": "by argument"}));
        assert_eq!(result.stdout, "by argument", "{mode:?}");
        assert_eq!(fed(&sandbox, "cat", b"attached".to_vec()).stdout, "attached", "{mode:?}");
        assert_eq!(fed(&sandbox, "cat | wc -c", Vec::new()).stdout, "0\n", "{mode:?}");
    }
}

#[test]
fn fifty_megabytes_go_in_and_come_out() {
    let input: Vec<u8> = (0..50 * MIB).map(|n| (n % 251) as u8).collect();
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let result = fed(&sandbox, "cat | tee copy | wc -c", input.clone());
        assert_eq!(result.stdout, format!("{}\n", 50 * MIB), "{mode:?}: {:?}", result.error);
        let copy = std::fs::read(world.workspace().join("copy")).unwrap();
        assert!(copy == input, "{mode:?}: byte for byte");
    }
}

#[test]
fn a_program_need_not_read_its_input() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let input = vec![b'x'; 20 * MIB];
        for (line, expected) in
            [("exec 0<&-; echo closed", "closed\n"), ("head -c 3", "xxx"), ("true", "")]
        {
            let result = fed(&sandbox, line, input.clone());
            assert!(result.success, "{mode:?}: {line}: {:?}", result.error);
            assert_eq!(result.stdout, expected, "{mode:?}: {line}");
        }
        // The connection is not stuck with what nobody read.
        sandbox.wait(sandbox.client.ping()).unwrap();
        assert_eq!(sandbox.ok("echo next"), "next\n", "{mode:?}");
    }
}

/// A reader that never comes to an end.
fn endless() -> impl tokio::io::AsyncRead + Send + Unpin + 'static {
    tokio::io::repeat(b'x')
}

#[test]
fn input_without_an_end_is_ended_by_the_deadline() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        for line in ["cat > /dev/null", "sleep 1000"] {
            let call = sandbox.session.bash(line).timeout(Duration::from_secs(2));
            let result = sandbox.wait(async { call.attach_reader(endless()).await }).unwrap();
            assert!(result.timed_out, "{mode:?}: {line}: {:?}", result.error);
            assert_eq!(code(&result), Some(ErrorCode::TimedOut), "{mode:?}: {line}");
        }
        // A program that ends does not wait for it either.
        let call = sandbox.session.bash("head -c 5").timeout(Duration::from_secs(60));
        let result = sandbox.wait(async { call.attach_reader(endless()).await }).unwrap();
        assert_eq!((result.success, result.stdout.as_str()), (true, "xxxxx"), "{mode:?}");
        assert_eq!(sandbox.ok("echo next"), "next\n", "{mode:?}");
    }
}

#[test]
fn input_that_stops_and_stays_open_is_ended_by_the_deadline() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let result = sandbox.wait(async {
            let (mut ours, theirs) = tokio::io::duplex(64);
            tokio::io::AsyncWriteExt::write_all(&mut ours, b"some\n").await.unwrap();
            let call = sandbox.session.bash("cat").timeout(Duration::from_secs(6));
            let result = call.attach_reader(theirs).await.unwrap();
            drop(ours);
            result
        });
        assert!(result.timed_out, "{mode:?}: {:?}", result.error);
        assert_eq!(result.stdout, "some\n", "{mode:?}");
        assert_eq!(sandbox.ok("echo next"), "next\n", "{mode:?}");
    }
}

/// Returns the changes to a call that were made so that it may run.
fn adjusted(result: &CallResult) -> Vec<&str> {
    let adjusted = result.findings.iter().filter(|found| found.kind == "adjusted");
    adjusted.map(|found| found.why.as_str()).collect()
}

#[test]
fn a_timeout_is_checked_before_anything_runs() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let line = "echo ran > ran";
        for timeout in [json!(0), json!(-1), json!(1.5), json!("5s")] {
            let result = sandbox.call("bash", json!({"command": line, "timeout_ms": timeout}));
            assert_eq!(code(&result), Some(ErrorCode::InvalidArguments), "{mode:?}: {timeout}");
            let message = result.error.unwrap().message;
            assert!(message.contains("timeout_ms"), "{mode:?}: {timeout}: {message}");
            assert_eq!((result.exit_code, result.timed_out), (None, false), "{mode:?}: {timeout}");
        }
        let option = |timeout| {
            let call = sandbox.session.bash(line).timeout(timeout);
            sandbox.wait(async { call.await })
        };
        // A timeout that no profile could allow is an invalid request.
        for timeout in [Duration::ZERO, Duration::MAX] {
            let refused = option(timeout).expect_err("refused").code();
            assert_eq!(refused, Some(ErrorCode::InvalidRequest), "{mode:?}: {timeout:?}");
        }
        assert!(!world.workspace().join("ran").exists(), "{mode:?}: nothing ran");
        let result = sandbox.call("bash", json!({"command": line, "timeout_ms": 600_000}));
        assert!(result.success && world.workspace().join("ran").exists(), "{mode:?}");
        assert_eq!(adjusted(&result), [""; 0], "{mode:?}");
        // A timeout longer than the profile allows is cut to that, and the result says so.
        for result in [
            sandbox.call("bash", json!({"command": line, "timeout_ms": u64::MAX})),
            option(Duration::from_secs(601)).unwrap(),
        ] {
            let [cut] = adjusted(&result)[..] else { panic!("{mode:?}: {result:?}") };
            assert!(result.success && cut.contains("was cut to 600000 ms"), "{mode:?}: {cut}");
        }
    }
}

#[test]
fn a_deadline_kills_and_says_so() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let mark = processes::mark();
        let line = format!("echo before; (exec -a {mark} sleep 1000); echo after");
        let call = sandbox.session.bash(line).timeout(Duration::from_secs(6));
        let result = sandbox.wait(async { call.await }).unwrap();
        assert_eq!((result.timed_out, result.cancelled, result.success), (true, false, false));
        assert_eq!(code(&result), Some(ErrorCode::TimedOut), "{mode:?}");
        assert!(result.error.unwrap().message.contains("6000"), "{mode:?}");
        assert_eq!(result.stdout, "before\n", "{mode:?}: what came is not lost");
        assert!(processes::marked(&mark).is_empty(), "{mode:?}");
    }
}

/// Starts a line that prints `up`, and waits for that.
fn started(sandbox: &Sandbox, line: &str) -> Running {
    sandbox.wait(async {
        let call = sandbox.session.bash(line).timeout(Duration::from_secs(60)).stream();
        let mut running = call.start().await.unwrap();
        running.next().await.expect("it printed");
        running
    })
}

#[test]
fn a_call_is_cancelled_in_the_middle() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let mark = processes::mark();
        let line = format!("echo up; (exec -a {mark} sleep 1000); echo after > after");
        let running = started(&sandbox, &line);
        sandbox.wait(running.cancel()).unwrap();
        let result = sandbox.wait(running.result()).unwrap();
        assert_eq!((result.cancelled, result.timed_out, result.success), (true, false, false));
        assert_eq!(code(&result), Some(ErrorCode::Cancelled), "{mode:?}");
        assert_eq!((result.exit_code, result.signal), (Some(143), Some(15)), "{mode:?}");
        assert_eq!(result.stdout, "up\n", "{mode:?}");
        assert!(processes::marked(&mark).is_empty(), "{mode:?}");
        assert!(!world.workspace().join("after").exists(), "{mode:?}");
        // One that is dropped is cancelled too; the next call waits until it is gone.
        drop(started(&sandbox, &line));
        assert_eq!(sandbox.ok("echo next"), "next\n", "{mode:?}");
        assert!(processes::marked(&mark).is_empty(), "{mode:?}");
    }
}

#[test]
fn statuses_are_the_programs_own() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        for status in [0, 1, 2, 124, 125, 126, 127, 128, 130, 137, 139, 143, 255] {
            let result = sandbox.bash(&format!("exit {status}"));
            assert_eq!(result.exit_code, Some(status), "{mode:?}");
            assert_eq!(result.signal, None, "{mode:?}: {status} is not a signal");
            let flags = (result.timed_out, result.cancelled, result.oom, result.pipe_held);
            assert_eq!(flags, (false, false, false, false), "{mode:?}: {status}");
            let expected = (status != 0).then_some(ErrorCode::CommandFailed);
            assert_eq!((code(&result), result.success), (expected, status == 0), "{mode:?}");
        }
        // The `timeout` of coreutils has 124 of its own.
        let result = sandbox.bash("timeout 0.1 sleep 1000");
        assert_eq!((result.exit_code, result.timed_out), (Some(124), false), "{mode:?}");
    }
}

#[test]
fn signals_are_told_from_statuses() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        // Not 3, which bash ignores.
        for signal in [1, 2, 6, 8, 9, 11, 13, 14, 15] {
            let result = sandbox.bash(&format!("kill -{signal} $$"));
            assert_eq!(
                (result.signal, result.exit_code),
                (Some(signal), Some(128 + signal)),
                "{mode:?}"
            );
            assert_eq!(code(&result), Some(ErrorCode::CommandFailed), "{mode:?}: {signal}");
            assert!(!result.timed_out && !result.cancelled && !result.oom, "{mode:?}: {signal}");
        }
        // Of something that the shell ran: the shell's own status.
        let result = sandbox.bash("bash -c 'kill -9 $$'; exit $?");
        assert_eq!((result.signal, result.exit_code), (None, Some(137)), "{mode:?}");
    }
}

#[test]
fn what_is_not_there_is_127_and_what_can_not_be_run_126() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let result = sandbox.bash("no-such-program");
        assert_eq!((result.exit_code, code(&result)), (Some(127), Some(ErrorCode::CommandFailed)));
        assert!(result.stderr.contains("no-such-program"), "{mode:?}: {}", result.stderr);
        std::fs::write(world.workspace().join("text"), "no program\n").unwrap();
        for (program, status) in
            [("no-such-program", 127), ("./no-such-program", 127), ("./text", 126), ("/usr", 126)]
        {
            let result = sandbox.call("bash", json!({"argv": [program]}));
            assert_eq!(result.exit_code, Some(status), "{mode:?}: {program}");
            assert_eq!(code(&result), Some(ErrorCode::SpawnFailed), "{mode:?}: {program}");
            assert_eq!(result.signal, None, "{mode:?}: {program}");
        }
        let result = sandbox.call("bash", json!({"argv": ["echo", "$HOME", "*"]}));
        assert_eq!((result.stdout.as_str(), result.success), ("$HOME *\n", true), "{mode:?}");
    }
}
