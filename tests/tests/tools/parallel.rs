//! Calls of one session that run side by side: commands that leave the session's directory as it is,
//! each in its own transaction, up to the profile's limit.

use palisade_client::{Call, Running, arguments::Bash};
use palisade_protocol::{CallResult, CallStage, ErrorCode};
use palisade_tests::{Desk, Mode, profile_with};
use serde_json::json;
use std::time::Duration;
use tokio::io::DuplexStream;

/// A command that ends when its input does.
struct Held {
    running: Running,
    input: DuplexStream,
}

impl Held {
    async fn start(call: Call<Bash>) -> Self {
        let (input, theirs) = tokio::io::duplex(64);
        Self { running: call.attach_reader(theirs).start().await.unwrap(), input }
    }

    async fn end(self) -> CallResult {
        drop(self.input);
        self.running.result().await.unwrap()
    }
}

/// Prepares a line that runs in a directory of its own: the workspace.
fn beside(desk: &Desk, line: &str) -> Call<Bash> {
    desk.sandbox.session.bash(line).cwd(desk.world.workspace())
}

/// Waits until so many calls run and so many wait for their turn. Fails when one has ended.
async fn until(desk: &Desk, running: usize, waiting: usize) {
    let mut most = 0;
    loop {
        let calls = desk.operator.overview().await.unwrap().calls;
        let at = |stage| calls.iter().filter(|call| call.stage == stage).count();
        if (at(CallStage::Execute), at(CallStage::Queue)) == (running, waiting) {
            return;
        }
        assert!(calls.len() >= most, "a call has ended: {calls:?}");
        most = calls.len();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn calls_with_a_directory_of_their_own_overlap_and_others_keep_their_turn() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        assert_eq!(desk.sandbox.ok("mkfifo /tmp/a /tmp/b"), "");
        let (one, two, later) = desk.sandbox.wait(async {
            // Each needs the other to run.
            let one = beside(&desk, "echo a > /tmp/a; read x < /tmp/b; echo $x; echo 1 > one");
            let two = ["bash", "-c", "read x < /tmp/a; echo b > /tmp/b; cat; echo $x | tee two"];
            let one = one.start().await.unwrap();
            let two = Held::start(desk.sandbox.session.exec(two)).await;
            let one = one.result().await.unwrap();
            // These come after both, and the last after the one that keeps the directory.
            let third = desk.sandbox.session.bash("cat one two; cd /tmp").start().await.unwrap();
            let fourth = desk.sandbox.session.exec(["pwd"]).start().await.unwrap();
            until(&desk, 1, 2).await;
            let two = two.end().await;
            let third = third.result().await.unwrap();
            (one, two, [third, fourth.result().await.unwrap()])
        });
        assert_eq!((one.output.as_str(), two.output.as_str()), ("b\n", "a\n"), "{mode:?}");
        assert_eq!(later.map(|call| call.output), ["1\na\n", "/tmp\n"], "{mode:?}");
    }
}

#[test]
fn a_directory_of_a_call_is_not_the_session_s() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        desk.file("sub/file", "");
        let there = |cwd: &str, line: &str| json!({"command": line, "cwd": cwd});
        let at = desk.world.workspace();
        let done = |arguments| desk.sandbox.done("bash", arguments).output;
        assert_eq!(done(there("sub", "pwd; cd /tmp")), format!("{}/sub\n", at.display()));
        assert_eq!(desk.sandbox.ok("pwd; cd sub"), format!("{}\n", at.display()), "{mode:?}");
        // A relative one starts at the session's.
        assert_eq!(done(there("..", "pwd")), format!("{}\n", at.display()), "{mode:?}");
        assert_eq!(desk.sandbox.ok("pwd"), format!("{}/sub\n", at.display()), "{mode:?}");
    }
}

#[test]
fn two_that_change_the_same_file_are_a_commit_and_a_conflict() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        desk.file("old", "was there\n");
        for (name, before) in [("old", "was there\n"), ("new", "")] {
            assert_eq!(desk.sandbox.ok("mkfifo /tmp/met"), "");
            let line = |who: &str, meet: &str| format!("echo {who} >> {name}; {meet}; cat");
            let (one, two) = desk.sandbox.wait(async {
                let one = beside(&desk, &line("one", "echo > /tmp/met"));
                let two = beside(&desk, &line("two", "read < /tmp/met"));
                let (one, two) = (Held::start(one).await, Held::start(two).await);
                until(&desk, 2, 0).await;
                tokio::join!(one.end(), two.end())
            });
            // What either of them read and wrote is whole, and only one is committed.
            let (kept, refused, text) = match one.success {
                true => (one, two, "one\n"),
                false => (two, one, "two\n"),
            };
            assert!(kept.success && kept.undo.is_some(), "{mode:?}: {kept:?}");
            let error = refused.error.as_ref().unwrap();
            assert_eq!(error.code, ErrorCode::Conflict, "{mode:?}: {error:?}");
            assert_eq!(refused.undo, None, "{mode:?}");
            assert_eq!(desk.text(name), Some(format!("{before}{text}")), "{mode:?}");
            let undone = desk.sandbox.done("undo", json!({"call_id": kept.undo.unwrap()}));
            assert!(undone.success, "{mode:?}");
            let back = Some(before.to_owned()).filter(|text| !text.is_empty());
            assert_eq!(desk.text(name), back, "{mode:?}");
            assert_eq!(desk.sandbox.ok("rm /tmp/met"), "");
        }
    }
}

#[test]
fn many_that_change_one_file_lose_nothing() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        desk.file("log", "first\n");
        let results = desk.sandbox.wait(async {
            let mut running = Vec::new();
            for index in 0..24 {
                let line = format!("echo {index} >> log; echo {index} > own-{index}");
                running.push(beside(&desk, &line).start().await.unwrap());
            }
            let mut results = Vec::new();
            for call in running {
                results.push(call.result().await.unwrap());
            }
            results
        });
        // The file has the line of each call that succeeded, and of no other; so has the directory.
        let mut expected = vec!["first".to_owned()];
        for (index, result) in results.iter().enumerate() {
            let code = result.error.as_ref().map(|error| error.code);
            assert!(matches!(code, None | Some(ErrorCode::Conflict)), "{mode:?}: {result:?}");
            assert_eq!(desk.text(&format!("own-{index}")).is_some(), result.success, "{mode:?}");
            if result.success {
                expected.push(index.to_string());
            }
        }
        let log = desk.text("log").unwrap();
        let mut found: Vec<&str> = log.lines().collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert!(expected.len() > 1);
        assert_eq!(found, expected, "{mode:?}");
    }
}

#[test]
fn no_more_run_side_by_side_than_the_profile_allows() {
    for mode in Mode::all() {
        for most in [1, 2] {
            let parallel = format!("parallel = {most}");
            let desk = Desk::new(mode, &profile_with(&[("parallel = 8", &parallel)]));
            // Each locks one of the files, and says if there was none left.
            let line = match most {
                1 => "exec 8>>/tmp/1; flock -n 8 || echo over; cat",
                _ => "exec 8>>/tmp/1 9>>/tmp/2; flock -n 8 || flock -n 9 || echo over; cat",
            };
            let results = desk.sandbox.wait(async {
                let mut held = Vec::new();
                for _ in 0..6 {
                    held.push(Held::start(beside(&desk, line)).await);
                }
                until(&desk, most, 6 - most).await;
                let mut results = Vec::new();
                for call in held {
                    results.push(call.end().await);
                }
                results
            });
            for result in results {
                assert!(result.success && result.output.is_empty(), "{mode:?}: {result:?}");
            }
        }
    }
}

#[test]
fn cancelling_one_and_the_timeout_of_another_leave_the_rest() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        let [cancelled, late, kept] = desk.sandbox.wait(async {
            let line = |name: &str| format!("echo on > {name}; cat");
            let cancelled = Held::start(beside(&desk, &line("cancelled"))).await;
            let kept = Held::start(beside(&desk, &line("kept"))).await;
            let late = beside(&desk, "echo on > late; sleep 1000").timeout(Duration::from_secs(2));
            let late = late.start().await.unwrap();
            until(&desk, 3, 0).await;
            cancelled.running.cancel().await.unwrap();
            let cancelled = cancelled.running.result().await.unwrap();
            let late = late.result().await.unwrap();
            [cancelled, late, kept.end().await]
        });
        assert!(cancelled.cancelled && !cancelled.timed_out, "{mode:?}: {cancelled:?}");
        assert!(late.timed_out && !late.cancelled, "{mode:?}: {late:?}");
        assert!(kept.success, "{mode:?}: {kept:?}");
        assert_eq!(desk.text("cancelled"), None, "{mode:?}");
        assert_eq!(desk.text("kept").as_deref(), Some("on\n"), "{mode:?}");
    }
}

/// A call that changes the workspace directly never runs beside another.
#[test]
fn without_transactions_commands_run_one_after_another() {
    for mode in Mode::all() {
        let profile = profile_with(&[("guard = \"auto\"", "guard = \"off\"")]);
        let desk = Desk::new(mode, &profile);
        desk.sandbox.wait(async {
            let line = "mkdir lock; cat; rmdir lock";
            let mut held = Vec::new();
            for _ in 0..3 {
                held.push(Held::start(beside(&desk, line)).await);
            }
            until(&desk, 1, 2).await;
            for call in held {
                let result = call.end().await;
                assert!(result.success, "{mode:?}: {result:?}");
            }
        });
    }
}
