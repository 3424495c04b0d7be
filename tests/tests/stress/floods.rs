//! One user floods the daemon in each of eight ways. Meanwhile every call of another user is
//! served, the daemon's memory stays within a bound, and nothing of either user is lost. What is
//! counted is how many requests of the flood were served before the other user's. How much longer the
//! other user's work took than alone is printed, and is bounded in the long form (`tests/endure floods`).

use palisade_audit::verify;
use palisade_client::{Answer, Operator, OperatorEvent, Registration};
use palisade_protocol::{CallOptions, ErrorCode, Reply, Request, ServerMessage, wire::Dialect};
use palisade_tests::{
    Daemon, Mode, ORDINARY, World, act_as, effort, profile_with,
    raw::{Raw, call, open},
    report, resident,
    rooms::{self, Rooms},
};
use serde_json::json;
use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The user who floods.
const GREEDY: u32 = ORDINARY;

/// The user who works as on any other day.
const OTHER: u32 = ORDINARY + 1;

/// More than the broker may grow by in any flood.
const GROWTH: u64 = 768 << 20;

/// More times longer than alone than the other user's work may take, in the long form.
const MOST_SLOWER: f64 = 5.0;

/// The configuration of the daemon. The greedy user fills a day's share of the log in one flood.
const CONFIGURATION: &str = "log = \"warn\"\n[quotas]\nsessions = 256\naudit_per_day = \"4 MiB\"\n\
                             undo_bytes = \"16 MiB\"\n";

/// A flood: what it does, how it begins, and what is true of it when the other user was served.
struct Flood {
    what: &'static str,
    begin: fn(&Hall) -> Vec<Raw>,
    check: fn(&Hall, Vec<Raw>),
}

const FLOODS: [Flood; 8] = [
    Flood { what: "dry runs", begin: dry_runs, check: few_dry_runs_were_served },
    Flood { what: "sessions", begin: sessions, check: few_sessions_were_opened },
    Flood { what: "large writes", begin: large_writes, check: writes_within_the_bound_are_made },
    Flood { what: "refused calls", begin: refused_calls, check: the_log_has_a_bound },
    Flood { what: "CPU time", begin: burning, check: users_have_equal_weights },
    Flood { what: "output", begin: unread_output, check: nothing_more },
    Flood { what: "approval requests", begin: approval_requests, check: nothing_more },
    Flood { what: "connections, jobs and undo", begin: crowd, check: the_crowd_is_served_too },
];

/// A daemon with two users.
struct Hall {
    world: World,
    daemon: Daemon,
}

impl Hall {
    fn new() -> Self {
        let world = World::new(Mode::System);
        let many = ("sessions = 32", "sessions = 4096");
        world.add_profile("asking", &profile_with(&[many]));
        world.configure(CONFIGURATION);
        let daemon = world.configured_daemon(|_| {});
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        Self { world, daemon }
    }

    fn broker(&self) -> u32 {
        self.daemon.child.id()
    }

    /// Makes a directory of a user's own.
    fn workspace(&self, uid: u32, name: &str) -> PathBuf {
        let path = self.world.workspace().join(name);
        if !path.exists() {
            fs::create_dir(&path).unwrap();
            std::os::unix::fs::chown(&path, Some(uid), Some(uid)).unwrap();
        }
        path
    }

    fn file(&self, uid: u32, path: &Path, bytes: usize) {
        fs::write(path, vec![b'x'; bytes]).unwrap();
        std::os::unix::fs::chown(path, Some(uid), Some(uid)).unwrap();
    }

    fn greeted(&self, uid: u32) -> Raw {
        let connect = || UnixStream::connect(&self.daemon.socket).expect("connect");
        Raw::greeted(act_as(uid, connect), Dialect::Frames)
    }

    fn opened(&self, uid: u32, workspace: &Path) -> Raw {
        let mut raw = self.greeted(uid);
        let reply = raw.ask(open(workspace, "asking"));
        assert!(matches!(reply, Reply::Opened(_)), "{reply:?}");
        raw
    }

    /// Opens sessions of the greedy user, all in one workspace.
    fn greedy(&self, count: usize) -> Vec<Raw> {
        let workspace = self.workspace(GREEDY, "greedy");
        (0..count).map(|_| self.opened(GREEDY, &workspace)).collect()
    }

    /// Has the other user work: all of it succeeds.
    fn work(&self, name: &str) {
        let workspace = self.workspace(OTHER, name);
        let mut raw = self.opened(OTHER, &workspace);
        for (tool, arguments) in [
            ("bash", json!({"command": "echo served > one && cat one", "timeout_ms": 300_000})),
            ("write_file", json!({"path": "two", "content": "served\n"})),
            ("read_file", json!({"path": "one"})),
            ("bash", json!({"command": "cat one two", "timeout_ms": 300_000})),
        ] {
            let result = raw.result(tool, &arguments);
            assert!(result.success, "{name}: {tool}: {:?}", result.error);
        }
        assert!(matches!(raw.ask(Request::Close), Reply::Done));
        let found = ["one", "two"].map(|file| fs::read_to_string(workspace.join(file)).unwrap());
        assert_eq!(found, ["served\n", "served\n"], "{name}");
    }

    /// Returns the records of the audit log so far, in order.
    fn log(&self) -> String {
        let log = self.world.state().join("audit");
        let mut files: Vec<_> = fs::read_dir(log).unwrap().map(|e| e.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|ending| ending == "jsonl"));
        files.sort();
        files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
    }
}

fn options() -> CallOptions {
    CallOptions { timeout_ms: Some(300_000), ..CallOptions::default() }
}

fn bash(line: &str) -> Request {
    call("bash", &json!({"command": line}), options())
}

/// Returns the replies that come before that to a request that is made now.
fn answered(raw: &mut Raw) -> Vec<Reply> {
    let last = raw.send(Request::Ping);
    let mut replies = Vec::new();
    loop {
        let (id, reply) = raw.reply();
        if id == Some(last) {
            return replies;
        }
        replies.push(reply);
    }
}

fn is_over_limit(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(error) if error.code == ErrorCode::LimitReached)
}

fn nothing_more(_: &Hall, _: Vec<Raw>) {}

/// The number of dry runs of each session.
const DRY_RUNS: usize = 40;

/// Each takes an analyst all of its time: the parser never finishes with it.
fn dry_runs(hall: &Hall) -> Vec<Raw> {
    let mut raws = hall.greedy(2);
    for raw in &mut raws {
        for _ in 0..DRY_RUNS {
            let options = CallOptions { dry_run: true, ..options() };
            raw.send(call("bash", &json!({"command": "$<<\"\" "}), options));
        }
        answered(raw);
    }
    raws
}

fn few_dry_runs_were_served(_: &Hall, mut raws: Vec<Raw>) {
    let served: usize = raws.iter_mut().map(|raw| answered(raw).len()).sum();
    // Without turns for users, all of them are.
    assert!(served < 2 * DRY_RUNS - 8, "{served} of {} were served first", 2 * DRY_RUNS);
}

const SESSIONS: usize = 60;

fn sessions(hall: &Hall) -> Vec<Raw> {
    let workspace = hall.workspace(GREEDY, "greedy");
    let mut raws: Vec<_> = (0..SESSIONS).map(|_| hall.greeted(GREEDY)).collect();
    for raw in &mut raws {
        raw.send(open(&workspace, "asking"));
    }
    raws
}

/// The log has the sessions in the order in which they were opened.
fn few_sessions_were_opened(hall: &Hall, raws: Vec<Raw>) {
    let log = hall.log();
    let opened = log.lines().filter(|line| line.contains("\"session_open\""));
    let place = opened.clone().position(|line| line.contains("/other"));
    let place = place.unwrap_or_else(|| panic!("{log}"));
    // Without turns for users, all of them are.
    assert!(place < SESSIONS - 8, "{place} sessions were opened first");
    for mut raw in raws {
        let (_, reply) = raw.reply();
        assert!(matches!(reply, Reply::Opened(_)), "{reply:?}");
    }
}

/// The bytes of a large write, and how many there are for each session.
const WRITE: usize = 8 << 20;
const WRITES: usize = 12;

fn large_writes(hall: &Hall) -> Vec<Raw> {
    let mut raws = hall.greedy(3);
    let content = "x".repeat(WRITE);
    for (number, raw) in raws.iter_mut().enumerate() {
        raw.send(bash("until test -e go; do sleep 0.1; done"));
        for write in 0..WRITES {
            let path = format!("write-{number}-{write}");
            raw.send(call("write_file", &json!({"path": path, "content": content}), options()));
        }
    }
    raws
}

/// A session holds less than eight of them, and all sessions of a user less than sixteen.
fn writes_within_the_bound_are_made(hall: &Hall, raws: Vec<Raw>) {
    let go = hall.workspace(GREEDY, "greedy").join("go");
    let mut made = Vec::new();
    let mut waiting = Vec::new();
    for mut raw in raws {
        let refused = answered(&mut raw);
        assert!(refused.iter().all(is_over_limit), "{refused:?}");
        made.push(WRITES - refused.len());
        waiting.push((raw, WRITES - refused.len() + 1));
    }
    assert_eq!(made, [7, 7, 1]);
    hall.file(GREEDY, &go, 0);
    for (mut raw, count) in waiting {
        for _ in 0..count {
            let (_, reply) = raw.reply();
            assert!(matches!(&reply, Reply::Result(result) if result.success), "{reply:?}");
        }
    }
    let workspace = hall.workspace(GREEDY, "greedy");
    let written = fs::read_dir(workspace).unwrap().flatten();
    let sizes: Vec<_> = written.map(|entry| entry.metadata().unwrap().len()).collect();
    assert_eq!(sizes.iter().filter(|size| **size == WRITE as u64).count(), 15, "{sizes:?}");
}

/// Calls that are refused, until the user's share of the log is full.
fn refused_calls(hall: &Hall) -> Vec<Raw> {
    let mut raws = hall.greedy(1);
    hall.file(GREEDY, &hall.workspace(GREEDY, "greedy").join("f"), 1);
    let command = format!("rm f; : {}", "x".repeat(60_000));
    let refused = (0..2_000).find(|_| match raws[0].ask(bash(&command)) {
        Reply::Result(result) => {
            assert_eq!(result.error.unwrap().code, ErrorCode::Denied);
            false
        }
        reply => is_over_limit(&reply),
    });
    assert!(refused.is_some_and(|calls| calls > 0), "{refused:?}");
    raws
}

fn the_log_has_a_bound(hall: &Hall, mut raws: Vec<Raw>) {
    assert!(is_over_limit(&raws[0].ask(bash("true"))));
    let bytes = hall.log().len();
    assert!(bytes < 6 << 20, "{bytes}");
    assert!(hall.workspace(GREEDY, "greedy").join("f").exists());
}

const BURNING: usize = 8;

fn burning(hall: &Hall) -> Vec<Raw> {
    let mut raws = hall.greedy(BURNING);
    for raw in &mut raws {
        let stream = CallOptions { stream: true, ..options() };
        raw.send(call("bash", &json!({"command": "echo; while :; do :; done"}), stream));
        while !matches!(raw.hear(), Some(ServerMessage::Event(_))) {}
    }
    raws
}

/// The kernel gives each user's sessions together the same part of the CPU time.
fn users_have_equal_weights(hall: &Hall, _raws: Vec<Raw>) {
    let _other = hall.opened(OTHER, &hall.workspace(OTHER, "beside"));
    let groups = rooms::cgroups(Rooms::of(hall.broker()).inner.pid);
    let weight = |group: &Path| {
        let files = ["cpu.shares", "cpu.weight"].into_iter();
        files.filter_map(|file| fs::read_to_string(group.join(file)).ok()).next()
    };
    // Where there is no CPU controller, the scheduler knows nothing of users.
    for base in groups.iter().filter(|base| weight(base).is_some()) {
        let [greedy, other] = [GREEDY, OTHER].map(|uid| base.join(format!("user-{uid}")));
        assert_eq!(weight(&greedy), weight(&other));
        assert!(weight(&greedy).is_some(), "{}", greedy.display());
        let in_group = |group: &Path| {
            let all = fs::read_dir(group).unwrap().flatten().map(|entry| entry.file_name());
            all.filter(|name| name.to_string_lossy().starts_with("session-")).count()
        };
        // One more may have been prepared for the user who came last.
        assert!((BURNING..=BURNING + 1).contains(&in_group(&greedy)), "{}", in_group(&greedy));
        assert!((1..=2).contains(&in_group(&other)), "{}", in_group(&other));
    }
}

/// Programs that print without end, and results that nobody reads.
fn unread_output(hall: &Hall) -> Vec<Raw> {
    let mut raws = hall.greedy(6);
    for raw in &mut raws[..4] {
        let stream = CallOptions { stream: true, ..options() };
        raw.send(call("bash", &json!({"command": "yes"}), stream));
        while !matches!(raw.hear(), Some(ServerMessage::Event(_))) {}
    }
    hall.file(GREEDY, &hall.workspace(GREEDY, "greedy").join("large"), 4 << 20);
    for raw in &mut raws[4..] {
        for _ in 0..250 {
            raw.send(call("read_file", &json!({"path": "large"}), options()));
        }
    }
    raws
}

/// Requests that an approver does not answer. The other user's is answered.
fn approval_requests(hall: &Hall) -> Vec<Raw> {
    let mut raws = hall.greedy(8);
    let connect = || UnixStream::connect(&hall.daemon.operators).unwrap();
    let stream = hall.world.mode.act(connect);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let workspace = hall.workspace(OTHER, "asked");
    hall.file(OTHER, &workspace.join("f"), 1);
    let mut other = hall.opened(OTHER, &workspace);
    runtime.block_on(async {
        stream.set_nonblocking(true).unwrap();
        let stream = tokio::net::UnixStream::from_std(stream).unwrap();
        let operator = Operator::from_stream(stream).await.unwrap();
        operator.register(Registration::new("person:ann")).await.unwrap();
        for (number, raw) in raws.iter_mut().enumerate() {
            for call in 0..20 {
                let name = format!("f-{number}-{call}");
                hall.file(GREEDY, &hall.workspace(GREEDY, "greedy").join(&name), 1);
                raw.send(bash(&format!("rm {name}")));
            }
        }
        other.send(bash("rm f"));
        let mut asked = 0;
        loop {
            let Some(OperatorEvent::ApprovalRequest(request)) = operator.next().await else {
                continue;
            };
            if request.asker.uid == OTHER {
                operator.answer(&request, Answer::approve()).await.unwrap();
                break;
            }
            asked += 1;
        }
        // Each session waits with one request: its other calls come after it.
        assert!(asked <= raws.len(), "{asked}");
    });
    let (_, reply) = other.reply();
    assert!(matches!(&reply, Reply::Result(result) if result.success), "{reply:?}");
    assert!(!workspace.join("f").exists());
    raws
}

/// Makes as many connections as a user may have, some with jobs, and undo records up to the quota.
fn crowd(hall: &Hall) -> Vec<Raw> {
    let mut raws = hall.greedy(2);
    let large = "x".repeat(3 << 20);
    for (number, raw) in raws.iter_mut().enumerate() {
        for job in 0..3 {
            let job = json!({"command": format!("sleep {}", 300 + job), "background": true});
            assert!(raw.result("bash", &job).success);
        }
        for turn in 0..6 {
            let write =
                json!({"path": format!("kept-{number}"), "content": format!("{turn}{large}")});
            assert!(raw.result("write_file", &write).success, "the oldest records make room");
        }
    }
    let idle = (raws.len()..256).map(|_| hall.greeted(GREEDY));
    raws.extend(idle.collect::<Vec<_>>());
    let connect = || UnixStream::connect(&hall.daemon.socket).expect("connect");
    let mut last = Raw::new(act_as(GREEDY, connect), Dialect::Frames);
    last.send(Request::Ping);
    assert_eq!(last.last_words().code, ErrorCode::LimitReached);
    raws
}

fn the_crowd_is_served_too(_: &Hall, raws: Vec<Raw>) {
    for mut raw in raws {
        assert!(matches!(raw.ask(Request::Ping), Reply::Pong));
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

#[test]
fn whatever_one_user_floods_another_is_served() {
    // A user's own daemon serves nobody else.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for Flood { what, begin, check } in FLOODS {
        let hall = Hall::new();
        hall.work("before");
        let alone = timed(|| hall.work("alone"));
        let before = resident(hall.broker());
        let raws = begin(&hall);
        let during = timed(|| hall.work("other")).max(timed(|| hall.work("once-more")));
        let ratio = during.as_secs_f64() / alone.as_secs_f64();
        report(&format!("another user's work during {what}, to alone"), format!("{ratio:.1}"));
        assert!(ratio <= effort(f64::INFINITY, MOST_SLOWER), "{what}: {during:?} to {alone:?}");
        let grown = resident(hall.broker()).saturating_sub(before);
        assert!(grown < GROWTH, "{what}: the broker grew by {grown} bytes");
        check(&hall, raws);
        hall.work("after");
        let found = verify(&hall.world.state().join("audit"), &[]).unwrap();
        assert!(found.is_good(), "{what}: {found:?}");
        println!("{what}: the broker grew by {} MiB", grown >> 20);
    }
}
