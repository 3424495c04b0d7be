//! Access to the daemon: credentials are the kernel's, the socket is only made where nobody could
//! have put another, and what is another user's does not exist.

use palisade_client::Open;
use palisade_protocol::{CallId, ErrorCode, OutputQuery, Reply, Request};
use palisade_tests::{
    Mode, ORDINARY, Sandbox, World, binary,
    raw::{DIALECTS, Raw, open},
};
use serde_json::json;
use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The user who connected counts, not the one who holds the descriptor later.
#[test]
fn a_session_is_its_connectors_whoever_speaks_on_the_descriptor() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        let connector = if mode == Mode::System { Mode::User } else { mode };
        let place = World::new(connector);
        // Made by one user; from here on spoken on by the tests' own.
        let stream = daemon.connect(connector);
        let mut raw = Raw::greeted(stream, DIALECTS[0]);
        let Reply::Opened(opened) = raw.ask(open(&place.workspace(), "workspace")) else {
            panic!("no session")
        };
        assert_eq!(opened.receipt.uid, connector.uid());
        let result = raw.result("bash", &json!({"command": "id -u; id -G; touch mine"}));
        let uid = connector.uid();
        assert_eq!(result.stdout.lines().next(), Some(uid.to_string().as_str()));
        let made = fs::metadata(place.workspace().join("mine")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), uid);
    }
}

/// An ordinary user's daemon is for that user, even where another could get at the socket.
#[test]
fn another_users_connection_gets_no_session() {
    let world = World::new(Mode::User);
    let daemon = world.daemon();
    let mode = fs::metadata(&daemon.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    if root() {
        // Root passes by the mode, and is refused by what the kernel says of the connection.
        let mut raw = Raw::greeted(daemon.connect(Mode::System), DIALECTS[0]);
        match raw.ask(open(&world.workspace(), "workspace")) {
            Reply::Error(error) => {
                assert_eq!(error.code, ErrorCode::InvalidRequest);
                assert!(
                    error.message.contains(&format!("may not use the daemon of uid {ORDINARY}")),
                    "{error}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    let mut own = Raw::greeted(daemon.connect(Mode::User), DIALECTS[0]);
    assert!(matches!(own.ask(open(&world.workspace(), "workspace")), Reply::Opened(_)));
}

/// As root's, the socket is for root, and the group if there is one: not for everybody.
#[test]
fn the_system_daemons_socket_is_not_for_everybody() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let bits = fs::metadata(&daemon.socket).unwrap().permissions().mode() & 0o777;
        assert_eq!(bits & 0o007, 0, "{bits:o}");
        if mode == Mode::System {
            let error = Mode::User.act(|| UnixStream::connect(&daemon.socket).unwrap_err());
            assert_eq!(error.raw_os_error(), Some(libc::EACCES));
        }
        assert!(matches!(
            Raw::greeted(daemon.connect(mode), DIALECTS[1]).ask(Request::Ping),
            Reply::Pong
        ));
    }
}

/// Starts a daemon that is expected to refuse, and waits for its end.
fn refused(world: &World, socket: &Path) -> Output {
    let mut child = world.mode.act(|| {
        let mut command = world.command("palisaded");
        command.arg("--state").arg(world.state()).arg("--socket").arg(socket);
        command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for _ in 0..1200 {
        if child.try_wait().unwrap().is_some() {
            return child.wait_with_output().unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    panic!("palisaded serves on {}: {:?}", socket.display(), child.wait_with_output());
}

#[test]
fn a_socket_that_another_could_have_put_there_is_refused_with_the_fix() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let base = world.outside().join("run");
        let make = |name: &str, mode: u32| -> PathBuf {
            let directory = base.join(name);
            fs::create_dir_all(&directory).unwrap();
            world.give(&base);
            world.give(&directory);
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
            directory
        };
        let victim = world.outside().join("victim");
        fs::write(&victim, "untouched").unwrap();
        let mut cases: Vec<(PathBuf, Vec<&str>)> = Vec::new();
        let with = |name: &str, plant: &dyn Fn(&Path)| {
            let path = make(name, 0o755).join("agent.sock");
            plant(&path);
            path
        };
        let remove = "remove it, or choose another --socket";
        cases.push((with("file", &|p| fs::write(p, "").unwrap()), vec!["is a file", remove]));
        cases.push((
            with("link", &|p| symlink(&victim, p).unwrap()),
            vec!["is a symbolic link", remove],
        ));
        cases.push((
            with("dangling", &|p| symlink("nowhere", p).unwrap()),
            vec!["is a symbolic link", remove],
        ));
        cases.push((with("dir", &|p| fs::create_dir(p).unwrap()), vec!["is a directory", remove]));
        let fifo = with("fifo", &|p| {
            nix::unistd::mkfifo(p, nix::sys::stat::Mode::S_IRUSR).unwrap();
        });
        cases.push((fifo, vec!["is a FIFO or device", remove]));
        let writable = vec!["`chmod go-w /"];
        cases.push((make("world", 0o777).join("agent.sock"), writable.clone()));
        cases.push((make("sticky", 0o1777).join("agent.sock"), writable.clone()));
        cases.push((make("group", 0o775).join("agent.sock"), writable.clone()));
        let deep = make("open", 0o777).join("deep");
        fs::create_dir(&deep).unwrap();
        world.give(&deep);
        cases.push((deep.join("agent.sock"), writable));
        let real = make("real", 0o755);
        symlink(&real, base.join("linked")).unwrap();
        cases.push((
            base.join("linked/agent.sock"),
            vec!["is a symbolic link or a file, not a directory", "choose another --socket"],
        ));
        cases.push((PathBuf::from("agent.sock"), vec!["needs an absolute path", "--socket"]));
        if root() {
            // Another user's, who is neither root nor the one who starts the daemon.
            let foreign = make("foreign", 0o755);
            let other = Some(ORDINARY + 1);
            std::os::unix::fs::chown(&foreign, other, other).unwrap();
            let fix = if mode == Mode::System { "`chown 0 /" } else { "`chown 4242 /" };
            cases.push((foreign.join("agent.sock"), vec!["belongs to uid 4243", fix]));
        }
        let path = make("living", 0o755).join("agent.sock");
        let _living = UnixListener::bind(&path).unwrap();
        world.give(&path);
        cases.push((path, vec!["already listening", "stop it first"]));
        for (path, expected) in &cases {
            let output = refused(&world, path);
            let said = String::from_utf8_lossy(&output.stderr);
            // It is the configuration that is wrong, unless somebody is there.
            let status = if expected.contains(&"already listening") { 1 } else { 78 };
            assert_eq!(output.status.code(), Some(status), "{}: {said}", path.display());
            for text in expected {
                assert!(said.contains(text), "{}: {said}", path.display());
            }
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert!(fs::symlink_metadata(base.join("link/agent.sock")).unwrap().is_symlink());
        assert!(!base.join("dangling/nowhere").exists());
        assert!(!real.join("agent.sock").exists());
        // With the fix that the message names, the directory is fine.
        fs::remove_file(base.join("file/agent.sock")).unwrap();
        serves(&world, &base.join("file/agent.sock"));
    }
}

/// Asserts that a daemon serves on a path.
fn serves(world: &World, socket: &Path) {
    let mut child = world.mode.act(|| {
        let mut command = world.command("palisaded");
        command.arg("--state").arg(world.state()).arg("--socket").arg(socket);
        command.stdin(Stdio::null()).spawn().unwrap()
    });
    let mut connected = false;
    for _ in 0..1200 {
        connected = world.mode.act(|| UnixStream::connect(socket)).is_ok();
        if connected || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(connected, "no daemon at {}", socket.display());
}

/// A payload that brings the whole of Palisade along gets no further than the session it is in.
#[test]
fn a_payload_that_runs_palisade_inside_gets_nothing_unconfined() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let rooms =
            ["palisade", "palisaded", "palisade-launcher", "palisade-cell", "palisade-analyst"];
        for name in rooms {
            fs::copy(binary(name), world.workspace().join(name)).unwrap();
        }
        let daemon = world.daemon();
        let open = Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        let canary = world.canary();
        let touch =
            format!("echo ran; cat {}; touch {}/made", canary.display(), world.outside().display());
        // The socket is not there.
        let socket = daemon.socket.display();
        let run = sandbox.bash(&format!("./palisade run --socket {socket} -- '{touch}'"));
        assert_eq!(run.exit_code, Some(125), "{}", run.stderr);
        assert!(
            run.stderr.contains("can not connect") && run.stderr.contains("No such file"),
            "{}",
            run.stderr
        );
        assert_eq!(sandbox.probe(&format!("unix:{socket}")), [format!("unix:{socket}=ENOENT")]);
        // A daemon of its own inside: as root without capabilities it can not even become
        // ordinary; as an ordinary user its launcher can make no namespaces.
        let expected = match mode {
            Mode::System => ["can not give up supplementary groups", "Operation not permitted"],
            Mode::User => ["the profile requires mount", "Operation not permitted"],
        };
        let run = sandbox.bash(&format!("./palisade run -- '{touch}'"));
        assert_eq!(run.exit_code, Some(125), "{}", run.stderr);
        for text in expected {
            assert!(run.stderr.contains(text), "{}", run.stderr);
        }
        assert!(!run.stdout.contains("ran") && !run.stdout.contains("canary"), "{}", run.stdout);
        if mode == Mode::User {
            let doctor = sandbox.bash("./palisade doctor");
            let said = format!("{}{}", doctor.stdout, doctor.stderr);
            assert!(said.contains("user namespace"), "{said}");
        }
        world.assert_canary_untouched();
        // Outside, the same programs do run the line, confined.
        let outside = mode.act(|| {
            let mut command = world.command("palisade");
            command.args(["run", "--", &touch]);
            command.stdin(Stdio::null()).output().unwrap()
        });
        assert!(String::from_utf8_lossy(&outside.stdout).starts_with("ran\n"), "{outside:?}");
        world.assert_canary_untouched();
    }
}

/// The answer about what is another's is the answer about what is not there.
#[test]
fn another_users_spool_is_not_found_like_one_that_never_was() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        let mut own = Raw::opened(daemon.connect(mode), DIALECTS[0], &world.workspace());
        let result = own.result("bash", &json!({"command": "yes secret | head -c 300000"}));
        let id = result.spool.expect("a spool");
        let query = |call_id: &CallId| {
            Request::Output(OutputQuery { call_id: call_id.clone(), offset: 0, limit: None })
        };
        match own.ask(query(&id)) {
            Reply::Output(page) => assert!(page.data.0.starts_with(b"secret\n")),
            other => panic!("{other:?}"),
        }
        let never: CallId = "018bcfe5-687b-7fff-8fff-ffffffffffff".parse().unwrap();
        // A spool of somebody else's, on the disk beside this user's.
        let theirs: CallId = "018bcfe5-687b-7fff-8fff-000000000001".parse().unwrap();
        let spool = world.state().join("spool");
        fs::copy(spool.join(id.as_str()), spool.join(theirs.as_str())).unwrap();
        let meta = fs::read_to_string(spool.join(format!("{id}.meta"))).unwrap();
        let uid = format!("\"uid\":{}", mode.uid());
        assert!(meta.contains(&uid), "{meta}");
        let meta = meta.replace(&uid, "\"uid\":777");
        fs::write(spool.join(format!("{theirs}.meta")), meta).unwrap();
        if mode == Mode::System {
            // The daemon's own user must be able to read it, as it is able to read all spools.
            let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&spool).unwrap());
            for name in [theirs.to_string(), format!("{theirs}.meta")] {
                std::os::unix::fs::chown(spool.join(name), Some(owner), Some(owner)).unwrap();
            }
        }
        let answer = |raw: &mut Raw, id: &CallId| match raw.ask(query(id)) {
            Reply::Error(error) => {
                assert_eq!(error.code, ErrorCode::NotFound);
                (error.message.replace(&format!("call {id}"), ""), error.hint)
            }
            other => panic!("{other:?}"),
        };
        let nothing = answer(&mut own, &never);
        assert_eq!(answer(&mut own, &theirs), nothing, "an oracle for other users' spools");
        for odd in ["..", "x", "018bcfe5-687b-7fff-8fff-ffffffffffff.meta"] {
            assert_eq!(answer(&mut own, &odd.parse().unwrap()), nothing);
        }
        if mode == Mode::System {
            // And so it is over the wire, for a second user of the same daemon.
            let mut other = Raw::greeted(daemon.connect(Mode::User), DIALECTS[1]);
            assert_eq!(answer(&mut other, &id), nothing);
            let Reply::Status(status) = other.ask(Request::Status) else { panic!("no status") };
            assert_eq!(status.sessions, [], "a session of root's is shown to uid {ORDINARY}");
            let Reply::Status(status) = own.ask(Request::Status) else { panic!("no status") };
            assert_eq!(status.sessions.len(), 1);
        }
    }
}

/// Calls and sessions are named by connection: there is no way to say another's.
#[test]
fn a_call_of_another_connection_can_not_be_cancelled_or_fed() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let open = Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        let wait = "until test -e go; do sleep 0.02; done; cat; echo whole";
        let call = sandbox.session.bash(wait).timeout(Duration::from_secs(300));
        let running = sandbox.wait(async { call.start().await }).unwrap();
        for dialect in DIALECTS {
            let mut raw = Raw::opened(daemon.connect(mode), dialect, &world.workspace());
            for call in 0..40 {
                let reply = raw.ask(Request::Cancel(palisade_protocol::Cancel { call }));
                let Reply::Error(error) = reply else { panic!("{reply:?}") };
                assert_eq!(error.code, ErrorCode::NotFound);
                let data = palisade_protocol::Bytes(b"fed".to_vec());
                raw.send(Request::Input(palisade_protocol::Input { call, data, end: true }));
            }
            assert!(matches!(raw.ask(Request::Close), Reply::Done));
        }
        fs::write(world.workspace().join("go"), "").unwrap();
        let result = sandbox.wait(running.result()).unwrap();
        assert_eq!(result.stdout, "whole\n");
        assert!(result.success);
    }
}
