//! The machine's clock is set by a day under a running daemon, forward and back: no deadline comes early
//! or late, nothing that is kept or remembered goes, and the log says what the clock said.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can not go on fails"
)]

use palisade_audit::{ReadError, Reader, Sighted, Timestamp, verify};
use palisade_client::{Answer, Open, Operator, OperatorEvent, Registration, Running};
use palisade_protocol::{CallResult, ErrorCode, Question, Scope, Until};
use palisade_tests::{Daemon, Mode, Sandbox, World, effort, handlers, rooms::until};
use serde_json::json;
use std::{
    fs,
    os::unix::net::UnixStream,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// In milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1000;
/// The clock of one process alone is set by Debian's package faketime.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// A daemon whose clock can be set.
struct Clocked {
    sandbox: Sandbox,
    operator: Operator,
    daemon: Daemon,
    world: World,
}

impl Clocked {
    fn new(mode: Mode, configuration: &str) -> Self {
        assert!(PathBuf::from(LIBRARY).exists(), "the package faketime is missing");
        let world = World::new(mode);
        world.configure(configuration);
        let text = handlers("[remember]\nscopes = [\"exact\"]\nms = 3600000");
        world.add_profile("asking", &text);
        fs::write(offset(&world), "+0").unwrap();
        let daemon = world.configured_daemon(|command| {
            command
                .env("LD_PRELOAD", LIBRARY)
                .env("FAKETIME_TIMESTAMP_FILE", offset(&world))
                .env("FAKETIME_NO_CACHE", "1")
                // What nobody can set is not set.
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("NO_FAKE_STAT", "1")
                .env("FAKETIME_DISABLE_SHM", "1");
        });
        let open = Open::new(world.workspace()).profile("asking");
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        let stream = mode.act(|| UnixStream::connect(&daemon.operators).unwrap());
        let operator = sandbox.wait(async {
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            Operator::from_stream(stream).await.unwrap()
        });
        Self { sandbox, operator, daemon, world }
    }

    /// Sets the clock so far off.
    fn set(&self, to: &str) {
        let next = self.world.outside().with_file_name("offset.next");
        fs::write(&next, to).unwrap();
        fs::rename(next, offset(&self.world)).unwrap();
    }

    fn file(&self, name: &str, content: &str) {
        let path = self.world.workspace().join(name);
        fs::write(&path, content).unwrap();
        self.world.give(&path);
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.world.workspace().join(name)).ok()
    }

    fn register(&self, registration: Registration) {
        self.sandbox.wait(self.operator.register(registration)).unwrap();
    }

    /// Another session: calls of one wait for each other.
    fn beside(&self) -> Sandbox {
        let open = Open::new(self.world.workspace()).profile("asking");
        Sandbox::over(self.daemon.connect(self.world.mode), None, open).unwrap()
    }

    /// Deletes a file, which is asked about.
    fn delete(&self, name: &str) -> Running {
        let call = self.sandbox.session.call("delete_file", json!({ "path": name }));
        self.sandbox.wait(call.start()).unwrap()
    }

    fn question(&self) -> Question {
        self.sandbox.wait(async {
            loop {
                if let Some(OperatorEvent::Question(question)) = self.operator.next().await {
                    return *question;
                }
            }
        })
    }

    fn answer(&self, question: &Question, answer: Answer) {
        self.sandbox.wait(self.operator.answer(question, answer)).expect("taken");
    }

    fn end(&self, running: Running) -> CallResult {
        self.sandbox.wait(running.result()).expect("a result")
    }

    fn records(&self) -> Vec<Sighted> {
        let mut all = Vec::new();
        Reader::new(&self.world.state().join("audit"))
            .read::<ReadError>(|sighted| {
                all.push(sighted?);
                Ok(())
            })
            .unwrap();
        all
    }
}

fn offset(world: &World) -> PathBuf {
    world.outside().with_file_name("offset")
}

/// What the clock says that nobody has set, in milliseconds.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

#[test]
fn no_deadline_comes_early_or_late() {
    for (mode, apart) in Mode::all().into_iter().zip(["+1d", "-1d"]) {
        for by in effort(vec![apart], vec!["+1d", "-1d"]) {
            let clocked = Clocked::new(mode, "[quotas]\nrequests_per_second = 50\n");
            let patient = Registration::new("person:ann").deadline(Duration::from_secs(600));
            clocked.register(patient);
            for name in ["asked", "again", "late"] {
                clocked.file(name, "kept");
            }
            // A question, a call, a job and what is remembered, from before.
            let remembered = clocked.delete("again");
            let question = clocked.question();
            let hour = Until::Ms(3_600_000);
            clocked.answer(&question, Answer::approve().remember(Scope::ExactCall, hour));
            assert!(clocked.end(remembered).success, "{mode:?} {by}");
            let waiting = clocked.delete("asked");
            let question = clocked.question();
            let line = "sleep 1; echo on";
            let (long, short) = (clocked.beside(), clocked.beside());
            let job = json!({"command": "sleep 600", "background": true});
            assert!(long.done("bash", job).success);
            let call = long.session.bash(line).timeout(Duration::from_secs(300));
            let running = long.wait(call.start()).unwrap();
            let call = short.session.bash("sleep 600").timeout(Duration::from_millis(900));
            let timed = short.wait(call.start()).unwrap();
            clocked.set(by);
            // Nobody is early.
            assert_eq!(long.wait(running.result()).unwrap().stdout, "on\n", "{mode:?} {by}");
            let pending = clocked.sandbox.wait(clocked.operator.pending()).unwrap();
            assert_eq!(pending.len(), 1, "{mode:?} {by}");
            assert!((1..=600_000).contains(&pending[0].expires_in_ms), "{mode:?} {by}");
            clocked.answer(&question, Answer::approve());
            assert!(clocked.end(waiting).success, "{mode:?} {by}");
            assert_eq!(clocked.text("asked"), None);
            let jobs = long.done("job_list", json!({}));
            assert!(jobs.output.contains("sleep 600"), "{mode:?} {by}: {}", jobs.output);
            // Nor late.
            let timed = short.wait(timed.result()).unwrap();
            assert!(timed.timed_out, "{mode:?} {by}: {:?}", timed.error);
            assert!(timed.execution_time_ms < 120_000, "{}", timed.execution_time_ms);
            let hasty = Registration::new("person:ann").deadline(Duration::from_millis(300));
            clocked.register(hasty);
            let denied = clocked.end(clocked.delete("late")).error.expect("nobody answered");
            assert_eq!(denied.code, ErrorCode::Denied, "{denied}");
            assert_eq!(clocked.text("late").as_deref(), Some("kept"));
            // What is remembered holds for as long as it was to, and nobody has to wait for a day.
            let grants = clocked.sandbox.wait(clocked.operator.grants()).unwrap();
            let left: Vec<_> = grants.iter().filter_map(|grant| grant.expires_in_ms).collect();
            assert!(matches!(left[..], [1..=3_600_000_u64]), "{mode:?} {by}: {left:?}");
            clocked.file("again", "kept");
            assert!(clocked.end(clocked.delete("again")).success, "{mode:?} {by}: asked again");
            let told = clocked.sandbox.wait(async {
                loop {
                    if let Err(error) = clocked.sandbox.client.ping().await {
                        return error.wire().expect("the daemon's own").clone();
                    }
                }
            });
            assert_eq!(told.code, ErrorCode::LimitReached);
            assert!(told.retry_after_ms.is_some_and(|wait| wait <= 1000), "{mode:?} {by}: {told}");
        }
    }
}

#[test]
fn what_is_kept_is_not_swept_and_the_log_says_what_the_clock_said() {
    for mode in Mode::all() {
        let clocked = Clocked::new(mode, "[quotas]\nundo_bytes = 100000\nspool_bytes = 500000\n");
        let sandbox = &clocked.sandbox;
        for name in ["a", "b", "c"] {
            clocked.file(name, &name.repeat(40_000));
        }
        // The session's own files are not asked about; these are, so they are approved.
        clocked.register(Registration::new("person:ann").deadline(Duration::from_secs(600)));
        let delete = |name: &str| {
            let running = clocked.delete(name);
            let question = clocked.question();
            clocked.answer(&question, Answer::approve());
            clocked.end(running)
        };
        let undo = [delete("a"), delete("b")].map(|result| result.undo.expect("it can be undone"));
        let spool = sandbox.bash("head -c 300000 /dev/zero").spool.expect("a spool");
        let begun = clocked.records().len();
        for by in ["+1d", "-1d", "+0"] {
            clocked.set(by);
            // There is no room: a day by the clock is none, and the wait is what is left of one.
            let error = delete("c").error.expect("there is no room");
            assert_eq!(error.code, ErrorCode::LimitReached, "{mode:?} {by}: {error}");
            let day = DAY.cast_unsigned();
            assert!(
                error.retry_after_ms.is_some_and(|wait| wait > day / 2 && wait <= day),
                "{error}"
            );
            assert!(clocked.text("c").is_some(), "{mode:?} {by}");
            let page = sandbox.wait(sandbox.client.output(&spool, 0, Some(1))).unwrap();
            assert_eq!(page.spooled, 300_000, "{mode:?} {by}");
        }
        // In order, and each with the time that the clock had.
        let records = clocked.records();
        assert!(records.len() > begun + 6, "{mode:?}: {} of {begun}", records.len());
        let numbers: Vec<u64> = records.iter().map(|sighted| sighted.entry.seq).collect();
        assert!(numbers.is_sorted_by(|a, b| a + 1 == *b), "{mode:?}: {numbers:?}");
        let half = Timestamp::from_millis(now() + DAY / 2);
        let before = Timestamp::from_millis(now() - DAY / 2);
        let day = |sighted: &Sighted| match sighted.entry.time {
            time if time < before => "yesterday",
            time if time > half => "tomorrow",
            _ => "today",
        };
        let mut days: Vec<_> = records.iter().map(day).collect();
        days.dedup();
        assert_eq!(days, ["today", "tomorrow", "yesterday", "today"], "{mode:?}");
        let found = verify(&clocked.world.state().join("audit"), &[]).unwrap();
        assert!(found.is_good(), "{mode:?}: {found:?}");
        // And it is all still there.
        fs::write(clocked.world.configuration(), "[quotas]\nundo_bytes = 1000000\n").unwrap();
        clocked.daemon.signal(rustix::process::Signal::HUP);
        until("it is undone", || sandbox.call("undo", json!({"call_id": undo[0]})).success);
        assert!(sandbox.done("undo", json!({"call_id": undo[1]})).success);
        assert_eq!(clocked.text("a"), Some("a".repeat(40_000)), "{mode:?}");
        assert_eq!(clocked.text("b"), Some("b".repeat(40_000)), "{mode:?}");
    }
}
