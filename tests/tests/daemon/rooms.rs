//! The rooms: who is who, what each may do, and what happens to the others when one is killed.

use palisade_channel::Datagrams;
use palisade_client::{Error, Open, Running};
use palisade_plan::{
    BUILD_ID,
    cell::FILE_CHANNELS,
    launcher::{Refusal, Reply, Request, SessionOwner},
};
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{
    Mode, Sandbox, World, binary, processes,
    rooms::{Before, Rooms, cgroups, status, until},
};
use rustix::{
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    process::{Pid, Signal, kill_process},
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    os::fd::AsFd as _,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

/// The capabilities that a launcher may keep, by their numbers.
const NEEDED: [u32; 9] = [
    21, // SYS_ADMIN
    18, // SYS_CHROOT
    7,  // SETUID
    6,  // SETGID
    8,  // SETPCAP
    12, // NET_ADMIN
    10, // NET_BIND_SERVICE
    5,  // KILL
    2,  // DAC_READ_SEARCH
];
/// And two that it keeps where they are there: SETFCAP and AUDIT_READ.
const WELCOME: u64 = 1 << 31 | 1 << 37;
/// And one that an ordinary user's keeps, over that user's own files: DAC_OVERRIDE.
const OVER_OWN_FILES: u64 = 1 << 1;
const SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// A call that is hard to get rid of: daemonised, stopped, ignoring signals, still forking.
fn stubborn(mark: &str) -> String {
    format!(
        "trap '' TERM HUP INT; (setsid bash -c 'trap \"\" TERM; exec -a {mark}-1 sleep 600' &); \
         (exec -a {mark}-2 sleep 600) & bash -c 'kill -STOP $$; sleep 600' {mark}-3 & \
         while :; do (exec -a {mark}-4 sleep 0.02); done"
    )
}

fn start(sandbox: &Sandbox, command: &str) -> Running {
    let call = sandbox.session.bash(command).timeout(Duration::from_secs(500));
    sandbox.wait(async { call.start().await }).unwrap()
}

/// Starts a stubborn call and waits until all of it is there.
fn start_stubborn(sandbox: &Sandbox, mark: &str) -> Running {
    let running = start(sandbox, &stubborn(mark));
    for n in 1..=4 {
        until("the call is under way", || !processes::marked(&format!("{mark}-{n}")).is_empty());
    }
    running
}

fn code(result: &CallResult) -> ErrorCode {
    result.error.as_ref().expect("an error").code
}

#[test]
fn ps_shows_who_is_who_and_each_has_only_what_it_needs() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let mark = processes::mark();
        let running = start(&sandbox, &format!("exec -a {mark} sleep 600"));
        // The shell that has yet to execute it is marked too.
        let executed = |process: &processes::Process| process.command.starts_with(&mark);
        until("the call is under way", || processes::marked(&mark).iter().any(executed));
        let broker = sandbox.daemon.as_ref().unwrap().id();
        // The launcher makes the next session's processes when it has time.
        until("cells that wait", || {
            Rooms::of(broker).cells.iter().filter(|cell| cell.name == "palisade-cell").count() == 2
        });
        let rooms = Rooms::of(broker);

        let zero = "0000000000000000";
        let broker = rooms.broker.pid;
        let uid = status(broker, "Uid");
        let ids: Vec<_> = uid.split_whitespace().collect();
        assert!(!ids.contains(&"0"), "the broker is root: {uid}");
        for set in SETS {
            // An ordinary user can not give up what is only a bound on what it could have.
            if set != "CapBnd" || mode == Mode::System {
                assert_eq!(status(broker, set), zero, "{set} of the broker");
            }
        }
        assert_eq!(status(broker, "NoNewPrivs"), "1");
        if mode == Mode::System {
            assert_eq!(status(broker, "Groups"), "");
        }

        let needed = NEEDED.iter().fold(0_u64, |bits, n| bits | 1 << n);
        for launcher in [&rooms.outer, &rooms.inner] {
            assert_eq!(status(launcher.pid, "Threads"), "1");
            for set in SETS {
                let bits = u64::from_str_radix(&status(launcher.pid, set), 16).unwrap();
                let more = if mode == Mode::User { OVER_OWN_FILES } else { 0 };
                assert_eq!(bits & !(WELCOME | more), needed, "{set} of the launcher: {bits:x}");
            }
        }

        let mut names: Vec<_> = rooms.cells.iter().map(|cell| cell.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["cell 1 files", "cell 1 run", "palisade-cell", "palisade-cell"]);
        for name in ["cell 1 files", "cell 1 run"] {
            let pid = rooms.cell(name).pid;
            let uid = mode.uid().to_string();
            assert_eq!(status(pid, "Uid").split_whitespace().collect::<Vec<_>>(), [&uid; 4]);
            for set in SETS {
                assert_eq!(status(pid, set), zero, "{set} of {name}");
            }
            assert_eq!(
                (status(pid, "NoNewPrivs"), status(pid, "Seccomp")),
                ("1".into(), "2".into())
            );
        }
        let [payload] = rooms.payload.as_slice() else { panic!("{:?}", rooms.payload) };
        assert_eq!(
            (payload.name.as_str(), payload.parent),
            ("sleep", rooms.cell("cell 1 run").pid)
        );
        assert!(payload.command.starts_with(&mark));
        let said = sandbox.wait(sandbox.client.status()).unwrap();
        assert_eq!(said.build_id, BUILD_ID);
        assert!(
            said.broker.starts_with(&format!("pid {broker}, uid {}", ids[0])),
            "{}",
            said.broker
        );
        sandbox.wait(running.cancel()).unwrap();
    }
}

/// A launcher without a broker: the test is at the other end.
fn launcher(mode: Mode) -> (Datagrams, Child) {
    launcher_with(mode, &[])
}

fn launcher_with(mode: Mode, arguments: &[&str]) -> (Datagrams, Child) {
    mode.act(|| {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
        let mut command = Command::new(binary("palisade-launcher"));
        let command = command.args(arguments).env_clear();
        let command = command.stdin(Stdio::from(theirs)).stderr(Stdio::null());
        (Datagrams::new(ours), command.spawn().unwrap())
    })
}

fn ended(mut child: Child) -> ExitStatus {
    until("the launcher ends", || child.try_wait().unwrap().is_some());
    child.wait().unwrap()
}

fn hello(build_id: &str) -> Request {
    Request::Hello { build_id: build_id.to_owned() }
}

fn heard(socket: &Datagrams) -> Option<Reply> {
    socket.receive::<Reply>().unwrap().map(|(reply, _)| reply)
}

#[test]
fn a_launcher_refuses_another_build_and_requests_out_of_phase() {
    for mode in Mode::all() {
        let before = Before::look();
        let greeted = vec![hello(BUILD_ID)];
        let wrong = format!("{BUILD_ID}x");
        for (first, then, expected) in [
            (vec![], hello(&wrong), wrong.as_str()),
            (vec![], hello(""), "install both from the same release and restart both"),
            (vec![], Request::End { session: 1 }, "before the greeting"),
            (vec![], Request::Runner { session: 1 }, "before the greeting"),
            (greeted, hello(BUILD_ID), "a second greeting"),
        ] {
            let (socket, child) = launcher(mode);
            for request in first {
                socket.send(&request, &[]).unwrap();
                match heard(&socket) {
                    Some(Reply::Welcome { build_id, .. }) => assert_eq!(build_id, BUILD_ID),
                    other => panic!("{other:?}"),
                }
            }
            socket.send(&then, &[]).unwrap();
            match heard(&socket) {
                Some(Reply::Fatal { why }) => assert!(why.contains(expected), "{why}"),
                other => panic!("{then:?}: {other:?}"),
            }
            assert_eq!(heard(&socket), None);
            assert_eq!(ended(child).code(), Some(1));
        }
        before.assert_nothing_left();
    }
}

/// Returns the processor time of a process, in clock ticks.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    after_name.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum()
}

/// A launcher that can not make the next session's processes does not try for ever: it waits.
#[test]
fn a_launcher_that_can_make_no_processes_waits_for_better_times() {
    for mode in Mode::all() {
        let kind = (AddressFamily::UNIX, SocketType::STREAM);
        let pair = || socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
        let pairs: Vec<_> = mode.act(|| (0..1 + FILE_CHANNELS).map(|_| pair()).collect());
        let theirs: Vec<_> = pairs.iter().map(|(_, theirs)| theirs.as_fd()).collect();
        let cookie = rustix::net::sockopt::socket_cookie(theirs[0]).unwrap().to_string();
        let (socket, child) = launcher_with(mode, &["--client-cookie", &cookie]);
        socket.send(&hello(BUILD_ID), &[]).unwrap();
        assert!(matches!(heard(&socket), Some(Reply::Welcome { .. })));
        let world = World::new(mode);
        let plan = Box::new(palisade_tests::plan(&world.workspace()));
        socket
            .send(&Request::Session { session: 1, whose: SessionOwner::Client, plan }, &theirs)
            .unwrap();
        assert!(matches!(heard(&socket), Some(Reply::Started { session: 1, .. })));
        let inner = processes::tree(i32::try_from(child.id()).unwrap())[1].pid;
        // From here on it can open nothing more. While the session is, it makes no blank either.
        let limit = rustix::process::Rlimit { current: Some(4), maximum: Some(4) };
        let pid = rustix::process::Pid::from_raw(inner).unwrap();
        let files = rustix::process::Resource::Nofile;
        mode.act(|| rustix::process::prlimit(Some(pid), files, limit)).unwrap();
        socket.send(&Request::End { session: 1 }, &[]).unwrap();
        assert_eq!(heard(&socket), Some(Reply::Ended { session: 1 }));
        let before = ticks(inner);
        std::thread::sleep(std::time::Duration::from_secs(1));
        let used = ticks(inner) - before;
        assert!(used < 5, "{used} ticks of a second spent on trying");
        drop(socket);
        assert_eq!(ended(child).code(), Some(0));
    }
}

#[test]
fn a_launcher_ends_on_nonsense_and_refuses_what_it_does_not_know() {
    for mode in Mode::all() {
        let before = Before::look();
        let (socket, child) = launcher(mode);
        socket.send(&hello(BUILD_ID), &[]).unwrap();
        assert!(matches!(heard(&socket), Some(Reply::Welcome { .. })));
        socket.send(&Request::Runner { session: 7 }, &[]).unwrap();
        match heard(&socket) {
            Some(Reply::Refused { session: 7, refusal: Refusal::Session(why) }) => {
                assert_eq!(why, "there is no session 7");
            }
            other => panic!("{other:?}"),
        }
        let world = World::new(mode);
        let plan = Box::new(palisade_tests::plan(&world.workspace()));
        socket
            .send(&Request::Session { session: 1, whose: SessionOwner::Client, plan }, &[])
            .unwrap();
        match heard(&socket) {
            // They may have been sent, and there was no room for them.
            Some(Reply::Refused { session: 1, refusal: Refusal::Spawn(why) }) => {
                assert!(why.contains("no free descriptors for a session"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        // Ending a session that is over is no mistake.
        socket.send(&Request::End { session: 1 }, &[]).unwrap();
        assert_eq!(heard(&socket), Some(Reply::Ended { session: 1 }));
        socket.send(&[0xff_u8; 64], &[]).unwrap();
        assert_eq!(heard(&socket), None);
        assert_eq!(ended(child).code(), Some(1));
        before.assert_nothing_left();
    }
}

/// A broker that finds a launcher of another build does not serve. The launcher is a stand-in
/// that says what such a one would.
#[test]
fn a_broker_refuses_a_launcher_of_another_build() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let path = world.state().join("launcher.sock");
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let listener =
            rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
        let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let state: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(world.state(), state).unwrap();
        let daemon = mode.act(|| {
            let mut command = world.command("palisaded");
            command.arg("--state").arg(world.outside().join("state"));
            command.arg("--socket").arg(world.outside().join("run/agent.sock"));
            command.arg("--launcher-socket").arg(&path);
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        });
        let socket = Datagrams::new(rustix::net::accept(&listener).unwrap());
        let (heard, _) = socket.receive::<Request>().unwrap().unwrap();
        assert_eq!(heard, hello(BUILD_ID));
        let facts = Box::new(palisade_tests::facts());
        socket.send(&Reply::Welcome { build_id: "0.0.0-old".into(), facts }, &[]).unwrap();
        let output = daemon.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("the launcher is build 0.0.0-old"), "{said}");
        assert!(said.contains("install both from the same release"), "{said}");
    }
}

/// The files of a workspace but for the probe.
fn files(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.workspace()).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != "probe").collect();
    names.sort_unstable();
    names
}

#[test]
fn when_the_broker_is_killed_nothing_is_left_and_the_next_start_works() {
    for mode in Mode::all() {
        let before = Before::look();
        let world = World::new(mode);
        let mut daemon = world.daemon();
        let mark = processes::mark();
        let open = || Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        let writer = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        let running = start_stubborn(&sandbox, &mark);
        // A write that has begun and has not ended.
        let unending = tokio::io::join(tokio::io::repeat(b'x'), tokio::io::sink());
        let write = writer.session.call("write_file", json!({"path": "half"}));
        let write = write.attach_reader(unending).timeout(Duration::from_secs(500));
        let write = writer.wait(async { write.start().await }).unwrap();
        let rooms = Rooms::of(daemon.child.id());
        if mode == Mode::System && !sandbox.session.receipt().limits.is_empty() {
            let by = |limit: &palisade_protocol::LimitReceipt| limit.by.starts_with("cgroup");
            let held = sandbox.session.receipt().limits.iter().any(by);
            assert_eq!(held, !cgroups(rooms.inner.pid).is_empty(), "control");
        }
        daemon.child.kill().unwrap();
        daemon.child.wait().unwrap();
        for call in [(&sandbox, running), (&writer, write)] {
            let error = call.0.wait(call.1.result()).unwrap_err();
            assert!(matches!(error, Error::Disconnected(_)), "{error}");
        }
        for process in rooms.all() {
            until(&format!("{process:?} is gone"), || {
                !processes::all()
                    .iter()
                    .any(|p| p.pid == process.pid && p.command == process.command)
            });
        }
        before.assert_nothing_left_of(&mark);
        until("cgroups gone", || cgroups(rooms.inner.pid).is_empty());
        assert_eq!(files(&world), Vec::<String>::new(), "something of a half-done write is left");
        assert!(daemon.socket.exists(), "the stale socket is what the next start must sweep");
        let again = world.daemon();
        let sandbox = Sandbox::over(again.connect(mode), None, open()).unwrap();
        assert_eq!(sandbox.ok("echo again"), "again\n");
    }
}

#[test]
fn when_the_launcher_is_killed_cells_die_and_everything_is_refused() {
    for mode in Mode::all() {
        for which in ["inner", "outer"] {
            let before = Before::look();
            let world = World::new(mode);
            let daemon = world.daemon();
            let mark = processes::mark();
            let open = || Open::new(world.workspace()).profile(palisade_tests::UNASKED);
            let sandbox = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
            let running = start_stubborn(&sandbox, &mark);
            let rooms = Rooms::of(daemon.child.id());
            signal(if which == "inner" { rooms.inner.pid } else { rooms.outer.pid }, Signal::KILL);
            let result = sandbox.wait(running.result()).unwrap();
            let broken = [ErrorCode::LauncherGone, ErrorCode::CellFailed];
            assert!(broken.contains(&code(&result)), "{:?}", result.error);
            before.assert_nothing_left_of(&mark);
            // From now on everything is refused, and says why.
            for (tool, arguments) in
                [("bash", json!({"command": "true"})), ("read_file", json!({"path": "probe"}))]
            {
                let error = sandbox.call(tool, arguments).error.unwrap();
                assert_eq!(error.code, ErrorCode::LauncherGone, "{tool}: {error}");
                assert!(error.hint.contains("restart the daemon"), "{error}");
            }
            let error = Sandbox::over(daemon.connect(mode), None, open()).unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::LauncherGone), "{error}");
            assert!(error.wire().unwrap().hint.contains("restart the daemon"), "{error}");
            let status = sandbox.wait(sandbox.client.status()).unwrap();
            assert!(status.launcher.starts_with("gone: "), "{}", status.launcher);
            assert!(status.launcher.contains("so none runs"), "{}", status.launcher);
            assert!(processes::marked(&mark).is_empty());
            drop((sandbox, daemon));
            // A killed launcher can not remove its cgroups; the next one does.
            let next = world.daemon();
            let sandbox = Sandbox::over(next.connect(mode), None, open()).unwrap();
            assert_eq!(sandbox.ok("echo again"), "again\n");
            assert_eq!(cgroups(rooms.inner.pid), Vec::<std::path::PathBuf>::new());
        }
    }
}

#[test]
fn when_a_runner_is_killed_its_call_fails_and_the_next_has_another() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mark = processes::mark();
        let open = || Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        let beside = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        let neighbour = start(&beside, "until test -e go; do sleep 0.05; done; echo undisturbed");
        for _ in 0..3 {
            let running = start_stubborn(&sandbox, &mark);
            let runners = || {
                let cells = Rooms::of(daemon.child.id()).cells;
                cells.into_iter().filter(|cell| cell.name == "cell 1 run").map(|cell| cell.pid)
            };
            let killed = Rooms::of(daemon.child.id()).cell("cell 1 run").pid;
            signal(killed, Signal::KILL);
            let result = sandbox.wait(running.result()).unwrap();
            assert_eq!(code(&result), ErrorCode::CellFailed);
            until("the call's processes gone", || processes::marked(&mark).is_empty());
            assert_eq!(sandbox.ok("echo next"), "next\n");
            until("only the next runner", || {
                runners().count() == 1 && !runners().any(|r| r == killed)
            });
            // One that is killed between calls is not even noticed.
            signal(Rooms::of(daemon.child.id()).cell("cell 1 run").pid, Signal::KILL);
            until("the runner is gone", || runners().count() == 0);
            assert_eq!(sandbox.ok("echo after"), "after\n");
        }
        fs::write(world.workspace().join("go"), "").unwrap();
        let result = beside.wait(neighbour.result()).unwrap();
        assert_eq!(result.stdout, "undisturbed\n");
    }
}

#[test]
fn when_a_cells_first_process_is_killed_its_session_is_over_and_no_other() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mark = processes::mark();
        let open = || Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        let beside = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        let neighbour = start(&beside, "until test -e go; do sleep 0.05; done; echo undisturbed");
        let running = start_stubborn(&sandbox, &mark);
        signal(Rooms::of(daemon.child.id()).cell("cell 1 files").pid, Signal::KILL);
        let result = sandbox.wait(running.result()).unwrap();
        assert_eq!(code(&result), ErrorCode::CellFailed);
        until("the call's processes gone", || processes::marked(&mark).is_empty());
        until("nothing of the session is left", || {
            !Rooms::of(daemon.child.id()).cells.iter().any(|cell| cell.name.starts_with("cell 1 "))
        });
        for (tool, arguments) in
            [("bash", json!({"command": "true"})), ("read_file", json!({"path": "probe"}))]
        {
            let error = sandbox.call(tool, arguments).error.unwrap();
            assert_eq!(error.code, ErrorCode::CellFailed, "{tool}: {error}");
            assert!(error.hint.contains("open another"), "{error}");
        }
        fs::write(world.workspace().join("go"), "").unwrap();
        let result = beside.wait(neighbour.result()).unwrap();
        assert_eq!(result.stdout, "undisturbed\n");
        let another = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        assert_eq!(another.ok("echo another"), "another\n");
    }
}

/// A runner that is asked for while its session ends would be left over.
#[test]
fn a_session_that_is_ending_gets_no_more_processes() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mark = processes::mark();
        for round in 0..20 {
            let open = Open::new(world.workspace()).profile(palisade_tests::UNASKED);
            let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
            let running = start(&sandbox, &format!("exec -a {mark} sleep 600"));
            let name = format!("cell {} ", round + 1);
            let cells = || {
                let cells = Rooms::of(daemon.child.id()).cells.into_iter();
                cells.filter(|cell| cell.name.starts_with(&name)).collect::<Vec<_>>()
            };
            until("the call is under way", || !processes::marked(&mark).is_empty());
            if round % 2 == 0 {
                let all = cells();
                let files = all.iter().find(|cell| cell.name.ends_with("files")).unwrap();
                signal(files.pid, Signal::KILL);
                assert_eq!(code(&sandbox.wait(running.result()).unwrap()), ErrorCode::CellFailed);
            } else {
                sandbox.wait(sandbox.session.close()).unwrap();
                assert_eq!(cells(), [], "left when the end of the session was told");
            }
            until("nothing of the session is left", || cells().is_empty());
            until("the call is gone", || processes::marked(&mark).is_empty());
        }
    }
}

#[test]
fn a_cell_that_is_stopped_makes_its_calls_time_out_and_nobody_elses() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let open = || Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        let beside = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        assert_eq!(sandbox.ok("echo before"), "before\n");
        let short = Duration::from_millis(300);
        let files = Rooms::of(daemon.child.id()).cell("cell 1 files").pid;

        // A runner that was just being made answers; then it is stopped as well.
        let mut runners = BTreeSet::new();
        let stopped = (0..50).find_map(|_| {
            let rooms = Rooms::of(daemon.child.id());
            for runner in rooms.all().filter(|process| process.name == "cell 1 run") {
                signal(runner.pid, Signal::STOP);
                runners.insert(runner.pid);
            }
            let call = sandbox.session.bash("echo never").timeout(short);
            let result = sandbox.wait(async { call.await }).unwrap();
            result.error.is_some().then_some(result)
        });
        let result = stopped.expect("a call that met a stopped runner");
        assert_eq!((code(&result), result.timed_out), (ErrorCode::TimedOut, true));
        assert_eq!(result.stdout, "");
        assert_eq!(sandbox.ok("echo replaced"), "replaced\n");

        signal(files, Signal::STOP);
        let call = sandbox.session.call("read_file", json!({"path": "probe"})).timeout(short);
        let result = sandbox.wait(async { call.await }).unwrap();
        assert_eq!((code(&result), result.timed_out), (ErrorCode::TimedOut, true));
        assert_eq!(beside.ok("echo beside"), "beside\n");
        assert!(beside.call("list_files", json!({"path": "."})).success);

        sandbox.wait(sandbox.session.close()).unwrap();
        let gone = |pid| !processes::all().iter().any(|process| process.pid == pid);
        let all_gone = || gone(files) && runners.iter().all(|runner| gone(*runner));
        until("the stopped processes are gone", all_gone);
        assert_eq!(beside.ok("echo beside"), "beside\n");
    }
}
