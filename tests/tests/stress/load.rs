//! Many agents at once for a while, many that only stay, and many that come and go: no call fails,
//! memory stays flat, users get alike, and when they are gone nothing is left of them.
//!
//! Short in CI; `tests/endure` has 200 agents for minutes, 2,000 idle sessions, 10,000 connections.

use palisade_client::{Answer, Client, Open, Operator, OperatorEvent, Registration, Session};
use palisade_protocol::{CallOptions, CallResult, ErrorCode, Reply, Request, wire::Dialect};
use palisade_tests::{
    Daemon, Dice, Mode, ORDINARY, World, act_as, effort, percentiles, processes, profile_with,
    raw::{DIALECTS, Raw, call, encode, hello, open},
    report, resident,
    rooms::{Rooms, until},
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, task::JoinSet};

/// The profiles of the agents, in turn: nobody is asked; every command in a transaction; asked, and
/// somebody says yes.
const PROFILES: [&str; 3] = ["free", "held", "asked"];
/// More than a daemon may grow by between the first quarter of the time and its end.
const GROWTH: u64 = 32 << 20;
/// By how much one user may get more than the other.
const UNFAIR: usize = 4;

/// A daemon that lets one user have as many sessions as there are connections.
struct Place {
    daemon: Daemon,
    runtime: Runtime,
    world: World,
}

impl Place {
    fn new(mode: Mode) -> Self {
        let world = World::new(mode);
        let many = ("sessions = 32", "sessions = 4096");
        // Without a cgroup they are counted over all sessions.
        let processes = ("processes = 1024", "processes = 8192");
        let never = ("ask = \"destructive\"", "ask = \"never\"");
        let guard = ("guard = \"auto\"", "guard = \"transaction\"");
        world.add_profile("free", &profile_with(&[many, processes, never]));
        world.add_profile("held", &profile_with(&[many, processes, never, guard]));
        world.add_profile("asked", &profile_with(&[many, processes]));
        world.configure("log = \"warn\"\n[quotas]\nsessions = 4096\n");
        let daemon = world.configured_daemon(|_| {});
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        Self { daemon, runtime, world }
    }

    /// Returns the users who work here: two of the system's daemon, or its own user.
    fn users(&self) -> Vec<u32> {
        match self.world.mode {
            Mode::System => vec![ORDINARY, ORDINARY + 1],
            Mode::User => vec![self.world.mode.uid()],
        }
    }

    fn connect(&self, uid: u32) -> UnixStream {
        let connect = || UnixStream::connect(&self.daemon.socket).expect("connect");
        if rustix::process::geteuid().is_root() { act_as(uid, connect) } else { connect() }
    }

    /// A directory of a user's own.
    fn workspace(&self, uid: u32, name: &str) -> PathBuf {
        let path = self.world.workspace().join(name);
        fs::create_dir(&path).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(uid), Some(uid)).unwrap();
        }
        path
    }

    fn open(&self, uid: u32, workspace: &Path, profile: &str) -> (Client, Session) {
        let stream = self.connect(uid);
        self.runtime.block_on(async {
            let client = Client::from_stream(asynchronous(stream)).await.expect("a client");
            let open = Open::new(workspace).profile(profile);
            let session = client.open(open).await.unwrap_or_else(|error| panic!("{error}"));
            (client, session)
        })
    }

    /// Somebody who says yes to everything.
    fn approver(&self) -> tokio::task::JoinHandle<()> {
        let stream = self.world.mode.act(|| UnixStream::connect(&self.daemon.operators).unwrap());
        let operator = self.runtime.block_on(async {
            let operator = Operator::from_stream(asynchronous(stream)).await.unwrap();
            operator.register(Registration::new("program:yes")).await.unwrap();
            operator
        });
        self.runtime.spawn(async move {
            while let Some(event) = operator.next().await {
                if let OperatorEvent::ApprovalRequest(request) = event {
                    operator.answer(&request, Answer::approve()).await.expect("taken");
                }
            }
        })
    }

    fn broker(&self) -> u32 {
        self.daemon.child.id()
    }

    fn launcher(&self) -> u32 {
        Rooms::of(self.broker()).inner.pid.cast_unsigned()
    }

    /// Descriptors of the broker, where they may be seen.
    fn descriptors(&self) -> Option<usize> {
        fs::read_dir(format!("/proc/{}/fd", self.broker())).ok().map(Iterator::count)
    }

    /// Waits until no session has a process.
    fn assert_empty(&self) {
        until("every session's processes are gone", || {
            let tree = processes::tree(self.broker().cast_signed());
            !tree.iter().any(|process| process.name.starts_with("cell "))
        });
    }
}

fn asynchronous(stream: UnixStream) -> tokio::net::UnixStream {
    stream.set_nonblocking(true).expect("non-blocking");
    tokio::net::UnixStream::from_std(stream).expect("a stream")
}

/// The record of an agent: how long each call took, by tool, and how many were over a quota.
#[derive(Debug, Default)]
struct Diary {
    uid: u32,
    times: BTreeMap<&'static str, Vec<Duration>>,
    refused: usize,
}

impl Diary {
    fn note(&mut self, tool: &'static str, begun: Instant, result: &CallResult) {
        match &result.error {
            None => self.times.entry(tool).or_default().push(begun.elapsed()),
            Some(error) if error.code == ErrorCode::LimitReached => self.refused += 1,
            Some(error) => panic!("{tool}: {error}"),
        }
    }

    fn calls(&self) -> usize {
        self.times.values().map(Vec::len).sum()
    }
}

/// An agent at work until the time is over.
async fn work(session: Session, uid: u32, mut dice: Dice, end: Instant) -> Diary {
    let mut diary = Diary { uid, ..Diary::default() };
    let mut value = 0;
    let fresh = json!({"path": "doc", "content": "value 0\n"});
    let begun = Instant::now();
    let written = session.call("write_file", fresh).await.expect("an answer");
    diary.note("write_file", begun, &written);
    while Instant::now() < end {
        let (tool, arguments) = match dice.roll(7) {
            0 => ("bash", json!({"command": "read -r line < doc; echo $line > copy"})),
            1 => ("read_file", json!({"path": "doc"})),
            2 => ("grep", json!({"pattern": "val.e"})),
            3 => ("list_files", json!({})),
            4 => ("write_file", json!({"path": "other", "content": "x".repeat(dice.roll(20_000))})),
            5 => {
                value += 1;
                let (old, new) = (format!("value {}\n", value - 1), format!("value {value}\n"));
                ("edit", json!({"path": "doc", "old_string": old, "new_string": new}))
            }
            // A call that needs approval in a profile that asks.
            _ => ("delete_file", json!({"path": "other"})),
        };
        if tool == "delete_file" {
            let other = json!({"path": "other", "content": "to go"});
            let begun = Instant::now();
            diary.note("write_file", begun, &session.call("write_file", other).await.unwrap());
        }
        let begun = Instant::now();
        let result = session.call(tool, arguments).await.expect("an answer");
        diary.note(tool, begun, &result);
    }
    session.close().await.expect("closed");
    diary
}

/// One that does not read what it asked for, and one that sends a byte at a time.
fn slow(place: &Place) -> (Raw, std::thread::JoinHandle<()>) {
    let uid = place.users()[0];
    let workspace = place.workspace(uid, "slow");
    let opened = |dialect| {
        let mut raw = Raw::greeted(place.connect(uid), dialect);
        let reply = raw.ask(open(&workspace, "free"));
        assert!(matches!(reply, Reply::Opened(_)), "{reply:?}");
        raw
    };
    let mut deaf = opened(Dialect::Frames);
    let stream = CallOptions { stream: true, ..CallOptions::default() };
    deaf.send(call("bash", &json!({"command": "head -c 30000000 /dev/zero"}), stream));
    let mut halting = opened(Dialect::JsonLines);
    let typing = std::thread::spawn(move || {
        for byte in b"{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"ping\"}\n" {
            halting.say(&[*byte]);
            std::thread::sleep(Duration::from_millis(40));
        }
        let (id, reply) = halting.reply();
        assert_eq!((id, format!("{reply:?}")), (Some(77), "Pong".to_owned()));
    });
    (deaf, typing)
}

fn assert_fair(diaries: &[Diary]) {
    let mut calls: BTreeMap<u32, usize> = BTreeMap::new();
    for diary in diaries {
        *calls.entry(diary.uid).or_default() += diary.calls();
    }
    let (least, most) = (calls.values().min().unwrap(), calls.values().max().unwrap());
    report("calls of the user who got fewest and of who got most", format!("{least}, {most}"));
    assert!(*most <= UNFAIR * least.max(&10), "{calls:?}");
}

fn tell(mode: Mode, diaries: Vec<Diary>, seconds: u64) {
    let refused: usize = diaries.iter().map(|diary| diary.refused).sum();
    let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for diary in diaries {
        for (tool, taken) in diary.times {
            times.entry(tool).or_default().extend(taken);
        }
    }
    let total: usize = times.values().map(Vec::len).sum();
    report(
        &format!("{mode:?}: calls in {seconds} s, and over a quota"),
        format!("{total}, {refused}"),
    );
    for (tool, taken) in times {
        let count = taken.len();
        let (p50, p99) = percentiles(taken);
        report(
            &format!("{mode:?}: {tool}, calls, p50, p99"),
            format!("{count}, {p50:.1?}, {p99:.1?}"),
        );
    }
}

#[test]
fn many_agents_at_work_are_all_served_and_leave_nothing() {
    let (agents, seconds) = effort((24, 4), (200, 120));
    let mut dice = Dice::new("agents");
    for mode in Mode::all() {
        let place = Place::new(mode);
        let approver = place.approver();
        let users = place.users();
        let sessions: Vec<_> = (0..agents)
            .map(|n| {
                let uid = users[n % users.len()];
                let workspace = place.workspace(uid, &format!("agent-{n}"));
                (uid, place.open(uid, &workspace, PROFILES[n % PROFILES.len()]))
            })
            .collect();
        let (deaf, typing) = slow(&place);
        let launcher = place.launcher();
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut working = JoinSet::new();
        let mut clients = Vec::new();
        for (uid, (client, session)) in sessions {
            working.spawn_on(work(session, uid, dice.beside(), end), place.runtime.handle());
            clients.push(client);
        }
        std::thread::sleep(Duration::from_secs(seconds) / 4);
        let warm = (resident(place.broker()), resident(launcher));
        let diaries = place.runtime.block_on(working.join_all());
        let after = (resident(place.broker()), resident(launcher));
        drop(clients);
        typing.join().unwrap();
        drop(deaf);
        place.assert_empty();
        let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        for (room, warm, after) in [("broker", warm.0, after.0), ("launcher", warm.1, after.1)] {
            let measured = format!("{}, {}", mebibytes(warm), mebibytes(after));
            report(&format!("{mode:?}: {room}'s memory after a quarter, and at the end"), measured);
            assert!(after < warm + GROWTH, "{mode:?}: the {room} grew from {warm} to {after}");
        }
        assert!(diaries.iter().all(|diary| diary.calls() > 0), "somebody was not served");
        assert_fair(&diaries);
        tell(mode, diaries, seconds);
        approver.abort();
    }
}

/// Everything that the processes of a daemon have for themselves, where it may be seen.
fn private_memory(broker: u32) -> Option<u64> {
    let all = processes::tree(broker.cast_signed());
    let sum = all.iter().filter_map(|process| {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
    });
    let sum: u64 = sum.sum::<u64>() << 10;
    (sum > 0).then_some(sum)
}

#[test]
fn idle_sessions_cost_little_and_nothing_when_they_are_closed() {
    // A user has 256 connections at most.
    let mode = Mode::all()[0];
    let (of_user, users) = match mode {
        Mode::System => effort((50, 4), (200, 10)),
        Mode::User => effort((100, 1), (200, 1)),
    };
    let place = Place::new(mode);
    let first = if mode == Mode::System { ORDINARY } else { mode.uid() };
    let begin = place.open(first, &place.workspace(first, "first"), "free");
    let before = (resident(place.broker()), private_memory(place.broker()), place.descriptors());
    let mut idle = Vec::new();
    for user in 0..users {
        let uid = first + user;
        let workspace = place.workspace(uid, &format!("idle-{user}"));
        idle.extend((0..of_user).map(|_| place.open(uid, &workspace, "free")));
    }
    let sessions = idle.len() as u64;
    let with = (resident(place.broker()), private_memory(place.broker()), place.descriptors());
    report(&format!("{mode:?}: idle sessions"), sessions);
    let each =
        |more: u64, less: u64| format!("{} KiB", (more.saturating_sub(less) / sessions) >> 10);
    report(&format!("{mode:?}: the broker's memory for each"), each(with.0, before.0));
    if let (Some(more), Some(less)) = (with.1, before.1) {
        report(&format!("{mode:?}: all memory for each"), each(more, less));
    }
    if let (Some(more), Some(less)) = (with.2, before.2) {
        let each = (more - less) as f64 / sessions as f64;
        report(&format!("{mode:?}: the broker's descriptors for each"), format!("{each:.1}"));
    }
    assert!(with.0 < before.0 + sessions * (1 << 20), "a mebibyte of the broker for each");
    // Each answers, however many there are; then all go.
    let (_, last) = idle.last().unwrap();
    let answered = place.runtime.block_on(async { last.bash("echo here").await.unwrap() });
    assert_eq!(answered.stdout, "here\n");
    let closing: Vec<_> = idle.iter().map(|(_, session)| session.close()).collect();
    place.runtime.block_on(async {
        for close in closing {
            close.await.unwrap();
        }
    });
    drop(idle);
    let (_client, session) = begin;
    until("only the first session has processes", || {
        let tree = processes::tree(place.broker().cast_signed());
        !tree.iter().any(|p| p.name.starts_with("cell ") && !p.name.starts_with("cell 1 "))
    });
    until("the broker's descriptors are as before", || {
        place.descriptors().zip(before.2).is_none_or(|(now, then)| now <= then + 16)
    });
    let after = place.runtime.block_on(async { session.bash("echo still").await.unwrap() });
    assert_eq!(after.stdout, "still\n");
}

#[test]
fn connections_that_come_and_go_leave_nothing() {
    let connections = effort(1_000, 10_000);
    for mode in Mode::all() {
        let place = Place::new(mode);
        let uid = place.users()[0];
        let workspace = place.workspace(uid, "work");
        let (_client, session) = place.open(uid, &workspace, "free");
        let well = || {
            let said = place.runtime.block_on(async { session.bash("echo well").await.unwrap() });
            assert_eq!(said.stdout, "well\n");
        };
        well();
        let descriptors = place.descriptors();
        let come_and_go = |connections| {
            for n in 0..connections {
                come_and_go(place.connect(uid), n);
            }
            until("the connections are gone", || {
                place.descriptors().zip(descriptors).is_none_or(|(now, then)| now <= then + 16)
            });
            well();
            resident(place.broker())
        };
        // The memory for as many connections at once as are let in is kept for the next.
        let warm = come_and_go(connections);
        let grown = come_and_go(connections).saturating_sub(warm);
        report(&format!("{mode:?}: connections that came and went"), connections);
        report(&format!("{mode:?}: growth by them"), format!("{} KiB", grown >> 10));
        assert!(grown < GROWTH, "{mode:?}: {grown} bytes more");
    }
}

/// Leaves at once, in the middle of a word, or with one that nobody will hear the answer to.
fn come_and_go(stream: UnixStream, n: usize) {
    let dialect = DIALECTS[n % 2];
    match n % 3 {
        0 => drop(stream),
        1 => Raw::new(stream, dialect).say(&encode(dialect, 1, hello(1))[..1]),
        _ => Raw::new(stream, dialect).say(&encode(dialect, 1, hello(1))),
    }
}

/// Far more connections than are let in, which say nothing: another user's is served meanwhile.
#[test]
fn a_flood_of_silent_connections_keeps_nobody_else_out() {
    if let [Mode::System, ..] = Mode::all()[..] {
        let place = Place::new(Mode::System);
        let flood: Vec<_> = (0..2_500).map(|_| place.connect(ORDINARY)).collect();
        let mut raw = Raw::greeted(place.connect(ORDINARY + 1), Dialect::Frames);
        assert!(matches!(raw.ask(Request::Ping), Reply::Pong));
        drop(flood);
    } else {
        // An ordinary user's daemon serves nobody else: its own crowd has a bound, which it is told.
        let place = Place::new(Mode::User);
        let _idle: Vec<_> = (0..256)
            .map(|_| Raw::greeted(place.connect(place.users()[0]), Dialect::Frames))
            .collect();
        let mut raw = Raw::new(place.connect(place.users()[0]), Dialect::Frames);
        raw.say(&encode(Dialect::Frames, 1, hello(1)));
        assert_eq!(raw.last_words().code, ErrorCode::LimitReached);
    }
}
