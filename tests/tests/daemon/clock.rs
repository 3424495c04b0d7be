//! The machine's clock is set by a day under a running daemon, forward and back: no deadline comes early
//! or late, nothing that is kept or remembered goes, and the log says what the clock said.

use palisade_audit::{LocatedRecord, ReadError, Reader, Timestamp, verify};
use palisade_client::{Answer, Open, Operator, OperatorEvent, Registration, Running};
use palisade_protocol::{
    ApprovalRequest, CallResult, ErrorCode, OpenOptions, Opened, RawPath, Reply, Request, Resume,
    Scope, Until, wire::Dialect,
};
use palisade_tests::{Daemon, Mode, Sandbox, World, effort, handlers, raw::Raw, rooms::until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::{
    fs,
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixDatagram, UnixStream},
    },
    path::PathBuf,
    process::{Child, Stdio},
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
    _memory: Memory,
    /// The socket of a service manager. It is read only on request, and holds up nobody.
    manager: UnixDatagram,
    world: World,
}

/// The library's memory shared by the processes of a daemon, which stays if they are killed.
struct Memory(u32);

impl Drop for Memory {
    fn drop(&mut self) {
        for name in ["faketime_shm_", "sem.faketime_sem_"] {
            // Not every version of it has both.
            fs::remove_file(format!("/dev/shm/{name}{}", self.0)).unwrap_or_default();
        }
    }
}

/// The profiles of these tests.
const PROFILES: [(&str, &str); 4] = [
    ("asking", "[remember]\nscopes = [\"exact\"]\nms = 3600000"),
    ("waiting", "grace_ms = 600000"),
    ("hasty", "grace_ms = 300"),
    ("both", "quorum = 2\ndeadline_ms = 600000"),
];

impl Clocked {
    fn new(mode: Mode, configuration: &str) -> Self {
        assert!(PathBuf::from(LIBRARY).exists(), "the package faketime is missing");
        let world = World::new(mode);
        world.configure(configuration);
        for (name, text) in PROFILES {
            // Sessions that lose their connection may wait for an hour.
            let text = handlers(text);
            let lasting = text.replacen("\ngrace_ms = 30_000\n", "\ngrace_ms = 3_600_000\n", 1);
            assert_ne!(lasting, text);
            world.add_profile(name, &lasting);
        }
        fs::write(offset(&world), "+0").unwrap();
        let notify = world.outside().with_file_name("notify");
        let manager = UnixDatagram::bind(&notify).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        fs::set_permissions(&notify, fs::Permissions::from_mode(0o777)).unwrap();
        let daemon = world.configured_daemon(|command| {
            command
                .env("LD_PRELOAD", LIBRARY)
                .env("FAKETIME_TIMESTAMP_FILE", offset(&world))
                .env("FAKETIME_NO_CACHE", "1")
                // The clock that nobody can set is not set.
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("NO_FAKE_STAT", "1")
                .env("FAKETIME_DISABLE_SHM", "1")
                .env("NOTIFY_SOCKET", notify)
                .env("WATCHDOG_USEC", "600000");
        });
        let memory = Memory(daemon.child.id());
        let open = Open::new(world.workspace()).profile("asking");
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        let stream = mode.act(|| UnixStream::connect(&daemon.operators).unwrap());
        let operator = sandbox.wait(async {
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            Operator::from_stream(stream).await.unwrap()
        });
        Self { sandbox, operator, daemon, _memory: memory, manager, world }
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
    fn beside(&self, profile: &str) -> Sandbox {
        let open = Open::new(self.world.workspace()).profile(profile);
        Sandbox::over(self.daemon.connect(self.world.mode), None, open).unwrap()
    }

    /// Deletes a file, which is asked about.
    fn delete(&self, name: &str) -> Running {
        delete(&self.sandbox, name)
    }

    /// A session whose connection is gone, and that waits this long for the next.
    fn abandoned(&self, grace: Duration) -> Opened {
        let mut raw = Raw::greeted(self.daemon.connect(self.world.mode), Dialect::Frames);
        let grace_ms = Some(grace.as_millis().try_into().unwrap());
        let reply = raw.ask(Request::Open(palisade_protocol::Open {
            workspace: RawPath::from(self.world.workspace()),
            profile: Some("asking".to_owned()),
            options: OpenOptions { grace_ms, ..OpenOptions::default() },
        }));
        let Reply::Opened(opened) = reply else { panic!("{reply:?}") };
        *opened
    }

    /// Takes a session over; returns the daemon's answer.
    fn resumed(&self, opened: &Opened) -> Reply {
        let mut raw = Raw::greeted(self.daemon.connect(self.world.mode), Dialect::Frames);
        let (session, token) = (opened.session.clone(), opened.token.clone().unwrap());
        raw.ask(Request::Resume(Resume { session, token, calls: None }))
    }

    /// A handler of another process that approves of everything.
    fn approver(&self) -> Child {
        let mut command = self.world.command("palisade");
        command.args(["approve", "--policy", "approve", "--operator-socket"]);
        command.arg(&self.daemon.operators).stdin(Stdio::null()).stdout(Stdio::null());
        self.world.mode.act(|| command.spawn().unwrap())
    }

    /// Waits until the daemon has said so often from now on that it is alive.
    fn beats(&self, times: usize) {
        self.manager.set_nonblocking(true).unwrap();
        let mut said = [0; 4096];
        while self.manager.recv(&mut said).is_ok() {}
        self.manager.set_nonblocking(false).unwrap();
        let mut beats = 0;
        while beats < times {
            let length = self.manager.recv(&mut said).expect("the daemon is alive");
            let said = String::from_utf8_lossy(&said[..length]);
            beats += usize::from(said.lines().any(|line| line == "WATCHDOG=1"));
        }
    }

    fn request(&self) -> ApprovalRequest {
        self.sandbox.wait(async {
            loop {
                if let Some(OperatorEvent::ApprovalRequest(request)) = self.operator.next().await {
                    return *request;
                }
            }
        })
    }

    fn answer(&self, request: &ApprovalRequest, answer: Answer) {
        self.sandbox.wait(self.operator.answer(request, answer)).expect("taken");
    }

    fn end(&self, running: Running) -> CallResult {
        self.sandbox.wait(running.result()).expect("a result")
    }

    fn records(&self) -> Vec<LocatedRecord> {
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

fn delete(sandbox: &Sandbox, name: &str) -> Running {
    let call = sandbox.session.call("delete_file", json!({ "path": name }));
    sandbox.wait(call.start()).unwrap()
}

fn offset(world: &World) -> PathBuf {
    world.outside().with_file_name("offset")
}

/// Returns the time of the clock that nobody has set, in milliseconds.
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
            // An approval request, a call, a job and what is remembered, from before.
            let remembered = clocked.delete("again");
            let request = clocked.request();
            let hour = Until::Ms(3_600_000);
            clocked.answer(&request, Answer::approve().remember(Scope::ExactCall, hour));
            assert!(clocked.end(remembered).success, "{mode:?} {by}");
            let waiting = clocked.delete("asked");
            let request = clocked.request();
            let line = "until ls | grep -qx go; do sleep 0.02; done; echo on";
            let (long, short) = (clocked.beside("asking"), clocked.beside("asking"));
            let job = json!({"command": "sleep 600", "background": true});
            assert!(long.done("bash", job).success);
            let call = long.session.bash(line).timeout(Duration::from_secs(300));
            let running = long.wait(call.start()).unwrap();
            let call = short.session.bash("sleep 600").timeout(Duration::from_millis(900));
            let timed = short.wait(call.start()).unwrap();
            clocked.set(by);
            clocked.file("go", "");
            // Nobody is early.
            assert_eq!(long.wait(running.result()).unwrap().stdout, "on\n", "{mode:?} {by}");
            let pending = clocked.sandbox.wait(clocked.operator.pending()).unwrap();
            assert_eq!(pending.len(), 1, "{mode:?} {by}");
            assert!((1..=600_000).contains(&pending[0].expires_in_ms), "{mode:?} {by}");
            clocked.answer(&request, Answer::approve());
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
            // The remembered approval lasts as long as it was to, and nobody waits for a day.
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
fn grace_times_and_beats_go_by_no_clock_that_is_set() {
    for (mode, apart) in Mode::all().into_iter().zip(["-1d", "+1d"]) {
        for by in effort(vec![apart], vec!["+1d", "-1d"]) {
            let clocked = Clocked::new(mode, "");
            for name in ["again", "awaited", "both", "one", "nobody"] {
                clocked.file(name, "kept");
            }
            clocked.register(Registration::new("person:ann"));
            let approved = clocked.delete("again");
            let brief = Answer::approve().remember(Scope::ExactCall, Until::Ms(1000));
            clocked.answer(&clocked.request(), brief);
            assert!(clocked.end(approved).success, "{mode:?} {by}");
            clocked.sandbox.wait(clocked.operator.withdraw()).unwrap();
            // From before: sessions, a waiting approval request, and a program that will not end.
            let long = clocked.abandoned(Duration::from_secs(3600));
            let short = clocked.abandoned(Duration::from_millis(500));
            let waiting = clocked.beside("waiting");
            let awaited = delete(&waiting, "awaited");
            let stubborn = clocked.beside("asking");
            let line = "trap '' TERM; while :; do sleep 1; done";
            let call = stubborn.session.bash(line).timeout(Duration::from_secs(10));
            let ignoring = stubborn.wait(call.start()).unwrap();
            clocked.set(by);
            clocked.beats(3);
            // The session with a long grace time still waits.
            let reply = clocked.resumed(&long);
            assert!(matches!(reply, Reply::Resumed(_)), "{mode:?} {by}: {reply:?}");
            let mut approver = clocked.approver();
            let awaited = waiting.wait(awaited.result()).unwrap();
            assert!(awaited.success, "{mode:?} {by}: {:?}", awaited.error);
            // Two are to approve: one has to be waited for as long as it may take, and no longer.
            let both = clocked.beside("both");
            clocked.register(Registration::new("person:ann").deadline(Duration::from_secs(600)));
            let carried = delete(&both, "both");
            clocked.answer(&clocked.request(), Answer::approve());
            assert!(both.wait(carried.result()).unwrap().success, "{mode:?} {by}");
            clocked.register(Registration::new("person:ann").deadline(Duration::from_millis(300)));
            let one = both.wait(delete(&both, "one").result()).unwrap().error.expect("one is few");
            assert_eq!(one.code, ErrorCode::Denied, "{mode:?} {by}: {one}");
            assert_eq!(clocked.text("one").as_deref(), Some("kept"));
            // And what was to be over is.
            until("the brief approval is over", || {
                clocked.sandbox.wait(clocked.operator.grants()).unwrap().is_empty()
            });
            kill_process(Pid::from_child(&approver), Signal::TERM).unwrap();
            approver.wait().unwrap();
            clocked.sandbox.wait(clocked.operator.withdraw()).unwrap();
            let hasty = clocked.beside("hasty");
            let nobody = hasty.wait(delete(&hasty, "nobody").result()).unwrap();
            let nobody = nobody.error.expect("nobody came");
            assert_eq!(nobody.code, ErrorCode::Denied, "{mode:?} {by}: {nobody}");
            assert_eq!(clocked.text("nobody").as_deref(), Some("kept"));
            until("the brief session is over", || {
                let status = clocked.sandbox.wait(clocked.sandbox.client.status()).unwrap();
                !status.sessions.iter().any(|open| open.session == short.session)
            });
            let reply = clocked.resumed(&short);
            let Reply::Error(error) = reply else { panic!("{mode:?} {by}: {reply:?}") };
            assert_eq!(error.code, ErrorCode::NotFound, "{mode:?} {by}: {error}");
            let ended = stubborn.wait(ignoring.result()).unwrap();
            assert!(ended.timed_out && ended.signal == Some(9), "{mode:?} {by}: {ended:?}");
            assert!(ended.execution_time_ms < 120_000, "{}", ended.execution_time_ms);
            clocked.beats(1);
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
            let request = clocked.request();
            clocked.answer(&request, Answer::approve());
            clocked.end(running)
        };
        let undo = [delete("a"), delete("b")].map(|result| result.undo.expect("it can be undone"));
        let spool = sandbox.bash("head -c 300000 /dev/zero").spool.expect("a spool");
        let begun = clocked.records().len();
        for by in ["+1d", "-1d", "+0"] {
            clocked.set(by);
            // There is no room: a day by the clock is none, and the wait is what is left of seven.
            let error = delete("c").error.expect("there is no room");
            assert_eq!(error.code, ErrorCode::UndoStoreFull, "{mode:?} {by}: {error}");
            let week = 7 * DAY.cast_unsigned();
            assert!(
                error.retry_after_ms.is_some_and(|wait| wait > week - week / 14 && wait <= week),
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
        let day = |sighted: &LocatedRecord| match sighted.entry.time {
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
        clocked.daemon.signal(Signal::HUP);
        until("it is undone", || sandbox.call("undo", json!({"call_id": undo[0]})).success);
        assert!(sandbox.done("undo", json!({"call_id": undo[1]})).success);
        assert_eq!(clocked.text("a"), Some("a".repeat(40_000)), "{mode:?}");
        assert_eq!(clocked.text("b"), Some("b".repeat(40_000)), "{mode:?}");
    }
}
