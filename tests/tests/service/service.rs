//! The units, in a systemd booted for the test: who may connect, with which privilege each room
//! runs, and that it comes back when it is killed. That takes root; an ordinary user's daemon is
//! held to the same as far as it can be, started by a socket that was handed to it.

use palisade_client::Open;
use palisade_tests::{
    Booted, Mode, Sandbox, UNITS, World, binary, processes, readme_blocks,
    rooms::{awaited, until},
    text,
};
use serde_json::Value;
use std::{
    fs,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

const BROKER: &str = "palisaded.service";
const LAUNCHER: &str = "palisade-launcher.service";
const NONE: &str = "0000000000000000";
const SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
/// DAC_READ_SEARCH, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_ADMIN, SYS_CHROOT, SYS_ADMIN.
const LAUNCHERS: u64 =
    1 << 2 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 12 | 1 << 18 | 1 << 21;

/// An ordinary user's daemon that the service manager's helper starts with a socket.
struct Activated {
    world: World,
    broker: Child,
    socket: PathBuf,
}

impl Activated {
    fn new() -> Self {
        let world = World::new(Mode::User);
        let socket = world.state().join("agent.sock");
        let broker = Self::start(&world, &socket);
        Self { world, broker, socket }
    }

    fn start(world: &World, socket: &PathBuf) -> Child {
        let daemon = world.command("palisaded");
        let child = world.mode.act(|| {
            Command::new("systemd-socket-activate")
                .env_clear()
                .envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))))
                .arg("--listen")
                .arg(socket)
                .arg(daemon.get_program())
                .arg("--state")
                .arg(world.state())
                .arg("--profiles")
                .arg(world.profiles())
                // Not made: the socket that is handed over goes before.
                .args(["--socket", "/nonexistent/agent.sock"])
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("systemd-socket-activate")
        });
        until("the socket", || socket.exists());
        child
    }

    fn open(&self) -> Sandbox {
        let stream = self
            .world
            .mode
            .act(|| awaited("somebody listens", || UnixStream::connect(&self.socket).ok()));
        Sandbox::over(stream, None, Open::new(self.world.workspace())).expect("a session")
    }
}

impl Drop for Activated {
    fn drop(&mut self) {
        self.broker.kill().unwrap_or_default();
        self.broker.wait().map(drop).unwrap_or_default();
    }
}

#[test]
fn a_member_of_the_group_is_served_as_who_they_are() {
    for mode in Mode::all() {
        match mode {
            Mode::System => served_by_the_service(),
            Mode::User => {
                let activated = Activated::new();
                let sandbox = activated.open();
                assert_eq!(sandbox.ok("id -u; echo $((6*7))"), format!("{}\n42\n", mode.uid()));
                assert!(!PathBuf::from("/nonexistent").exists());
            }
        }
    }
}

fn served_by_the_service() {
    let booted = Booted::with_service();
    // The README's own line, which finds the service by itself.
    let line = readme_blocks()[1].lines().nth(1).expect("a line to try");
    let output = booted.line_of("alice", line).output().expect("nsenter");
    let expected = "uid=4343(alice) gid=4343(alice) groups=4343(alice)\n42\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!(booted.served("-- 'echo kept >file; stat -c %u:%a file'"), "4343:644\n");
    assert_eq!(booted.ok(&["stat", "-c", "%u %s", "/home/alice/work/file"]), "4343 5");
    // A home that only its owner may enter; and inside, nothing of the daemon's.
    let seen = booted.served("-- 'ls -A /run; ls /var/lib/palisade 2>/dev/null; ls ~'");
    // Beside the workspace, the directories of the search path that this home lacks.
    assert_eq!(seen, "go\nwork\n");
    booted.ok(&["chmod", "700", "/home/alice", "/home/alice/work"]);
    assert_eq!(booted.served("-- cat file"), "kept\n");

    let refused = booted.through("bob", "-- 'touch made'");
    assert_eq!(refused.status.code(), Some(125), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("Permission denied (os error 13)"), "{refused:?}");
    assert_eq!(booted.ok(&["ls", "/home/bob/work"]), "");
    // Whoever may not use the service gets a private daemon, unless the operator forbids that.
    let private = || booted.line_of("bob", "palisade run -- 'echo mine'").output().expect("run");
    let allowed = private();
    assert_eq!(text(&allowed.stdout), "mine\n", "{}", text(&allowed.stderr));
    assert!(text(&allowed.stderr).contains("a private daemon is used"), "{allowed:?}");
    let forbid = "echo 'private_daemons = false' >>/etc/palisade/palisaded.toml";
    booted.ok(&["bash", "-euc", &format!("mkdir -p /etc/palisade; {forbid}")]);
    let refused = private();
    assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(125), String::new()));
    let told = text(&refused.stderr);
    assert!(told.contains("only the service may be used on this host"), "{told}");
    booted.ok(&["systemctl", "restart", "palisaded"]);
    assert_eq!(booted.served("-- 'echo served'"), "served\n");
    let probe = "/src/target/release/probe unix:/run/palisade/agent.sock";
    let probed = |user| text(&booted.line_of(user, probe).output().unwrap().stdout);
    assert_eq!(probed("alice"), "unix:/run/palisade/agent.sock=ok\n");
    assert_eq!(probed("bob"), "unix:/run/palisade/agent.sock=EACCES\n");
    // The launcher's is for the broker alone, and a member of the group can not put another there.
    assert_eq!(
        booted.ok(&["stat", "-c", "%A %U %G", "/run/palisade", "/run/palisade/launcher.sock"]),
        "drwxr-xr-x root root\nsrw------- palisade root"
    );
}

#[test]
fn each_room_has_the_privilege_that_it_needs_and_no_other() {
    for mode in Mode::all() {
        match mode {
            Mode::System => privilege_in_the_service(),
            Mode::User => {
                let activated = Activated::new();
                let _sandbox = activated.open();
                let path = format!("/proc/{}/status", activated.broker.id());
                let status = fs::read_to_string(path).unwrap();
                assert!(status.starts_with("Name:\tpalisaded\n"), "{status}");
                for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                    assert!(status.contains(&format!("\n{set}:\t{NONE}\n")), "{status}");
                }
                assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
            }
        }
    }
}

fn privilege_in_the_service() {
    let booted = Booted::with_service();
    // A session that stays while its rooms are looked at.
    let mut client = client_with(&booted, "echo here; sleep 1000");
    let broker = booted.main_pid(BROKER).expect("the broker runs");
    let uid = booted.ok(&["id", "-u", "palisade"]);
    assert_ne!(uid, "0");
    assert_eq!(booted.status(broker, "Uid"), [uid.as_str(); 4].join(" "));
    for set in SETS {
        assert_eq!(booted.status(broker, set), NONE, "the broker's {set}");
    }
    assert_eq!(booted.status(broker, "Groups"), booted.ok(&["id", "-g", "palisade"]));
    assert_eq!(booted.status(broker, "NoNewPrivs"), "1");
    assert_eq!(booted.status(broker, "Seccomp"), "2");

    let outer = booted.main_pid(LAUNCHER).expect("the launcher runs");
    let inner = booted.ok(&["pgrep", "--parent", &outer.to_string()]).parse().expect("one child");
    let [launchers, group] = ["-u", "-g"].map(|id| booted.ok(&["id", id, "palisade-launcher"]));
    assert!(launchers != "0" && launchers != uid, "{launchers}");
    let held = format!("{LAUNCHERS:016x}");
    for launcher in [outer, inner] {
        assert_eq!(booted.status(launcher, "Name"), "palisade-launch");
        assert_eq!(booted.status(launcher, "Uid"), [launchers.as_str(); 4].join(" "));
        assert_eq!(booted.status(launcher, "Gid"), [group.as_str(); 4].join(" "));
        assert_eq!(booted.status(launcher, "Groups"), group);
        for set in SETS {
            assert_eq!(booted.status(launcher, set), held, "{set}");
        }
        assert_eq!(booted.status(launcher, "NoNewPrivs"), "1");
        assert_eq!(booted.status(launcher, "Seccomp"), "2");
    }
    for kind in ["mnt", "net"] {
        let of = |pid: u32| booted.ok(&["readlink", &format!("/proc/{pid}/ns/{kind}")]);
        assert_ne!(of(inner), of(1), "{kind}");
    }
    // Below it are cells that wait for a session, still the launcher's, and those of the session,
    // with what they run, which have nothing of it.
    let below = |pid: u32| {
        let listed = text(&booted.run(&["pgrep", "--parent", &pid.to_string()]).stdout);
        listed.lines().map(|pid| pid.parse().expect("a pid")).collect::<Vec<u32>>()
    };
    let cells = below(inner);
    let run = cells.iter().find(|cell| booted.status(**cell, "Name") == "cell 1 read");
    let programs = below(*run.expect("the session's reading runner"));
    assert!(!programs.is_empty());
    let mut settled = 0;
    for pid in cells.into_iter().chain(programs) {
        if booted.status(pid, "Name") == "palisade-cell" {
            assert_eq!(booted.status(pid, "Uid"), [launchers.as_str(); 4].join(" "));
            continue;
        }
        settled += 1;
        for ids in ["Uid", "Gid"] {
            assert_eq!(booted.status(pid, ids), "4343 4343 4343 4343");
        }
        assert_eq!(booted.status(pid, "Groups"), "");
        for set in SETS {
            assert_eq!(booted.status(pid, set), NONE, "{set} of {}", booted.status(pid, "Name"));
        }
    }
    assert!(settled >= 3, "files, runner, program: {settled}");
    client.kill().expect("kill");
    client.wait().expect("wait");
    assert_eq!(booted.ok(&["stat", "-c", "%U %a", "/var/lib/palisade"]), "palisade 700");
    let store = booted.ok(&["stat", "-c", "%U %a", "/var/lib/palisade-launcher"]);
    assert_eq!(store, "palisade-launcher 711");
    // No cgroup but its own is its to write.
    let written = booted.run(&[
        "nsenter",
        "--mount",
        &format!("--target={inner}"),
        "find",
        "/sys/fs/cgroup",
        "-type",
        "d",
        "-writable",
        "-not",
        "-path",
        "*/palisade-launcher.service*",
    ]);
    assert_eq!((text(&written.stdout).as_str(), written.status.code()), ("", Some(0)));
}

/// The limits of a session are cgroups below the launcher's, made with what systemd delegated to
/// it; the broker reads the count of kills there from behind its read-only view; and a session's
/// kill is not the service's end. The profile is the administrator's.
#[test]
fn limits_are_held_below_the_launchers_delegated_cgroup() {
    if !Mode::all().contains(&Mode::System) {
        // The settings that systemd is asked for; whether they work takes root.
        let unit = UNITS.iter().find(|(name, _)| *name == LAUNCHER).unwrap().1;
        for line in ["Delegate=cpu memory pids", "OOMPolicy=continue", "KillMode=control-group"] {
            assert!(unit.lines().any(|found| found == line), "{line}");
        }
        return;
    }
    let booted = Booted::with_service();
    let small = palisade_tests::profile_with(&[("memory = \"4 GiB\"", "memory = \"64 MiB\"")]);
    let write = format!(
        "mkdir -p /etc/palisade/profiles; cat >/etc/palisade/profiles/small.toml <<'E'\n{small}\nE"
    );
    booted.ok(&["bash", "-euc", &write]);
    assert_eq!(booted.served("--profile small -- 'echo fits'"), "fits\n");
    let launcher = booted.main_pid(LAUNCHER).expect("the launcher runs");
    let hog = booted.through("alice", "--json --profile small -- 'head -c 200M /dev/zero | tail'");
    let result: Value = serde_json::from_slice(&hog.stdout).expect("JSON");
    assert_eq!(result["oom"], true, "{result}");
    let limits = result["receipt"]["limits"].as_array().expect("limits");
    for (name, value) in [("memory", 64 << 20), ("processes", 1024)] {
        let held = limits.iter().find(|limit| limit["name"] == name).expect(name);
        assert_eq!(held["value"], value);
        assert!(held["by"].as_str().unwrap().starts_with("cgroup v"), "{held}");
    }
    assert_eq!(booted.main_pid(LAUNCHER), Some(launcher), "the same launcher as before");
    assert_eq!(booted.served("--profile small -- 'echo fits'"), "fits\n");
    // Nothing of a session stays, nor of the service when it is stopped.
    let groups = || booted.ok(&["find", "/sys/fs/cgroup", "-path", "*palisade-launcher.service/*"]);
    assert!(groups().contains("/palisade-launcher.service/palisade-"), "{}", groups());
    booted.ok(&[
        "systemctl",
        "stop",
        "palisaded.socket",
        BROKER,
        LAUNCHER,
        "palisade-launcher.socket",
    ]);
    until("no cgroup is left", || groups().is_empty());
    assert_eq!(booted.run(&["pgrep", "palisade"]).status.code(), Some(1), "a process is left");
}

/// Starts a client of alice's whose line says `here`, and waits for that.
fn client_with(booted: &Booted, line: &str) -> Child {
    use std::io::{BufRead as _, BufReader};
    let run = format!("exec palisade run --socket /run/palisade/agent.sock -- '{line}'");
    let mut client = booted
        .line_of("alice", &run)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("nsenter");
    let mut said = String::new();
    BufReader::new(client.stdout.as_mut().unwrap()).read_line(&mut said).expect("read");
    assert_eq!(said, "here\n");
    client
}

/// Kills a room by what `kill` does, and expects every process of a running call to go.
fn outlived_by_nothing(booted: &Booted, seconds: u32, kill: impl FnOnce()) {
    let line = format!("trap \"\" TERM HUP; setsid sleep {seconds} & echo here; sleep {seconds}");
    let mut client = client_with(booted, &line);
    let mark = format!("sleep {seconds}");
    let running = || processes::all().iter().filter(|p| p.command == mark).count();
    until("both run", || running() == 2);
    kill();
    until("the call's processes are gone", || running() == 0);
    let status = client.wait().expect("wait");
    assert!(!status.success(), "the call did not end well: {status}");
    assert_eq!(booted.served("-- 'echo back'"), "back\n");
}

#[test]
fn a_killed_room_takes_the_cells_with_it_and_comes_back() {
    for mode in Mode::all() {
        match mode {
            Mode::System => killed_in_the_service(),
            Mode::User => {
                let mut activated = Activated::new();
                let mark = format!("sleep {}", 300_000 + std::process::id() % 10_000);
                let sandbox = activated.open();
                let call = sandbox.session.bash(format!("{mark} & {mark}"));
                let call = sandbox.wait(async { call.start().await }).expect("started");
                let running = || processes::all().iter().filter(|p| p.command == mark).count();
                until("both run", || running() == 2);
                activated.broker.kill().unwrap();
                activated.broker.wait().unwrap();
                until("the call's processes are gone", || running() == 0);
                drop((call, sandbox));
                fs::remove_file(&activated.socket).unwrap();
                activated.broker = Activated::start(&activated.world, &activated.socket);
                assert_eq!(activated.open().ok("echo back"), "back\n");
            }
        }
    }
}

fn killed_in_the_service() {
    let booted = Booted::with_service();
    assert_eq!(booted.served("-- 'echo first'"), "first\n");
    let pids = || (booted.main_pid(BROKER), booted.main_pid(LAUNCHER));
    let kill = |pid: u32| drop(booted.ok(&["kill", "-KILL", &pid.to_string()]));
    let mut seconds = 100_000 + std::process::id() % 10_000;

    let (broker, launcher) = pids();
    outlived_by_nothing(&booted, seconds, || kill(broker.unwrap()));
    assert_ne!(pids().0, broker, "systemd started another broker");
    assert_eq!(pids().1, launcher, "the launcher stayed");

    // Either of the launcher's processes: the one that systemd knows, and the one that serves.
    for serving in [false, true] {
        seconds += 10_000;
        let (broker, launcher) = pids();
        let launcher = launcher.unwrap();
        let victim = if serving {
            booted.ok(&["pgrep", "--parent", &launcher.to_string()]).parse().unwrap()
        } else {
            launcher
        };
        outlived_by_nothing(&booted, seconds, || kill(victim));
        assert_eq!(pids().0, broker, "the broker stayed");
        assert_ne!(pids().1, Some(launcher), "systemd started another launcher");
    }

    let before = pids();
    outlived_by_nothing(&booted, seconds + 10_000, || {
        booted.ok(&["systemctl", "restart", LAUNCHER, BROKER]);
    });
    let after = pids();
    assert!(before.0 != after.0 && before.1 != after.1, "{before:?} {after:?}");
    let failed = booted.ok(&["systemctl", "list-units", "--failed", "--plain", "--no-legend"]);
    assert!(!failed.contains("palisade"), "{failed}");
}

#[test]
fn systemd_has_nothing_to_say_against_the_unit_of_a_user() {
    let unit = include_str!("../../../systemd/user/palisaded.service");
    for mode in Mode::all() {
        let world = World::new(mode);
        let path = world.workspace().join("palisaded.service");
        let stage = binary("palisaded");
        let stage = format!("{}/", stage.parent().unwrap().display());
        let run = world.run();
        fs::create_dir(&run).unwrap();
        world.give(&run);
        let verify = |text: &str| {
            fs::write(&path, text.replace("/usr/bin/", &stage)).unwrap();
            let mut command = Command::new("systemd-analyze");
            command.args(["verify", "--user", "--man=no", "--recursive-errors=no"]).arg(&path);
            command.env("XDG_RUNTIME_DIR", &run).env("HOME", world.outside());
            let output = mode.act(|| command.output().expect("systemd-analyze"));
            (output.status.code(), text_of(&output))
        };
        assert_eq!(verify(unit), (Some(0), String::new()), "{mode:?}");
        // It does look.
        let broken = verify(&unit.replace("Delegate=", "Delgate=")).1;
        assert!(broken.contains("'Delgate'"), "{mode:?}: {broken}");
    }
}

fn text_of(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// As an ordinary user with the programs where the tests have them, as root where they belong.
#[test]
fn systemd_has_nothing_to_say_against_the_units() {
    let said = text_of;
    for mode in Mode::all() {
        match mode {
            Mode::System => {
                let booted = Booted::with_service();
                let units: Vec<_> = UNITS[..10].iter().map(|(name, _)| *name).collect();
                let paths: Vec<_> =
                    units.iter().map(|name| format!("/usr/lib/systemd/system/{name}")).collect();
                let mut verify = vec!["systemd-analyze", "verify"];
                verify.extend(paths.iter().map(String::as_str));
                let verified = booted.run(&verify);
                assert_eq!((verified.status.code(), said(&verified).as_str()), (Some(0), ""));
                // In tenths, as version 252 counts. What keeps the launcher's from being lower, its
                // unit says.
                booted.ok(&["systemd-analyze", "security", "--threshold=12", BROKER]);
                booted.ok(&["systemd-analyze", "security", "--threshold=39", LAUNCHER]);
                // Its network is the host's.
                let egress = "palisade-egress@1.service";
                booted.ok(&["systemd-analyze", "security", "--threshold=25", egress]);
            }
            Mode::User => {
                let world = World::new(mode);
                let verify = |change: &dyn Fn(&str) -> String| {
                    let mut command = Command::new("systemd-analyze");
                    command.args(["verify", "--man=no", "--recursive-errors=no"]);
                    for (name, unit) in &UNITS[..10] {
                        let path = world.workspace().join(name);
                        fs::write(&path, change(unit)).unwrap();
                        command.arg(path);
                    }
                    mode.act(|| command.output().expect("systemd-analyze"))
                };
                let stage = binary("palisaded");
                let stage = format!("{}/", stage.parent().unwrap().display());
                let verified = verify(&|unit| unit.replace("/usr/bin/", &stage));
                assert_eq!((verified.status.code(), said(&verified).as_str()), (Some(0), ""));
                // It does look.
                let broken =
                    verify(&|unit| unit.replace("/usr/bin/", &stage).replace("User=", "Usr="));
                assert!(said(&broken).contains("'Usr'"), "{}", said(&broken));
            }
        }
    }
}
