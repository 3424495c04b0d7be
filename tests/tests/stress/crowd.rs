//! Many at once: connections and sessions are counted per user, calls are matched by their ids,
//! and whoever is slow or greedy holds up nobody else.

use palisade_client::{Open, Running};
use palisade_protocol::{
    CallOptions, CallResult, Cancel, ErrorCode, Event, Reply, Request, ServerMessage,
    limits::MAX_CALLS_IN_FLIGHT,
};
use palisade_tests::{
    Daemon, Mode, Sandbox, World, processes,
    raw::{DIALECTS, Raw, call, open},
    resident,
    rooms::until,
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The maximum number of connections of one user, as the error says.
const CONNECTIONS: usize = 256;

/// Somebody of another uid than the daemon's clients so far, if the tests can be one.
fn other(mode: Mode) -> Option<Mode> {
    let root = rustix::process::geteuid().is_root();
    match mode {
        Mode::System => Some(Mode::User),
        Mode::User => root.then_some(Mode::System),
    }
}

#[test]
fn idle_connections_are_bounded_per_user_and_crowd_out_nobody_else() {
    let now = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit { current: now.maximum, maximum: now.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, most).unwrap();
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let everybody = fs::Permissions::from_mode(0o666);
        fs::set_permissions(&daemon.socket, everybody).unwrap();
        let open = Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        let mut idle: Vec<_> =
            (1..CONNECTIONS).map(|n| Raw::greeted(daemon.connect(mode), DIALECTS[n % 2])).collect();
        // Far more than are let in; each is told why.
        for n in 0..400 {
            let dialect = DIALECTS[n % 2];
            let mut raw = Raw::new(daemon.connect(mode), dialect);
            raw.say(&palisade_tests::raw::encode(dialect, 1, Request::Ping));
            let error = raw.last_words();
            assert_eq!(error.code, ErrorCode::LimitReached, "{error}");
            assert!(error.hint.contains("256"), "{error}");
        }
        assert_eq!(sandbox.ok("echo served"), "served\n");
        if let Some(other) = other(mode) {
            let mut raw = Raw::greeted(daemon.connect(other), DIALECTS[0]);
            assert!(matches!(raw.ask(Request::Ping), Reply::Pong));
        }
        // Those that were let in still are, and when one leaves there is room for one.
        for raw in &mut idle {
            assert!(matches!(raw.ask(Request::Ping), Reply::Pong));
        }
        drop(idle.pop());
        until("no room for one after one left", || {
            let mut raw = Raw::new(daemon.connect(mode), DIALECTS[0]);
            raw.send(palisade_tests::raw::hello(1));
            matches!(raw.reply().1, Reply::Welcome(_))
        });
    }
}

#[test]
fn sessions_are_bounded_per_user() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let text = include_str!("../../../daemon/profiles/workspace.toml");
        world.add_unasked("two", &text.replace("sessions = 32", "sessions = 2"));
        let daemon = world.daemon();
        let mut raws: Vec<_> =
            (0..3).map(|n| Raw::greeted(daemon.connect(mode), DIALECTS[n % 2])).collect();
        for raw in &mut raws[..2] {
            assert!(matches!(raw.ask(open(&world.workspace(), "two")), Reply::Opened(_)));
        }
        match raws[2].ask(open(&world.workspace(), "two")) {
            Reply::Error(error) => {
                assert_eq!(error.code, ErrorCode::LimitReached);
                assert!(error.hint.contains("close a session"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert!(raws[0].result("bash", &json!({"command": "true"})).success);
        assert!(matches!(raws[1].ask(Request::Close), Reply::Done));
        drop(raws.remove(1));
        until("no room for a session after one was closed", || {
            matches!(raws[1].ask(open(&world.workspace(), "two")), Reply::Opened(_))
        });
    }
}

/// The number of bytes that the slow reader's call prints.
const FLOOD: usize = 32 << 20;

#[test]
fn a_slow_reader_holds_up_nobody_and_costs_little() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let wide = Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, wide).unwrap();
        fs::write(world.workspace().join("large"), vec![b'x'; 1 << 20]).unwrap();
        let before = resident(daemon.child.id());
        let mut slow = Vec::new();
        for dialect in DIALECTS {
            // One does not read what its call prints, the other not what it has asked for.
            let stream = CallOptions { stream: true, ..CallOptions::default() };
            let mut flood = Raw::opened(daemon.connect(mode), dialect, &world.workspace());
            let command = format!("head -c {FLOOD} /dev/zero");
            // It waits until it is read, however long the others take.
            let arguments = json!({"command": command, "timeout_ms": 600_000});
            let id = flood.send(call("bash", &arguments, stream));
            let mut asker = Raw::opened(daemon.connect(mode), dialect, &world.workspace());
            let read = || call("read_file", &json!({"path": "large"}), CallOptions::default());
            let ids: Vec<_> = (0..30).map(|_| asker.send(read())).collect();
            slow.push((flood, id, asker, ids));
        }
        for n in 0..20 {
            assert_eq!(sandbox.ok(&format!("echo {n}")), format!("{n}\n"));
            assert!(sandbox.call("read_file", json!({"path": "large"})).success);
        }
        let grown = resident(daemon.child.id()).saturating_sub(before);
        assert!(grown < 128 << 20, "the daemon grew by {grown} bytes");
        for (mut flood, id, mut asker, mut ids) in slow {
            let mut bytes = 0;
            let result = loop {
                match flood.hear().unwrap() {
                    ServerMessage::Event(Event::Output { call, data, .. }) => {
                        assert_eq!(call, id);
                        bytes += data.0.len();
                    }
                    ServerMessage::Event(_) => {}
                    ServerMessage::Reply { id: answered, reply: Reply::Result(result) } => {
                        assert_eq!(answered, Some(id));
                        break result;
                    }
                    other @ ServerMessage::Reply { .. } => panic!("{other:?}"),
                }
            };
            assert!(result.success, "{:?}", result.error);
            assert_eq!(bytes, FLOOD);
            while !ids.is_empty() {
                let (answered, reply) = asker.reply();
                let Reply::Result(result) = reply else { panic!("{reply:?}") };
                assert!(result.success, "{:?}", result.error);
                ids.retain(|id| Some(*id) != answered);
            }
        }
    }
}

#[test]
fn calls_in_flight_are_matched_by_id_and_reading_ones_pass_a_running_one() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        for dialect in DIALECTS {
            let mut raw = Raw::opened(daemon.connect(mode), dialect, &world.workspace());
            let options = || CallOptions { timeout_ms: Some(300_000), ..CallOptions::default() };
            let wait = json!({"command": "until test -e go; do sleep 0.02; done; echo first"});
            let first = raw.send(call("bash", &wait, options()));
            let second = raw.send(call("bash", &json!({"command": "echo second"}), options()));
            let mut reads = BTreeMap::new();
            for n in 0..12 {
                let name = format!("file{n}");
                fs::write(world.workspace().join(&name), format!("contents {n}")).unwrap();
                let read = call("read_file", &json!({"path": name}), options());
                reads.insert(raw.send(read), format!("contents {n}"));
            }
            while !reads.is_empty() {
                let (id, reply) = raw.reply();
                let Reply::Result(result) = reply else { panic!("{reply:?}") };
                let expected = reads.remove(&id.unwrap()).expect("a read comes before the calls");
                assert_eq!(result.output, expected);
            }
            assert!(matches!(raw.ask(Request::Ping), Reply::Pong));
            fs::write(world.workspace().join("go"), "").unwrap();
            for (id, said) in [(first, "first\n"), (second, "second\n")] {
                let (answered, reply) = raw.reply();
                assert_eq!(answered, Some(id), "calls that change things go in order");
                let Reply::Result(result) = reply else { panic!("{reply:?}") };
                assert_eq!(result.stdout, said);
            }
            fs::remove_file(world.workspace().join("go")).unwrap();
        }
    }
}

#[test]
fn too_many_calls_in_flight_are_refused_one_by_one() {
    let world = World::new(Mode::User);
    let daemon = world.daemon();
    for dialect in DIALECTS {
        let mut raw = Raw::opened(daemon.connect(Mode::User), dialect, &world.workspace());
        let sleep = || call("bash", &json!({"command": "sleep 300"}), CallOptions::default());
        let ids: Vec<_> = (0..MAX_CALLS_IN_FLIGHT).map(|_| raw.send(sleep())).collect();
        assert_eq!(raw.refusal(sleep()), ErrorCode::LimitReached);
        for id in ids.into_iter().rev() {
            let cancel = raw.send(Request::Cancel(Cancel { call: id }));
            let mut wanted = vec![Some(cancel), Some(id)];
            while !wanted.is_empty() {
                let (answered, reply) = raw.reply();
                wanted.retain(|id| *id != answered);
                if let Reply::Result(result) = reply {
                    assert_eq!(result.error.unwrap().code, ErrorCode::Cancelled);
                    assert!(result.cancelled);
                }
            }
        }
        assert!(raw.result("bash", &json!({"command": "true"})).success);
    }
}

#[test]
fn cancelling_one_call_ends_its_processes_and_no_other() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let neighbour = World::new(mode);
        let beside = neighbour.open();
        let mark = processes::mark();
        let start = |sandbox: &Sandbox, command: String| -> Running {
            let call = sandbox.session.bash(command).timeout(Duration::from_secs(300));
            sandbox.wait(async { call.start().await }).unwrap()
        };
        // It ignores being asked, and so does a process that has left its group.
        let hidden = format!(
            "trap '' TERM; setsid bash -c 'trap \"\" TERM; exec -a {mark}-a sleep 300' & exec -a {mark}-a sleep 300"
        );
        let first = start(&sandbox, hidden);
        let queued = start(&sandbox, "echo queued > queued".to_owned());
        let kept = start(&beside, format!("exec -a {mark}-b sleep 300"));
        let of = |letter: &str| processes::marked(&format!("{mark}-{letter}")).len();
        until("the calls do not start", || of("a") >= 2 && of("b") >= 1);
        let end = |sandbox: &Sandbox, call: Running| -> CallResult {
            sandbox.wait(async {
                call.cancel().await.unwrap();
                call.result().await.unwrap()
            })
        };
        let result = end(&sandbox, queued);
        assert_eq!(result.error.unwrap().code, ErrorCode::Cancelled);
        assert!(of("a") >= 2 && of("b") >= 1, "more was ended than was asked for");
        let result = end(&sandbox, first);
        assert_eq!(result.error.unwrap().code, ErrorCode::Cancelled);
        assert!(result.cancelled && !result.timed_out);
        assert_eq!(of("a"), 0);
        assert!(of("b") >= 1, "the neighbour's call was ended too");
        assert!(!world.workspace().join("queued").exists(), "a cancelled call ran");
        assert_eq!(sandbox.ok("echo next"), "next\n");
        assert!(end(&beside, kept).cancelled);
        assert_eq!(of("b"), 0);
    }
}

/// Has a user ask for as many dry runs as a session may have, and waits until all were read.
fn flood(daemon: &Daemon, mode: Mode, world: &World) -> Raw {
    let mut raw = Raw::opened(daemon.connect(mode), DIALECTS[0], &world.workspace());
    // The parser never finishes with it: each takes an analyst all of its time.
    let bomb = json!({"command": "$<<\"\" "});
    for _ in 0..MAX_CALLS_IN_FLIGHT {
        let options = CallOptions { dry_run: true, ..CallOptions::default() };
        raw.send(call("bash", &bomb, options));
    }
    let last = raw.send(Request::Ping);
    while raw.reply().0 != Some(last) {}
    raw
}

/// A user's command waits behind what that user asked for before, and not behind another user's.
#[test]
fn a_flood_of_dry_runs_delays_another_users_call_by_few_of_them() {
    // A user's own daemon serves nobody else.
    for mode in Mode::all().into_iter().filter(|mode| *mode == Mode::System) {
        let other = Mode::User;
        let (world, others) = (World::new(mode), World::new(other));
        let daemon = world.daemon();
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        let open = Open::new(others.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(other), None, open).unwrap();
        let mut own = Raw::opened(daemon.connect(mode), DIALECTS[0], &world.workspace());
        let _before = [(); 2].map(|()| flood(&daemon, mode, &world));
        own.send(call("bash", &json!({"command": "echo own"}), CallOptions::default()));
        let is_answered = Arc::new(AtomicBool::new(false));
        let reader = std::thread::spawn({
            let is_answered = Arc::clone(&is_answered);
            move || {
                while let Some(message) = own.hear() {
                    if matches!(message, ServerMessage::Reply { .. }) {
                        is_answered.store(true, Ordering::Relaxed);
                    }
                }
            }
        });
        let _after = flood(&daemon, mode, &world);
        assert_eq!(sandbox.ok("echo served"), "served\n");
        assert!(!is_answered.load(Ordering::Relaxed), "{mode:?}: in the order of all requests");
        drop((sandbox, daemon));
        reader.join().unwrap();
    }
}
