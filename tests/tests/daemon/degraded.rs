//! Hosts that offer less: refused by default; with the profile's permission confined by what there
//! is, which every result says.
//!
//! The host is made poor in a user namespace of the test's own, in which no more can be made and
//! nobody has a capability: a container that forbids namespaces looks the same.

use palisade_client::{Error, Open, Running};
use palisade_protocol::{CallResult, ErrorCode, Guard, Receipt, Route};
use palisade_tests::{
    Mode, Sandbox, World, binary, processes,
    rooms::{Before, until},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::{
    fs, io,
    net::{TcpListener, UdpSocket},
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixListener, UnixStream},
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The layers that need namespaces, or a cgroup that an ordinary user does not have.
const MISSING: [&str; 7] = ["mount", "pid", "network", "ipc", "uts", "cgroup", "limits"];

/// In a user namespace: no more of them, then no capability to make others either.
const POOR: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv \
    --bounding-set=-all --inh-caps=-all --ambient-caps=-all --no-new-privs \"$@\"";

/// In a user namespace with a `/proc` of its own, a part of which is covered, as in a container.
const COVERED: &str = "mount -t tmpfs none /proc/fs && exec setpriv --bounding-set=-all \
    --inh-caps=-all --ambient-caps=-all \"$@\"";

/// A host that offers less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    /// No namespaces; below so many Landlock domains of others.
    Poor(usize),
    /// Namespaces, and a covered `/proc`.
    Covered,
}

fn world() -> World {
    let world = World::new(Mode::User);
    let text = include_str!("../../../daemon/profiles/workspace.toml");
    let optional = format!("optional = {MISSING:?}");
    let text = text.replace("optional = [\"limits\"]", &optional);
    // These tests are about confinement, not about approval.
    world.add_unasked("lenient", &text.replace("ask = \"destructive\"", "ask = \"never\""));
    world
}

/// An embedded daemon on such a host.
fn embedded(world: &World, host: Host) -> (UnixStream, Child) {
    Mode::User.act(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let daemon = [
            binary("palisaded").display().to_string(),
            "--embedded".to_owned(),
            "--state".to_owned(),
            world.state().display().to_string(),
            "--profiles".to_owned(),
            world.profiles().display().to_string(),
        ];
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-current-user", "--keep-caps"]);
        match host {
            Host::Poor(0) => command.args(["--", "sh", "-c", POOR, "sh"]).args(daemon),
            Host::Poor(domains) => {
                let attempt = format!("exec_in_domains:{domains}:{}", daemon.join(":"));
                let probe = binary("probe").display().to_string();
                command.args(["--", "sh", "-c", POOR, "sh", &probe, &attempt])
            }
            Host::Covered => command
                .args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"])
                .args(["sh", "-c", COVERED, "sh"])
                .args(daemon),
        };
        command.current_dir(world.workspace()).env_clear().env("PATH", "/usr/bin:/bin");
        let child =
            command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).stdout(Stdio::null());
        (ours, child.spawn().expect("unshare and setpriv, of util-linux"))
    })
}

fn open(world: &World, domains: usize, profile: &str) -> Result<Sandbox, Error> {
    open_on(world, Host::Poor(domains), profile)
}

fn open_on(world: &World, host: Host, profile: &str) -> Result<Sandbox, Error> {
    let (stream, mut child) = embedded(world, host);
    let open = Open::new(world.workspace()).profile(profile);
    match Sandbox::over(stream, None, open) {
        Ok(mut sandbox) => {
            sandbox.daemon = Some(child);
            Ok(sandbox)
        }
        Err(error) => {
            until("the daemon has ended", || child.try_wait().unwrap().is_some());
            Err(error)
        }
    }
}

#[test]
fn where_namespaces_are_forbidden_the_default_profile_is_refused() {
    let world = world();
    for profile in ["workspace", "readonly"] {
        let error = open(&world, 0, profile).unwrap_err();
        let error = error.wire().expect("the daemon's own answer").clone();
        assert_eq!(error.code, ErrorCode::LayerUnavailable, "{error}");
        assert!(error.message.starts_with("the profile requires mount"), "{error}");
        let why = "user namespaces are unavailable: unshare: ";
        let remedy = "sysctl user.max_user_namespaces is 0: set it above 0";
        assert!(error.message.contains(why) && error.message.contains(remedy), "{error}");
        assert!(
            error.hint.contains("palisade doctor") && error.hint.contains("optional"),
            "{error}"
        );
    }
    assert_eq!(fs::read_dir(world.workspace()).unwrap().count(), 1, "something was done");
    // A profile that allows all but one of them to be missing is refused for that one.
    let text = include_str!("../../../daemon/profiles/workspace.toml");
    for needed in &MISSING[..6] {
        let rest: Vec<_> = MISSING.iter().filter(|layer| *layer != needed).collect();
        let text = text.replace("optional = [\"limits\"]", &format!("optional = {rest:?}"));
        world.add_unasked("nearly", &text);
        let error = open(&world, 0, "nearly").unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::LayerUnavailable), "{needed}: {error}");
        let expected = format!("the profile requires {needed}");
        assert!(error.to_string().contains(&expected), "{needed}: {error}");
    }
}

fn assert_says_what_is_missing(receipt: &Receipt) {
    let layers: Vec<_> = receipt.degraded.iter().map(|degraded| degraded.layer.as_str()).collect();
    // Without mounts of its own a session has no overlay either: commands are held by their text.
    assert_eq!(layers, [&MISSING[..], &["transaction"]].concat());
    assert_eq!(receipt.guard, Guard::Text);
    for degraded in &receipt.degraded[..6] {
        assert!(degraded.why.contains("unavailable: unshare: "), "{degraded:?}");
    }
    assert!(receipt.degraded[6].why.contains("no cgroup can be used"), "{receipt:?}");
    assert_eq!(receipt.namespaces, Vec::<String>::new());
    let landlock = receipt.landlock.as_ref().expect("Landlock is in force");
    assert!(landlock.rights.iter().any(|right| right == "ConnectTcp"), "{landlock:?}");
    assert!(receipt.seccomp.is_some() && receipt.no_new_privs);
    assert!(receipt.limits.iter().all(|limit| limit.by == "rlimit"), "{:?}", receipt.limits);
}

#[test]
fn with_the_profiles_leave_every_result_says_what_is_missing() {
    let world = world();
    let sandbox = open(&world, 0, "lenient").unwrap();
    assert_says_what_is_missing(sandbox.session.receipt());
    let results = [
        sandbox.bash("echo fine"),
        sandbox.bash("exit 3"),
        sandbox.call("write_file", json!({"path": "made", "content": "x"})),
        sandbox.call("read_file", json!({"path": "made"})),
        sandbox.call("list_files", json!({"path": "."})),
        sandbox.call("read_file", json!({"path": "not there"})),
    ];
    for result in &results {
        assert_says_what_is_missing(result.receipt.as_ref().unwrap());
    }
    let success: Vec<_> = results.iter().map(|result| result.success).collect();
    assert_eq!(success, [true, false, true, true, true, false]);
    assert_eq!(results[0].stdout, "fine\n");
    assert_eq!(fs::read_to_string(world.workspace().join("made")).unwrap(), "x");
    let status = sandbox.wait(sandbox.client.status()).unwrap();
    let pid = status.layers.iter().find(|layer| layer.layer == "pid").unwrap();
    assert!(!pid.available && pid.detail.contains("user.max_user_namespaces"), "{pid:?}");
    // Names can not be hidden for the same reason, and the same helps.
    let others = status.layers.iter().filter(|layer| !layer.available && layer.layer != "limits");
    let others: Vec<_> = others.collect();
    assert_eq!(others.len(), 8, "{others:?}");
    for layer in others {
        assert_eq!(layer.advice, pid.advice, "{layer:?}");
        assert!(layer.detail.starts_with(&pid.detail), "{layer:?}");
    }
}

#[test]
fn doctor_tells_once_what_forbids_namespaces() {
    let world = world();
    let output = Mode::User.act(|| {
        let mut command = world.command("palisade");
        let mut poor = Command::new("unshare");
        poor.args(["--user", "--map-current-user", "--keep-caps", "--", "sh", "-c", POOR, "sh"]);
        poor.arg(command.get_program()).arg("doctor").current_dir(world.workspace()).env_clear();
        poor.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null());
        poor.stdin(Stdio::null()).output().unwrap()
    });
    let shown = String::from_utf8(output.stdout).unwrap();
    let layers: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.strip_prefix("NO  "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let missing = ["mount", "pid", "network", "ipc", "uts", "cgroup", "hide", "protect", "limits"];
    assert_eq!(layers, missing, "{shown}");
    let (report, verdict) = shown.split_once("\nthis host can not enforce").expect("a verdict");
    let remedy = "sysctl user.max_user_namespaces is 0: set it above 0";
    assert_eq!(report.matches(remedy).count(), 1, "{shown}");
    assert_eq!(report.matches("what forbids namespaces").count(), 1, "{shown}");
    assert!(!report.contains("boot kernel"), "{shown}");
    assert!(verdict.contains(remedy), "{shown}");
}

/// The names of the attempts' answers, in their order.
fn answers(sandbox: &Sandbox, attempts: &[String]) -> Vec<String> {
    let told = sandbox.probe(&attempts.join(" "));
    told.iter().map(|line| line.rsplit('=').next().unwrap().to_owned()).collect()
}

#[test]
fn landlock_and_seccomp_alone_keep_outside_out_of_reach() {
    let world = world();
    let sandbox = open(&world, 0, "lenient").unwrap();
    let canary = world.canary();
    let canary = canary.display();
    let outside = world.outside();
    let outside = outside.display();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let broker = sandbox.daemon.as_ref().unwrap().id();
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = place.path().join("socket");
    let beside = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
    beside.set_nonblocking(true).unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let udp = datagrams.local_addr().unwrap().port();
    let shared = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    let of_every_user = fs::Permissions::from_mode(0o644);
    fs::set_permissions(shared.path(), of_every_user).unwrap();
    let attempts = [
        (format!("read:{canary}"), "EACCES"),
        (format!("write:{canary}"), "EACCES"),
        (format!("append:{canary}"), "EACCES"),
        (format!("truncate:{canary}"), "EACCES"),
        (format!("remove:{canary}"), "EACCES"),
        (format!("write:{outside}/made"), "EACCES"),
        (format!("mkdir:{outside}/made"), "EACCES"),
        (format!("symlink:x:{outside}/made"), "EACCES"),
        (format!("link:{canary}:linked"), "EXDEV"),
        (format!("rename:{canary}:renamed"), "EACCES"),
        (format!("exec:{outside}/canary"), "EACCES"),
        ("list:/".to_owned(), "EACCES"),
        ("list:/tmp".to_owned(), "EACCES"),
        ("read:/etc/shadow".to_owned(), "EACCES"),
        (format!("read:{}", shared.path().display()), "EACCES"),
        // No layer but seccomp could stop these.
        (format!("tcp:127.0.0.1:{port}"), "EPERM"),
        (format!("udp:127.0.0.1:{udp}"), "EPERM"),
        (format!("unix:{}", socket.display()), "EPERM"),
        (format!("kill:{broker}:0"), "EPERM"),
        ("sys:unshare:0x10000000".to_owned(), "EPERM"),
        ("sys:keyctl:0:-3:0:0:0".to_owned(), "EPERM"),
        // Controls.
        ("write:inside".to_owned(), "ok"),
        ("read:inside".to_owned(), "ok"),
        ("rename:inside:moved".to_owned(), "ok"),
        ("kill:self:0".to_owned(), "ok"),
    ];
    let (said, expected): (Vec<_>, Vec<_>) = attempts.into_iter().unzip();
    let told = answers(&sandbox, &said);
    for ((attempt, told), expected) in said.iter().zip(&told).zip(expected) {
        assert_eq!(told, expected, "{attempt}");
    }
    let canary = world.canary().display().to_string();
    let read = sandbox.call("read_file", json!({"path": canary}));
    assert_eq!(read.error.unwrap().code, ErrorCode::OutsidePolicy);
    for path in [canary, format!("{outside}/made")] {
        let write = sandbox.call("write_file", json!({"path": path, "content": "x"}));
        assert_eq!(write.error.unwrap().code, ErrorCode::OutsidePolicy, "{path}");
    }
    world.assert_canary_untouched();
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock, "a connection came through");
    let nobody = beside.accept().unwrap_err();
    assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock, "a connection came through");
    let nothing = datagrams.recv(&mut [0; 8]).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock, "a datagram came through");
    // The listeners do listen, and the files can be read by who is not confined.
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert!(listener.accept().is_ok());
    Mode::User.act(|| UnixStream::connect(&socket)).unwrap();
    assert!(beside.accept().is_ok());
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", ("127.0.0.1", udp)).unwrap();
    assert_eq!(datagrams.recv(&mut [0; 8]).unwrap(), 1);
    Mode::User.act(|| fs::read(shared.path())).unwrap();
}

/// The names of the layers that a receipt says are missing.
fn missing(receipt: &Receipt) -> Vec<&str> {
    receipt.degraded.iter().map(|degraded| degraded.layer.as_str()).collect()
}

#[test]
fn the_profile_container_asks_about_what_no_transaction_holds() {
    let world = World::new(Mode::User);
    let sandbox = open(&world, 0, "container").unwrap();
    assert_eq!(missing(sandbox.session.receipt()), [&MISSING[..], &["transaction"]].concat());
    assert_eq!(sandbox.ok("echo fine"), "fine\n");
    fs::write(world.workspace().join("kept"), "kept").unwrap();
    fs::write(world.workspace().join("lose.sh"), "rm kept\n").unwrap();
    fs::write(world.workspace().join("Makefile"), "clean:\n\trm kept\n").unwrap();
    for line in [
        "rm kept",
        "echo lost > kept",
        "python3 -c 'open(\"kept\", \"w\")'",
        // Their text says nothing about what they lose.
        "make clean",
        "sh lose.sh",
        "./probe",
        "echo new > new",
    ] {
        let result = sandbox.bash(line);
        assert_eq!(code(&result), ErrorCode::Denied, "{line}: {result:?}");
        let watched = sandbox.call("bash", json!({"command": line, "background": true}));
        assert_eq!(code(&watched), ErrorCode::Denied, "{line}: {watched:?}");
    }
    // What is proven to only read is not asked about. It runs in the workspace itself.
    let read = sandbox.bash("cat kept");
    assert_eq!((read.stdout.as_str(), read.route), ("kept", Some(Route::Direct)), "{read:?}");
    assert_eq!(fs::read_to_string(world.workspace().join("kept")).unwrap(), "kept");
    // Where the host has every layer, nothing is missing but what `workspace` allows.
    let full = world.open_with("container");
    let plain = world.open();
    assert_eq!(missing(full.session.receipt()), missing(plain.session.receipt()));
}

#[test]
fn where_proc_is_covered_sessions_have_no_pid_namespace_and_nothing_else_is_missing() {
    let world = world();
    let error = open_on(&world, Host::Covered, "workspace").unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::LayerUnavailable), "{error}");
    let told = error.to_string();
    assert!(told.contains("requires pid") && told.contains("unmask=ALL"), "{told}");
    let sandbox = open_on(&world, Host::Covered, "lenient").unwrap();
    let receipt = sandbox.session.receipt();
    assert_eq!(missing(receipt), ["pid", "limits", "transaction"]);
    assert_eq!(receipt.namespaces, ["mount", "network", "ipc", "uts", "cgroup"]);
    // The number that `/proc` shows is the process's own.
    let own = "read -r pid rest < /proc/self/stat; echo $((pid == $$))";
    assert_eq!(sandbox.ok(own), "1\n");
    let mark = processes::mark();
    let leaves = format!("(setsid bash -c 'exec -a {mark} sleep 600' &); sleep 0.3; echo done");
    assert_eq!(sandbox.bash(&leaves).stdout, "done\n");
    assert_eq!(processes::marked(&mark), []);
}

fn stubborn(sandbox: &Sandbox, mark: &str, timeout: Duration) -> Running {
    let line = format!(
        "trap '' TERM; (setsid bash -c 'trap \"\" TERM; exec -a {mark}-1 sleep 600' &); \
         (exec -a {mark}-2 sleep 600) & bash -c 'kill -STOP $$; sleep 600' {mark}-3 & \
         while :; do (exec -a {mark}-4 sleep 0.02); done"
    );
    let call = sandbox.session.bash(line).timeout(timeout);
    let running = sandbox.wait(async { call.start().await }).unwrap();
    for n in 1..=4 {
        until("the call is under way", || !processes::marked(&format!("{mark}-{n}")).is_empty());
    }
    running
}

fn code(result: &CallResult) -> ErrorCode {
    result.error.as_ref().expect("an error").code
}

#[test]
fn without_a_pid_namespace_every_process_of_a_call_is_still_ended() {
    let before = Before::look();
    let world = world();
    let mark = processes::mark();
    let long = Duration::from_secs(500);
    let gone = |why: &str| until(why, || processes::marked(&mark).is_empty());
    let sandbox = open(&world, 0, "lenient").unwrap();

    // A process that outlives the program is ended with it, and the result says so.
    let leaves = format!("(setsid bash -c 'exec -a {mark}-5 sleep 600' &); sleep 0.3; echo done");
    let result = sandbox.bash(&leaves);
    assert_eq!(result.stdout, "done\n");
    assert!(result.pipe_held, "the straggler is not mentioned");
    assert_eq!(processes::marked(&mark), []);

    let running = stubborn(&sandbox, &mark, Duration::from_secs(10));
    let result = sandbox.wait(running.result()).unwrap();
    assert_eq!((code(&result), result.timed_out), (ErrorCode::TimedOut, true));
    assert_eq!(processes::marked(&mark), []);

    let running = stubborn(&sandbox, &mark, long);
    let result = sandbox.wait(async {
        running.cancel().await.unwrap();
        running.result().await.unwrap()
    });
    assert_eq!((code(&result), result.cancelled), (ErrorCode::Cancelled, true));
    assert_eq!(processes::marked(&mark), []);

    // The runner itself is killed: what it ran comes back to the launcher, which ends it.
    let running = stubborn(&sandbox, &mark, long);
    kill(&sandbox, "cell 1 run");
    let result = sandbox.wait(running.result()).unwrap();
    assert_eq!(code(&result), ErrorCode::CellFailed);
    gone("a killed runner's call is gone");
    assert_eq!(sandbox.ok("echo next"), "next\n");

    // The end of the session, and of everything.
    let running = stubborn(&sandbox, &mark, long);
    sandbox.wait(sandbox.session.close()).unwrap();
    assert_eq!(processes::marked(&mark), []);
    drop((running, sandbox));
    for room in ["palisaded", "palisade-launch", "cell 1 files"] {
        let sandbox = open(&world, 0, "lenient").unwrap();
        let running = stubborn(&sandbox, &mark, long);
        kill(&sandbox, room);
        match sandbox.wait(running.result()) {
            Ok(result) => {
                assert!([ErrorCode::LauncherGone, ErrorCode::CellFailed].contains(&code(&result)));
            }
            Err(error) => assert!(matches!(error, Error::Disconnected(_)), "{error}"),
        }
        gone(room);
        drop(sandbox);
        before.assert_nothing_left_of(&mark);
    }
}

/// Kills the process of this name below a session's daemon.
fn kill(sandbox: &Sandbox, name: &str) {
    let root = i32::try_from(sandbox.daemon.as_ref().unwrap().id()).unwrap();
    let tree = processes::tree(root);
    let found = tree.iter().find(|process| process.name == name);
    let pid = found.unwrap_or_else(|| panic!("no {name} in {tree:?}")).pid;
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// The kernel stacks sixteen domains and no more.
#[test]
fn a_payload_that_stacks_domains_spends_only_its_own() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        assert_eq!(
            sandbox.probe("domains:1 domains:12 domains:16"),
            ["domains:1=ok", "domains:12=ok", "domains:16=E2BIG"]
        );
        for _ in 0..20 {
            assert_eq!(
                sandbox.probe("domains:16 domains:12"),
                ["domains:16=E2BIG", "domains:12=ok"]
            );
        }
        assert_eq!(sandbox.ok("echo next > next; cat next"), "next\n");
        assert!(sandbox.call("read_file", json!({"path": "next"})).success);
    }
}

#[test]
fn a_daemon_inside_too_many_domains_refuses_and_says_so() {
    let world = world();
    // In somebody else's domain nothing can be mounted: the default profile is refused for that.
    let error = open(&world, 1, "workspace").unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::LayerUnavailable), "{error}");
    // With room for its own, a session works.
    let sandbox = open(&world, 13, "lenient").unwrap();
    assert_eq!(sandbox.ok("echo nested"), "nested\n");
    drop(sandbox);
    // With room for the session's and not for a call's, the call is not run.
    let sandbox = open(&world, 15, "lenient").unwrap();
    let result = sandbox.bash("echo ran > ran");
    let error = result.error.expect("refused");
    assert_eq!(error.code, ErrorCode::SpawnFailed, "{error}");
    assert!(error.message.contains("landlock: Argument list too long"), "{error}");
    assert!(error.hint.contains("16 Landlock domains"), "{error}");
    assert!(!world.workspace().join("ran").exists());
    drop(sandbox);
    // With no room at all there is no session.
    let error = open(&world, 16, "lenient").unwrap_err();
    let error = error.wire().expect("the daemon's own answer").clone();
    assert_eq!(error.code, ErrorCode::CellFailed, "{error}");
    assert!(error.message.contains("landlock"), "{error}");
    assert!(error.message.contains("Argument list too long"), "{error}");
}
