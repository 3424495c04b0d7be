//! The identity of a call's programs: no privilege, no other identity, and nothing of the daemon's
//! own environment, descriptors, terminal or signals, however the daemon was started.

use palisade_client::Open;
use palisade_tests::{Mode, ORDINARY, Sandbox, World, binary, processes};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A session of each kind of daemon.
fn each(act: impl Fn(&World, &Sandbox)) {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        act(&world, &sandbox);
        world.assert_canary_untouched();
    }
}

/// A session of a daemon that a shell line started.
fn started_by(world: &World, starter: Mode, line: &str) -> Sandbox {
    let (stream, daemon) = world.embedded_by(starter, line);
    Sandbox::over(
        stream,
        Some(daemon),
        Open::new(world.workspace()).profile(palisade_tests::UNASKED),
    )
    .unwrap()
}

/// Returns what a shell sees that this line starts, without a daemon in between.
#[allow(clippy::disallowed_methods)]
fn control(world: &World, starter: Mode, line: &str, script: &str) -> String {
    let output = starter.act(|| {
        std::process::Command::new("bash")
            .args(["-c", line, "bash", "sh", "-c", script])
            .current_dir(world.outside())
            .output()
            .unwrap()
    });
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn set_id_programs_lend_nothing() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let program = world.workspace().join("lender");
        fs::copy(binary("probe"), &program).unwrap();
        // Another's than the session's, where the tests may give files away.
        let owner = if mode == Mode::System { ORDINARY } else { 0 };
        if is_root() {
            std::os::unix::fs::chown(&program, Some(owner), Some(owner)).unwrap();
        }
        fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
        assert_eq!(fs::metadata(&program).unwrap().mode() & 0o6000, 0o6000);
        let sandbox = world.open();
        let uid = mode.uid();
        assert_eq!(sandbox.ok(&format!("./lender euid:{uid}")), format!("euid:{uid}=ok\n"));
        // Two reasons, each enough: nothing gains by executing, and no mount honours the bits but
        // those of single devices.
        assert_eq!(sandbox.ok("grep NoNewPrivs /proc/self/status"), "NoNewPrivs:\t1\n");
        let honouring = sandbox.ok("grep -v nosuid /proc/self/mountinfo | cut -d' ' -f5");
        assert!(
            honouring.lines().all(|path| path.starts_with("/dev/") && path != "/dev/shm"),
            "{honouring}"
        );
        if is_root() {
            // The control: outside it is lent.
            let lent =
                control(&world, mode, "\"$@\"", &format!("{} euid:{owner}", program.display()));
            assert_eq!(lent, format!("euid:{owner}=ok\n"));
        }
    }
}

#[test]
fn programs_of_the_system_that_lend_root_fail() {
    each(|_, sandbox| {
        let found = sandbox.ok("find /usr/bin /usr/sbin -perm -4000 | head -20");
        assert!(found.contains("/su\n"), "su, of util-linux or login, is needed: {found}");
        let result = sandbox.bash("su -s /bin/sh nobody -c 'id -u; touch lent' < /dev/null");
        assert!(!result.success && result.stdout.is_empty(), "{result:?}");
        sandbox.holds(&[("stat:lent", "ENOENT")]);
    });
}

/// A line that starts a daemon as a careless operator does.
const CARELESS: &str = "export AWS_SECRET_ACCESS_KEY=swordfish GITHUB_TOKEN=swordfish \
    DATABASE_URL=postgres://u:swordfish@db SSH_AUTH_SOCK=/tmp/swordfish TZ=Etc/GMT-7; \
    umask 0; trap '' PIPE CHLD INT HUP USR1 ALRM; exec 8< /etc/passwd 9>> canary; exec \"$@\"";

#[test]
fn secrets_of_the_daemon_do_not_pass() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = started_by(&world, mode, CARELESS);
        let inside = sandbox.ok("env; tr '\\0' '\\n' < /proc/self/environ");
        assert!(!inside.contains("swordfish"), "{inside}");
        assert!(inside.contains("TZ=Etc/GMT-7\n"), "what the profile passes on is there: {inside}");
        let daemon = sandbox.daemon.as_ref().unwrap().id();
        let outside = format!("read:/proc/{daemon}/environ");
        sandbox.holds(&[("read:/proc/1/environ", "EACCES"), (&outside, "ENOENT")]);
        assert!(control(&world, mode, CARELESS, "env").contains("GITHUB_TOKEN=swordfish\n"));
    }
}

#[test]
fn nothing_of_how_the_daemon_was_started_reaches_a_call() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = started_by(&world, mode, CARELESS);
        let script = "umask; pwd; ls /proc/self/fd; grep -E 'SigBlk|SigIgn' /proc/self/status";
        let workspace = world.workspace();
        let none = "0000000000000000";
        assert_eq!(
            sandbox.ok(script),
            format!(
                "0022\n{}\n0\n1\n2\n3\nSigBlk:\t{none}\nSigIgn:\t{none}\n",
                workspace.display()
            )
        );
        // The control: it would have been all there.
        let outside = control(&world, mode, CARELESS, script);
        let lines: Vec<_> = outside.lines().collect();
        assert_eq!(lines[..2], ["0000", world.outside().to_str().unwrap()]);
        assert!(lines.contains(&"8") && lines.contains(&"9"), "{outside}");
        assert!(!outside.ends_with(&format!("SigIgn:\t{none}\n")), "{outside}");
        world.assert_canary_untouched();
    }
}

#[test]
fn a_call_has_no_terminal_and_a_session_of_its_own() {
    // A daemon started from a terminal: `script` makes one.
    let line =
        "exec 7<&0; exec script -qec \"$(printf '%q ' \"$@\") <&7 7<&-\" /dev/null < /dev/null";
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = started_by(&world, mode, line);
        let script = "(: < /dev/tty) 2>/dev/null && echo terminal; cut -d' ' -f7 /proc/self/stat; \
                      test $(cut -d' ' -f6 /proc/$$/stat) = $$ && echo leader";
        assert_eq!(sandbox.ok(script), "0\nleader\n");
        sandbox.holds(&[("read:/dev/tty", "ENXIO"), ("ioctl:/dev/tty:0x5413", "ENXIO")]);
        let tty = "exec script -qec \"$(printf '%q ' \"$@\")\" /dev/null";
        let outside = control(&world, mode, tty, "(: < /dev/tty) && echo terminal");
        assert_eq!(outside.trim(), "terminal", "script, of bsdutils or util-linux, is needed");
    }
}

#[test]
fn no_capability_is_left_and_none_can_be_gained() {
    each(|_, sandbox| {
        let mut table = vec![("no_capabilities".to_owned(), "ok")];
        // DAC_OVERRIDE, KILL, SETUID, NET_ADMIN, SYS_PTRACE, SYS_ADMIN, PERFMON, BPF.
        for capability in [1, 5, 7, 12, 19, 21, 38, 39] {
            table.push((format!("capset:{capability}"), "EPERM"));
            // PR_CAP_AMBIENT_RAISE.
            table.push((format!("sys:prctl:47:2:{capability}:0:0"), "EPERM"));
        }
        // All bits of securebits but KEEP_CAPS, which its lock keeps off; and they stay.
        table.push(("securebits:0xef".to_owned(), "ok"));
        table.push(("sys:prctl:28:0:0:0:0".to_owned(), "EPERM"));
        table.push(("sys:prctl:28:0x2f:0:0:0".to_owned(), "EPERM"));
        // PR_SET_KEEPCAPS.
        table.push(("sys:prctl:8:1:0:0:0".to_owned(), "EPERM"));
        let table: Vec<_> = table.iter().map(|(a, answer)| (a.as_str(), *answer)).collect();
        sandbox.holds(&table);
    });
}

#[test]
fn no_identity_can_be_taken_on() {
    each(|world, sandbox| {
        let own = world.mode.uid();
        // In the user namespace of an ordinary user's session no other identity even exists.
        let (other, no) = if own == 0 { (ORDINARY, "EPERM") } else { (0, "EINVAL") };
        let mut table = Vec::new();
        for name in ["setuid", "setgid"] {
            table.push((format!("sys:{name}:{other}"), no));
            table.push((format!("sys:{name}:{own}"), "ok"));
        }
        for name in ["setresuid", "setresgid"] {
            table.push((format!("sys:{name}:{other}:{other}:{other}"), no));
            table.push((format!("sys:{name}:-1:{other}:-1"), no));
            table.push((format!("sys:{name}:{own}:{own}:{own}"), "ok"));
        }
        table.push(("sys:setgroups:1:buf".to_owned(), "EPERM"));
        table.push(("sys:setgroups:0:0".to_owned(), "EPERM"));
        table.push(("write:/proc/self/uid_map".to_owned(), "EROFS"));
        table.push(("write:/proc/self/gid_map".to_owned(), "EROFS"));
        table.push((format!("uid:{own}"), "ok"));
        let table: Vec<_> = table.iter().map(|(a, answer)| (a.as_str(), *answer)).collect();
        sandbox.holds(&table);
        assert_eq!(
            sandbox.ok("stat -c %u probe; touch mine; stat -c %u mine").lines().last(),
            Some(own.to_string().as_str())
        );
    });
}

/// A session of a daemon with supplementary groups, as `docker` or `disk` would be; only root can
/// start one.
fn with_groups(mode: Mode) -> (World, Sandbox) {
    let world = World::new(mode);
    let uid = mode.uid();
    let kept = world.workspace().join("kept");
    for file in [&kept, &world.outside().join("canary")] {
        fs::write(file, "canary\n").unwrap();
        std::os::unix::fs::chown(file, Some(1), Some(4343)).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o640)).unwrap();
    }
    // Started by root, who alone can hand out groups, whoever it is started as.
    let line = format!("exec setpriv --reuid {uid} --regid {uid} --groups {uid},4343 \"$@\"");
    let sandbox = started_by(&world, Mode::System, &line);
    assert_eq!(
        control(&world, Mode::System, &line, &format!("cat {}", kept.display())),
        "canary\n",
        "the control: with the group it is readable"
    );
    (world, sandbox)
}

#[test]
fn the_daemons_groups_are_gone_or_reach_nothing_outside() {
    if !is_root() {
        // Only root hands out groups; what an ordinary user has is what `id` says in and out.
        let world = World::new(Mode::User);
        let groups = control(&world, Mode::User, "\"$@\"", "id -G | wc -w");
        assert_eq!(world.open().ok("id -G | wc -w"), groups);
        return;
    }
    let (world, sandbox) = with_groups(Mode::System);
    sandbox.holds(&[("no_groups", "ok"), ("read:kept", "EACCES")]);
    world.assert_canary_untouched();
    // The kernel does not let an ordinary user give up groups, as a group can take away rights. They
    // stay, and only what the session is shown can be reached by them.
    let (world, sandbox) = with_groups(Mode::User);
    let outside = format!("read:{}", world.canary().display());
    sandbox.holds(&[("no_groups", "EINVAL"), ("read:kept", "ok"), (&outside, "ENOENT")]);
    assert!(sandbox.ok("ls /run /var").lines().all(|line| !line.contains("docker")));
}

#[test]
fn only_the_three_streams_are_open() {
    each(|_, sandbox| {
        let streams = |argv: &[&str]| {
            sandbox.wait(async { sandbox.session.exec(argv.iter().copied()).await }).unwrap().stdout
        };
        // 3 is the directory itself.
        assert_eq!(streams(&["ls", "/proc/self/fd"]), "0\n1\n2\n3\n");
        assert_eq!(streams(&["readlink", "/proc/self/fd/0"]), "/dev/null\n");
        assert!(streams(&["readlink", "/proc/self/fd/1"]).starts_with("pipe:["));
        let given =
            sandbox.done("bash", json!({"command": "readlink /proc/self/fd/0", "stdin": ""}));
        assert!(given.stdout.starts_with("pipe:["), "{}", given.stdout);
        // At its end, both ways.
        assert_eq!(sandbox.ok("wc -c"), "0\n");
        let given = sandbox.done("bash", json!({"command": "wc -c", "stdin": "four"}));
        assert_eq!(given.stdout, "4\n");
    });
}

#[test]
fn nothing_leaks_in_a_storm_of_sessions_and_calls() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        std::thread::scope(|scope| {
            for number in 0..6 {
                let (world, daemon) = (&world, &daemon);
                scope.spawn(move || {
                    for _ in 0..3 {
                        let open = Open::new(world.workspace()).profile(palisade_tests::UNASKED);
                        let sandbox =
                            Sandbox::over(daemon.connect(world.mode), None, open).unwrap();
                        for _ in 0..15 {
                            let call = sandbox.session.exec(["ls", "/proc/self/fd"]);
                            // Some with a pipe for their input, some without.
                            let call = if number % 2 == 0 { call.stdin("x") } else { call };
                            let result = sandbox.wait(async { call.await }).unwrap();
                            assert_eq!(result.stdout, "0\n1\n2\n3\n", "{result:?}");
                        }
                    }
                });
            }
        });
        world.assert_canary_untouched();
    }
}

#[test]
fn a_crash_leaves_no_core() {
    each(|world, sandbox| {
        sandbox.holds(&[("dumpable", "EPERM")]);
        assert_eq!(sandbox.ok("ulimit -Hc; ulimit -Sc"), "0\n0\n");
        let before: Vec<_> = names(&world.workspace());
        let result = sandbox.bash("ulimit -c unlimited 2>/dev/null; kill -SEGV $$");
        assert_eq!((result.signal, result.exit_code), (Some(11), Some(139)));
        let crash = "import os, signal\npid = os.fork()\nif pid == 0: os.abort()\n\
                     _, status = os.waitpid(pid, 0)\n\
                     print(os.WTERMSIG(status), os.WCOREDUMP(status))";
        assert_eq!(sandbox.ok(&format!("python3 -c \"{crash}\"")), "6 False\n");
        assert_eq!(names(&world.workspace()), before);
        sandbox.holds(&[("write:/proc/sys/kernel/core_pattern", "EROFS"), ("write:core", "ok")]);
    });
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn address_randomisation_stays_on() {
    each(|_, sandbox| {
        sandbox.holds(&[
            // ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, MMAP_PAGE_ZERO, PER_LINUX32, all of it.
            ("sys:personality:0x0040000", "EPERM"),
            ("sys:personality:0x0400000", "EPERM"),
            ("sys:personality:0x0100000", "EPERM"),
            ("sys:personality:8", "EPERM"),
            ("sys:personality:0x7fffffff", "EPERM"),
            ("sys:personality:0xffffffff", "ok"),
            ("sys:personality:0", "ok"),
        ]);
        let start = "for i in 1 2 3 4; do cut -d- -f1 /proc/self/maps | tail -3 | head -1; done";
        let mut starts: Vec<_> = sandbox.ok(start).lines().map(str::to_owned).collect();
        starts.sort();
        starts.dedup();
        assert!(starts.len() > 1, "every process had the same addresses: {starts:?}");
    });
}

#[test]
fn the_rooms_can_not_be_read_not_even_by_a_session_of_roots() {
    each(|_, sandbox| {
        let daemon = i32::try_from(sandbox.daemon.as_ref().unwrap().id()).unwrap();
        let rooms: Vec<_> = processes::tree(daemon).iter().map(|p| p.pid).collect();
        assert!(rooms.len() >= 3, "broker, launcher and cell: {rooms:?}");
        let mut table = Vec::new();
        for file in ["environ", "maps", "auxv", "stack", "mem", "smaps", "pagemap", "io"] {
            table.push((format!("read:/proc/1/{file}"), "EACCES"));
            for room in &rooms {
                table.push((format!("read:/proc/{room}/{file}"), "ENOENT"));
            }
            table.push((format!("stat:/proc/self/{file}"), "ok"));
        }
        for link in ["cwd/x", "root/etc/shadow", "exe", "fd/0"] {
            table.push((format!("read:/proc/1/{link}"), "EACCES"));
            table.push((format!("read:/proc/{daemon}/{link}"), "ENOENT"));
        }
        table.push(("read:/proc/self/environ".to_owned(), "ok"));
        table.push(("read:/proc/self/maps".to_owned(), "ok"));
        let table: Vec<_> = table.iter().map(|(a, answer)| (a.as_str(), *answer)).collect();
        sandbox.holds(&table);
        // It answers another number to those without the right to trace.
        let syscall = sandbox.probe("read:/proc/1/syscall read:/proc/1/personality");
        assert!(syscall.iter().all(|line| line.ends_with("=EPERM") || line.ends_with("=EACCES")));
    });
}
