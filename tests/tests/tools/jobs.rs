//! Jobs: what runs on after its call, its output from a cursor, its input, its end, and that
//! nothing of it is left then, seen from the host.

use palisade_audit::{ReadError, Reader, Record};
use palisade_client::JobStatus;
use palisade_protocol::ErrorCode;
use palisade_tests::{Mode, UNASKED, World, data, job_of, processes, profile_with, rooms::until};
use serde_json::json;
use std::{fs, time::Duration};

/// Longer than any of this takes on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// A line that shows itself on the host by a mark and sleeps.
fn sleeper(mark: &str) -> String {
    format!("exec -a {mark} sleep 1000")
}

fn seen(mark: &str) {
    until("the host sees the job", || !processes::marked(mark).is_empty());
}

#[test]
fn a_job_runs_on_and_is_read_from_a_cursor() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let line = "wait_for() { until [ -e $1 ]; do sleep 0.05; done; }
            echo one; wait_for more; echo two >&2; wait_for go; echo three; exit 3";
        let job = sandbox.start_job(json!({"command": line}));
        // Other calls go on beside it.
        assert_eq!(sandbox.ok("echo beside"), "beside\n");
        let shows = |text: &str| {
            until(text, || {
                sandbox.done("job_output", json!({"job": job, "wait_ms": 1000})).output == text
            });
        };
        shows("one\n");
        fs::write(world.workspace().join("more"), "").unwrap();
        shows("one\ntwo\n");
        let first = sandbox.done("job_output", json!({"job": job, "limit": 3}));
        assert_eq!((first.output.as_str(), job_of(&first).cursor), ("one", 3));
        assert!(job_of(&first).more && !job_of(&first).has_ended());
        // Nothing new within the time is an answer.
        let none = sandbox.done("job_output", json!({"job": job, "cursor": 8, "wait_ms": 50}));
        assert_eq!((none.output.as_str(), job_of(&none).cursor), ("", 8));
        fs::write(world.workspace().join("go"), "").unwrap();
        let (text, end) = sandbox.whole_job(job);
        assert_eq!(text, "one\ntwo\nthree\n");
        assert_eq!((end.exit_code, end.signal, end.killed), (Some(3), None, false));
        assert_eq!(end.error.unwrap().code, ErrorCode::CommandFailed);
        // Its whole output is also in the spool, by the call that started it.
        let page = sandbox.wait(sandbox.client.output(&end.call_id, 4, None)).unwrap();
        assert_eq!((page.data.0.as_slice(), page.total), (&b"two\nthree\n"[..], 14));
        let listed = sandbox.done("job_list", json!({}));
        assert_eq!(listed.output, format!("{job}\tended with status 3\t14 bytes\t{line}\n"));
        assert_eq!(JobStatus::all_of(&listed).len(), 1);
    }
}

#[test]
fn a_jobs_directory_is_its_own_and_its_call_is_judged_like_any_other() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        fs::create_dir(world.workspace().join("sub")).unwrap();
        world.give(&world.workspace().join("sub"));
        let before = sandbox.ok("pwd");
        let job = sandbox.start_job(json!({"command": "cd sub && pwd"}));
        assert_eq!(sandbox.whole_job(job).0, format!("{}/sub\n", before.trim()));
        assert_eq!(sandbox.ok("pwd"), before);
        // The default profile asks, nobody answers, nothing that they changed is committed.
        fs::write(world.workspace().join("kept"), "x").unwrap();
        world.give(&world.workspace().join("kept"));
        let asking = world.open_with("workspace");
        let denied = asking.refused("bash", json!({"command": "rm kept", "yield_ms": 60_000}));
        assert_eq!(denied.0, ErrorCode::Denied);
        for typed in ["", "rm kept; exit\n"] {
            let command = if typed.is_empty() { "rm kept; echo gone" } else { "bash" };
            let job = asking.start_job(json!({"command": command, "input": !typed.is_empty()}));
            if !typed.is_empty() {
                let typed = json!({"job": job, "data": typed});
                assert!(asking.done("job_input", typed).success);
            }
            let (_, ended) = asking.whole_job(job);
            let code = ended.error.as_ref().map(|error| error.code);
            assert_eq!(code, Some(ErrorCode::Denied), "{mode:?}: {ended:?}");
            assert!(!ended.transaction.unwrap().committed, "{mode:?}");
            assert!(world.workspace().join("kept").exists());
        }
        // The effects of a job are committed when it has ended, and can be undone.
        let job = asking.start_job(json!({"command": "echo new > made; cat kept"}));
        let (_, ended) = asking.whole_job(job);
        assert!(ended.transaction.unwrap().committed, "{mode:?}");
        assert!(world.workspace().join("made").exists());
        assert!(asking.done("undo", json!({"call_id": ended.undo})).success);
        assert!(!world.workspace().join("made").exists());
        // In the workspace itself a job runs only after somebody approved that.
        let direct = json!({"command": "rm kept", "background": true, "route": "direct"});
        assert_eq!(asking.refused("bash", direct).0, ErrorCode::Denied);
        let foreground = json!({"command": "rm kept", "route": "direct"});
        assert_eq!(asking.refused("bash", foreground).0, ErrorCode::InvalidArguments);
        assert!(world.workspace().join("kept").exists());
    }
}

#[test]
fn what_can_not_be_is_refused_by_name() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let job = sandbox.start_job(json!({"command": "cat", "input": true}));
        let silent = sandbox.start_job(json!({"command": "sleep 1000"}));
        let big = "x".repeat(256 * 1024 + 1);
        for (tool, arguments, code, begins) in [
            (
                "bash",
                json!({"command": "a", "background": true, "yield_ms": 5}),
                ErrorCode::InvalidArguments,
                "`yield_ms`",
            ),
            (
                "bash",
                json!({"command": "a", "yield_ms": 0}),
                ErrorCode::InvalidArguments,
                "`yield_ms`",
            ),
            (
                "bash",
                json!({"command": "a", "yield_ms": 600_001}),
                ErrorCode::InvalidArguments,
                "`yield_ms`",
            ),
            (
                "bash",
                json!({"command": "a", "input": true}),
                ErrorCode::InvalidArguments,
                "`input`",
            ),
            (
                "bash",
                json!({"command": "a", "background": true, "input": true, "stdin": ""}),
                ErrorCode::InvalidArguments,
                "`input`",
            ),
            (
                "bash",
                json!({"command": "a", "background": true, "timeout_ms": 86_400_001}),
                ErrorCode::InvalidArguments,
                "`timeout_ms`",
            ),
            (
                "bash",
                json!({"command": "a", "background": 1}),
                ErrorCode::InvalidArguments,
                "`background`",
            ),
            ("job_output", json!({}), ErrorCode::InvalidArguments, "`job`"),
            ("job_output", json!({"job": 99}), ErrorCode::NotFound, "there is no job 99"),
            (
                "job_output",
                json!({"job": job, "cursor": 1}),
                ErrorCode::InvalidArguments,
                "`cursor`",
            ),
            ("job_output", json!({"job": job, "limit": 0}), ErrorCode::InvalidArguments, "`limit`"),
            (
                "job_output",
                json!({"job": job, "wait_ms": 600_001}),
                ErrorCode::InvalidArguments,
                "`wait_ms`",
            ),
            ("job_input", json!({"job": job}), ErrorCode::InvalidArguments, "`data`"),
            (
                "job_input",
                json!({"job": 99, "data": "x"}),
                ErrorCode::NotFound,
                "there is no job 99",
            ),
            ("job_input", json!({"job": job, "data": big}), ErrorCode::InvalidArguments, "`data`"),
            ("job_input", json!({"job": job, "rows": 5}), ErrorCode::InvalidArguments, "`cols`"),
            (
                "job_input",
                json!({"job": job, "rows": 5, "cols": 5}),
                ErrorCode::InvalidArguments,
                "job 1 has no terminal",
            ),
            (
                "job_input",
                json!({"job": silent, "data": "x"}),
                ErrorCode::InvalidArguments,
                "job 2 does not accept input",
            ),
            ("job_kill", json!({"job": 99}), ErrorCode::NotFound, "there is no job 99"),
            (
                "job_kill",
                json!({"job": job, "signal": "NO"}),
                ErrorCode::InvalidArguments,
                "`signal`",
            ),
            ("job_kill", json!({"job": job, "signal": 0}), ErrorCode::InvalidArguments, "`signal`"),
            ("job_list", json!({"job": job}), ErrorCode::InvalidArguments, "`job`"),
        ] {
            let shown = format!("{tool} {arguments:.200}");
            let (found, message) = sandbox.refused(tool, arguments);
            assert_eq!(found, code, "{shown}: {message}");
            assert!(message.starts_with(begins), "{shown}: {message}");
        }
        // None of that did anything to the jobs.
        for status in JobStatus::all_of(&sandbox.done("job_list", json!({}))) {
            assert!(!status.has_ended(), "{status:?}");
        }
    }
}

#[test]
fn a_job_is_typed_into() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let job = sandbox.start_job(
            json!({"command": "while read -r x; do echo got $x; done; echo over", "input": true}),
        );
        for word in ["a\n", "b\n"] {
            let result = sandbox.done("job_input", json!({"job": job, "data": word}));
            assert_eq!(data(&result)["written"], json!(2));
        }
        let _typed = sandbox.done("job_input", json!({"job": job, "data": "c\n", "end": true}));
        let (text, end) = sandbox.whole_job(job);
        assert_eq!((text.as_str(), end.exit_code), ("got a\ngot b\ngot c\nover\n", Some(0)));
        let (code, message) = sandbox.refused("job_input", json!({"job": job, "data": "d\n"}));
        assert_eq!((code, message.as_str()), (ErrorCode::NotFound, "job 1 has ended"));
        // A program that does not read blocks only that call, and only for its time.
        let deaf = sandbox.start_job(json!({"command": "sleep 1000", "input": true}));
        let call = sandbox.session.job_input(deaf, "x".repeat(200_000));
        let result = sandbox.wait(call.timeout(Duration::from_secs(5)).into_future()).unwrap();
        let error = result.error.unwrap();
        assert_eq!(error.code, ErrorCode::TimedOut);
        assert_eq!(error.message, "the job read 65536 of 200000 bytes and then stopped reading");
        assert!(sandbox.done("job_kill", json!({"job": deaf})).success);
        // Standard input that came with the call is at its end after it.
        let fed = sandbox.start_job(json!({"command": "cat; echo end", "stdin": "text\n"}));
        assert_eq!(sandbox.whole_job(fed).0, "text\nend\n");
    }
}

#[test]
fn killing_a_job_leaves_no_process() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let zoo = |mark: &str| {
            format!(
                "export m={mark}; (exec -a $m-child sleep 1000) & \
                 setsid -f bash -c 'exec -a $m-session sleep 1000'; \
                 (trap '' TERM; exec -a $m-deaf sleep 1000) & wait; wait"
            )
        };
        for (signal, expected) in [(None, 15), (Some(json!("KILL")), 9), (Some(json!(9)), 9)] {
            let mark = processes::mark();
            let job = sandbox.start_job(json!({"command": zoo(&mark)}));
            for name in ["child", "session", "deaf"] {
                seen(&format!("{mark}-{name}"));
            }
            let mut arguments = json!({"job": job});
            let asked = signal.is_some();
            signal.into_iter().for_each(|signal| arguments["signal"] = signal);
            let killed = job_of(&sandbox.done("job_kill", arguments));
            assert_eq!(processes::marked(&mark), [], "{mode:?}");
            assert!(killed.has_ended());
            assert_eq!((killed.signal, killed.exit_code), (Some(expected), Some(128 + expected)));
            assert_eq!(killed.killed, !asked);
        }
        // Another signal is only passed on.
        let job = sandbox.start_job(json!({"command": "trap 'echo usr; exit 7' USR1; echo up; while :; do sleep 0.05; done"}),
        );
        until("the trap is set", || {
            sandbox.done("job_output", json!({"job": job, "wait_ms": 1000})).output == "up\n"
        });
        let told = job_of(&sandbox.done("job_kill", json!({"job": job, "signal": "USR1"})));
        assert_eq!(told.job, job);
        let (text, end) = sandbox.whole_job(job);
        assert!(text.starts_with("up\n") && text.contains("usr\n"), "{text}");
        assert_eq!((end.exit_code, end.killed), (Some(7), false));
        // To end what has ended is no mistake.
        assert!(job_of(&sandbox.done("job_kill", json!({"job": job}))).has_ended());
    }
}

#[test]
fn a_job_has_no_time_limit_but_its_own() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let text = profile_with(&[("timeout_ms = 30_000", "timeout_ms = 5_000")]);
        world.add_unasked("brief", &text);
        world.add_unasked("short", &profile_with(&[("jobs = 16", "jobs = 16\njob_ms = 300")]));
        let sandbox = world.open_with("brief");
        let job = sandbox.start_job(json!({"command": "sleep 5.5; echo done"}));
        assert_eq!(sandbox.whole_job(job).0, "done\n");
        let mark = processes::mark();
        for (sandbox, arguments) in [
            (&sandbox, json!({"command": sleeper(&mark), "timeout_ms": 300})),
            (&world.open_with("short"), json!({"command": sleeper(&mark)})),
            (&world.open_with("short"), json!({"command": sleeper(&mark), "timeout_ms": 60_000})),
        ] {
            let job = sandbox.start_job(arguments);
            let (_, end) = sandbox.whole_job(job);
            assert!(end.timed_out && !end.killed, "{end:?}");
            assert_eq!(end.error.unwrap().code, ErrorCode::TimedOut);
            assert_eq!(processes::marked(&mark), [], "{mode:?}");
        }
    }
}

#[test]
fn a_call_that_outlives_its_patience_becomes_a_job_if_it_was_asked_for() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        fs::create_dir(world.workspace().join("sub")).unwrap();
        world.give(&world.workspace().join("sub"));
        let line = "echo one; until [ -e go ]; do sleep 0.05; done; echo two";
        let result = sandbox.done("bash", json!({"command": line, "yield_ms": 6000}));
        let yielded = job_of(&result);
        assert_eq!((result.output.as_str(), result.exit_code), ("one\n", None));
        assert_eq!((yielded.state.as_str(), yielded.cursor), ("running", 4));
        fs::write(world.workspace().join("go"), "").unwrap();
        let (text, end) = sandbox.whole_job(yielded.job);
        assert_eq!((text.as_str(), end.exit_code), ("one\ntwo\n", Some(0)));
        // One that ends in time is a call like any other: streams apart, status, directory kept.
        let arguments =
            json!({"command": "cd sub; echo out; echo err >&2; exit 4", "yield_ms": 60_000});
        let result = sandbox.call("bash", arguments);
        assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!((result.exit_code, result.data.is_none()), (Some(4), true));
        assert_eq!(result.error.unwrap().code, ErrorCode::CommandFailed);
        assert!(sandbox.ok("pwd").ends_with("/sub\n"));
        assert_eq!(JobStatus::all_of(&sandbox.done("job_list", json!({}))).len(), 1);
        // Too much output is cut as for any call, and is in its spool.
        let flood = json!({"command": "head -c 300000 /dev/zero | tr '\\0' x", "yield_ms": 60_000});
        let result = sandbox.done("bash", flood);
        assert!(result.truncated);
        let page = sandbox.client.output(result.spool.as_ref().unwrap(), 0, Some(10));
        assert_eq!(sandbox.wait(page).unwrap().total, 300_000);
        // Cancelled while it is waited for, nothing of it is left.
        let mark = processes::mark();
        let call = sandbox.session.bash(sleeper(&mark)).yield_after(PATIENCE);
        let running = sandbox.wait(call.start()).unwrap();
        seen(&mark);
        sandbox.wait(running.cancel()).unwrap();
        assert!(sandbox.wait(running.result()).unwrap().cancelled);
        assert_eq!(processes::marked(&mark), [], "{mode:?}");
    }
}

#[test]
fn output_that_nobody_reads_is_not_lost() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world
            .add_unasked("little", &profile_with(&[("spool = \"64 MiB\"", "spool = \"300 KiB\"")]));
        let sandbox = world.open();
        let line = "for i in $(seq 100000); do echo line $i; done";
        let job = sandbox.start_job(json!({"command": line}));
        let (text, end) = sandbox.whole_job(job);
        let expected: String = (1..=100_000).map(|i| format!("line {i}\n")).collect();
        assert_eq!(end.output_bytes, expected.len() as u64);
        assert!(text == expected, "{} of {} bytes", text.len(), expected.len());
        // Over the spool's limit, what is missing is counted exactly.
        let sandbox = world.open_with("little");
        let job = sandbox.start_job(json!({"command": line}));
        let (mut cursor, mut read, mut omitted) = (0, 0, 0);
        let end = loop {
            let asked = json!({"job": job, "cursor": cursor, "wait_ms": 20_000});
            let result = sandbox.done("job_output", asked);
            let status = job_of(&result);
            read += result.output.len() as u64;
            omitted += status.omitted_bytes;
            assert_eq!(
                (result.truncated, result.omitted_bytes),
                (status.omitted_bytes > 0, status.omitted_bytes)
            );
            assert!(
                result.output.is_empty()
                    || expected[usize::try_from(status.cursor).unwrap() - result.output.len()..]
                        .starts_with(&result.output)
            );
            cursor = status.cursor;
            if status.has_ended() && !status.more {
                break status;
            }
        };
        assert_eq!(read + omitted, end.output_bytes);
        assert_eq!((end.output_bytes, cursor), (expected.len() as u64, expected.len() as u64));
        let page = sandbox.wait(sandbox.client.output(&end.call_id, 0, None)).unwrap();
        assert_eq!((page.spooled, page.total), (300 * 1024, expected.len() as u64));
    }
}

#[test]
fn one_job_too_many_is_refused_and_starts_nothing() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("two", &profile_with(&[("jobs = 16", "jobs = 2")]));
        let sandbox = world.open_with("two");
        let first = sandbox.start_job(json!({"command": "sleep 1000"}));
        sandbox.start_job(json!({"command": "sleep 1000"}));
        for more in [json!({"background": true}), json!({"yield_ms": 1000})] {
            let mut arguments = more;
            arguments["command"] = json!("touch made");
            let (code, message) = sandbox.refused("bash", arguments);
            assert_eq!(code, ErrorCode::LimitReached);
            assert_eq!(message, "2 jobs are already running in this session");
        }
        assert!(!world.workspace().join("made").exists());
        assert!(sandbox.done("job_kill", json!({"job": first})).success);
        let third = sandbox.start_job(json!({"command": "echo made"}));
        assert_eq!((third, sandbox.whole_job(third).0.as_str()), (3, "made\n"));
        // Nobody else's session has these jobs.
        let other = world.open();
        assert_eq!(other.refused("job_output", json!({"job": 1})).0, ErrorCode::NotFound);
        assert_eq!(other.refused("job_kill", json!({"job": 2})).0, ErrorCode::NotFound);
    }
}

#[test]
fn jobs_end_with_their_session_and_with_the_broker() {
    for mode in Mode::all() {
        for killed in [false, true] {
            let world = World::new(mode);
            let mut sandbox = world.open_with(UNASKED);
            let mark = processes::mark();
            for number in 0..4 {
                sandbox.start_job(json!({"command": format!("m={mark}; trap '' TERM; exec -a $m-{number} sleep 1000")}),
                );
            }
            for number in 0..4 {
                seen(&format!("{mark}-{number}"));
            }
            if killed {
                sandbox.daemon.as_mut().unwrap().kill().unwrap();
                until("everything is gone", || processes::marked(&mark).is_empty());
            } else {
                sandbox.wait(sandbox.session.close()).unwrap();
                assert_eq!(processes::marked(&mark), [], "{mode:?}");
            }
        }
    }
}

#[test]
fn a_job_that_watches_sees_every_edit_and_changes_nothing() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let file = world.workspace().join("file");
        fs::write(&file, "one\n").unwrap();
        world.give(&file);
        let sandbox = world.open_with(palisade_policy::DEFAULT);
        // It would be taken for one that writes.
        let line = "exec 2>&1; cat file; touch file made; chmod 600 file; rm file; mkdir made; \
                    until grep -qs two file; do sleep 0.05; done; cat file; touch /tmp/own ~/own && echo own";
        let watching = json!({"command": line, "background": true, "route": "watch"});
        let result = sandbox.done("bash", watching);
        assert_eq!(result.route, Some(palisade_protocol::Route::Reading), "{mode:?}");
        let job = JobStatus::of(&result).unwrap().job;
        until("it printed", || {
            sandbox
                .done("job_output", json!({"job": job, "wait_ms": 1000}))
                .output
                .starts_with("one\n")
        });
        fs::write(&file, "two\n").unwrap();
        let (text, ended) = sandbox.whole_job(job);
        assert_eq!(text.matches("Read-only file system").count(), 5, "{mode:?}: {text}");
        assert!(text.ends_with("two\nown\n"), "{mode:?}: {text}");
        assert!(ended.transaction.is_none(), "{mode:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "two\n");
        assert!(!world.workspace().join("made").exists());
    }
}

#[test]
fn a_profile_says_where_jobs_run() {
    let changes = |routes: &str, default: &str| {
        profile_with(&[
            ("routes = [\"watch\", \"transaction\", \"direct\"]", routes),
            ("default = \"transaction\"", default),
        ])
    };
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked(
            "held",
            &changes("routes = [\"transaction\"]", "default = \"transaction\""),
        );
        world.add_unasked("live", &changes("routes = [\"watch\"]", "default = \"watch\""));
        let job =
            |route: &str| json!({"command": "echo x >made", "background": true, "route": route});
        let held = world.open_with("held");
        for route in ["watch", "direct"] {
            let (code, message) = held.refused("bash", job(route));
            let expected = format!("jobs may not use route \"{route}\" here");
            assert_eq!((code, message), (ErrorCode::OutsidePolicy, expected), "{mode:?}");
        }
        let started = held.start_job(json!({"command": "echo x >made", "route": "transaction"}));
        assert!(held.whole_job(started).1.transaction.unwrap().committed, "{mode:?}");
        let live = world.open_with("live");
        let (text, ended) = live.whole_job(live.start_job(json!({"command": "echo y >made"})));
        assert!(text.contains("Read-only file system") && ended.exit_code == Some(1), "{text}");
        assert_eq!(fs::read_to_string(world.workspace().join("made")).unwrap(), "x\n");
        // A call is no job.
        let foreground = json!({"command": "true", "route": "watch"});
        assert_eq!(live.refused("bash", foreground).0, ErrorCode::InvalidArguments);
        assert_eq!(live.ok("echo z >made; cat made"), "z\n");
    }
}

fn records(world: &World) -> Vec<Record> {
    let mut records = Vec::new();
    Reader::new(&world.state().join("audit"))
        .read::<ReadError>(|sighted| {
            records.push(sighted?.entry.record);
            Ok(())
        })
        .unwrap();
    records
}

#[test]
fn the_audit_tells_of_a_jobs_start_and_of_its_end() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let job = sandbox.start_job(json!({"command": "echo hi; exit 5"}));
        sandbox.whole_job(job);
        sandbox.start_job(json!({"command": "sleep 1000"}));
        drop(sandbox);
        let records = records(&world);
        let ends: Vec<_> = records
            .iter()
            .filter_map(|r| if let Record::JobEnd(end) = r { Some(end) } else { None })
            .collect();
        assert_eq!(ends.len(), 2, "{records:?}");
        assert_eq!((ends[0].job, ends[0].exit_code, ends[0].output_bytes), (1, Some(5), 3));
        assert_eq!((ends[1].job, ends[1].exit_code), (2, None));
        for end in ends {
            let called =
                |r: &&Record| matches!(r, Record::Call(call) if call.call_id == end.call_id);
            assert!(records.iter().any(|r| called(&r)));
            let told = records.iter().find_map(|r| {
                let Record::Result(result) = r else { return None };
                (result.call_id == end.call_id).then_some(result.success)
            });
            assert_eq!(told, Some(true));
        }
        // The ends are in the log before that of the session.
        assert!(matches!(records.last(), Some(Record::SessionClose(_))), "{:?}", records.last());
    }
}

#[test]
fn two_hundred_jobs_in_one_session() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("many", &profile_with(&[("jobs = 16", "jobs = 200")]));
        let sandbox = world.open_with("many");
        let mark = processes::mark();
        for number in 1..=200 {
            let line = format!("echo {number}; {}", sleeper(&mark));
            assert_eq!(sandbox.start_job(json!({"command": line})), number);
        }
        let more = json!({"command": "true", "background": true});
        assert_eq!(sandbox.refused("bash", more).0, ErrorCode::LimitReached);
        assert_eq!(sandbox.ok("echo beside"), "beside\n");
        for number in [1, 100, 200] {
            until("it printed", || {
                let asked = json!({"job": number, "wait_ms": 1000});
                sandbox.done("job_output", asked).output == format!("{number}\n")
            });
        }
        until("the host sees all", || processes::marked(&mark).len() == 200);
        let pid = i32::try_from(sandbox.daemon.as_ref().unwrap().id()).unwrap();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib < 64 * 1024, "the broker holds {kib} KiB");
        sandbox.wait(sandbox.session.close()).unwrap();
        assert_eq!(processes::marked(&mark), [], "{mode:?}");
    }
}
