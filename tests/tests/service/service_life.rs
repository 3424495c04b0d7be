//! The life of the service in a systemd booted for the test: that tools lose nothing to the units,
//! that a room that hangs is noticed, and how it reloads, stops and starts again. That takes root;
//! an ordinary user's daemon is held to the same in `reload.rs`.

use palisade_tests::{
    Booted, Mode, UNITS, profile_with,
    rooms::{awaited, until},
    text,
};
use std::{
    process::{Child, Stdio},
    time::Duration,
};

const BROKER: &str = "palisaded.service";
const LAUNCHER: &str = "palisade-launcher.service";

/// A systemd with the service; none for an ordinary user, who sees that the units ask for what the
/// test is about.
fn booted(wanted: &[(&str, &str)]) -> Option<Booted> {
    for (unit, line) in wanted {
        let unit = UNITS.iter().find(|(name, _)| name == unit).unwrap().1;
        assert!(unit.lines().any(|found| found == *line), "{line}");
    }
    Mode::all().contains(&Mode::System).then(Booted::with_service)
}

/// A line of alice's through the service, begun and not waited for.
fn begin(booted: &Booted, line: &str) -> Child {
    let run = format!("exec palisade run --socket /run/palisade/agent.sock -- {line}");
    booted
        .line_of("alice", &run)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nsenter")
}

fn property(booted: &Booted, unit: &str, name: &str) -> String {
    booted.ok(&["systemctl", "show", &format!("--property={name}"), "--value", unit])
}

/// Returns the answers that a tool gets, and what it sees.
fn surroundings() -> String {
    let mut attempts = vec![
        // The calls that the launcher's unit refuses, and those that it has to leave.
        "sys:personality:0",
        "sys:personality:0xffffffff",
        "sys:personality:0x40000",
        "sys:clock_settime:0:buf",
        "sys:adjtimex:buf",
        "sys:ustat:1:buf",
        "sys:sysfs:3",
        "sys:iopl:3",
        "sys:swapoff:@/x",
        "sys:init_module:buf:0:@",
        "sys:reboot:0:0:0:0",
        "sys:syslog:3:buf:1",
        "sys:sethostname:@x:1",
        "sys:sched_setscheduler:0:0:buf",
        "sys:setpriority:0:0:5",
        "sys:openat2:-100:@.:buf:24",
        "sys:mknod:@device:0x2180:0x103",
        "sys:mkdir:@made:0x1ed",
        "sys:chmod:@made:0x9ed",
        "sys:chmod:@made:0x1c0",
        "trace_child",
        "own_filter",
        "vdso",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    let flags = [0x0002_0000_u64, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000];
    attempts
        .extend(flags.iter().chain(&[0x4000_0000]).map(|flag| format!("sys:unshare:{flag:#x}")));
    for kind in [1, 2, 3, 5] {
        attempts.extend((0..46).map(|family| format!("sys:socket:{family}:{kind}:0")));
    }
    let quoted: Vec<_> = attempts.iter().map(|attempt| format!("\"{attempt}\"")).collect();
    format!(
        "'rm -rf made device; ./probe {}; umask; ulimit -c -f -n -s; ls /dev; \
         chrt --fifo 1 true; for d in null zero full random urandom; do head -c 1 /dev/$d >/dev/null && echo $d; done; \
         python3 -c \"import socket; s = socket.create_server((\\\"127.0.0.1\\\", 0)); \
         c = socket.create_connection(s.getsockname()); print(c.send(b\\\"x\\\")); \
         import mmap; print(len(mmap.mmap(-1, 4096, prot=7)))\"; \
         grep -E \"NoNewPrivs|Seccomp:|Cap\" /proc/self/status; ls /proc | grep -v \"^[0-9]\"'",
        quoted.join(" ")
    )
}

/// A tool below the units is answered and sees what it would below a daemon that bob starts for
/// himself, with no unit above it.
#[test]
fn tools_lose_nothing_to_the_launchers_unit() {
    let Some(booted) = booted(&[(LAUNCHER, "NoNewPrivileges=yes")]) else { return };
    for user in ["alice", "bob"] {
        let to = format!("/home/{user}/work/probe");
        booted.ok(&["install", "-o", user, "/src/target/release/probe", &to]);
    }
    // A program of the workspace would be asked about.
    let profile = profile_with(&[("ask = \"destructive\"", "ask = \"never\"")]);
    for directory in ["/etc/palisade/profiles", "/home/bob/.config/palisade/profiles"] {
        let write =
            format!("mkdir -p {directory}; cat >{directory}/unasked.toml <<'E'\n{profile}\nE");
        booted.ok(&["bash", "-euc", &write]);
    }
    booted.ok(&["chown", "-R", "bob:", "/home/bob/.config"]);
    let line = surroundings();
    let run = |user: &str, how: &str| {
        let line = format!("palisade run {how} --profile unasked -- {line}");
        let output = booted.line_of(user, &line).stdin(Stdio::null()).output().expect("nsenter");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let served = run("alice", "--socket /run/palisade/agent.sock");
    let private = run("bob", "");
    for expected in [
        "sys:personality:0xffffffff=ok",
        "sys:socket:1:1:0=ok",
        "sys:socket:2:1:0=ok",
        "sys:socket:17:3:0=EPERM",
        "sys:unshare:0x10000000=EPERM",
        "sys:chmod:@made:0x9ed=EPERM",
        "trace_child=ok",
        "sys:ustat:1:buf=ok",
        "4096",
    ] {
        assert!(private.lines().any(|line| line == expected), "{expected}\n{private}");
    }
    assert!(!private.contains("errno-9999"), "an attempt that the probe does not know: {private}");
    assert_eq!(served, private);

    // But for what the unit says that it takes, and how to have it given back.
    booted.ok(&[
        "bash",
        "-euc",
        "mkdir -p /usr/lib/modules/6.1; echo here >/usr/lib/modules/6.1/file",
    ]);
    let look = |user: &str, how: &str| {
        let line = format!("palisade run {how} -- 'cat /usr/lib/modules/6.1/file 2>&1'");
        text(&booted.line_of(user, &line).stdin(Stdio::null()).output().expect("nsenter").stdout)
    };
    let served = || {
        booted.ok(&["systemctl", "restart", LAUNCHER, BROKER]);
        look("alice", "--socket /run/palisade/agent.sock")
    };
    assert_eq!(look("bob", ""), "here\n");
    assert_eq!(served(), "cat: /usr/lib/modules/6.1/file: Permission denied\n");
    let write = format!(
        "mkdir -p /etc/systemd/system/{LAUNCHER}.d; printf '[Service]\\nProtectKernelModules=no\\n' \
         >/etc/systemd/system/{LAUNCHER}.d/modules.conf; systemctl daemon-reload"
    );
    booted.ok(&["bash", "-euc", &write]);
    assert_eq!(served(), "here\n");
}

/// Makes the watchdog of both services quick.
fn impatient(booted: &Booted) {
    for unit in [BROKER, LAUNCHER] {
        let directory = format!("/etc/systemd/system/{unit}.d");
        let write = format!(
            "mkdir -p {directory}; printf '[Service]\\nWatchdogSec=5s\\n' >{directory}/quick.conf"
        );
        booted.ok(&["bash", "-euc", &write]);
    }
    booted.ok(&["systemctl", "daemon-reload"]);
}

#[test]
fn a_room_that_hangs_is_ended_and_started_again() {
    let wanted = [(BROKER, "WatchdogSec=30s"), (LAUNCHER, "WatchdogSec=30s")];
    let Some(booted) = booted(&wanted) else { return };
    impatient(&booted);
    assert_eq!(booted.served("-- echo first"), "first\n");
    let restarts = |unit| property(&booted, unit, "NRestarts").parse::<u32>().expect("a number");
    // A live room is left alone for longer than the watchdog waits.
    let (broker, launcher) = (booted.main_pid(BROKER), booted.main_pid(LAUNCHER));
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!((booted.main_pid(BROKER), booted.main_pid(LAUNCHER)), (broker, launcher));
    assert_eq!((restarts(BROKER), restarts(LAUNCHER)), (0, 0));

    let stop = |pid: u32| drop(booted.ok(&["kill", "-STOP", &pid.to_string()]));
    stop(broker.unwrap());
    until("another broker", || restarts(BROKER) == 1);
    assert_eq!(booted.served("-- echo second"), "second\n");
    // The launcher that serves; the outer one, whom systemd knows, is well.
    let outer = booted.main_pid(LAUNCHER).expect("a launcher").to_string();
    stop(booted.ok(&["pgrep", "--parent", &outer]).parse().expect("one child"));
    until("another launcher", || restarts(LAUNCHER) == 1);
    assert_eq!(booted.served("-- echo third"), "third\n");
}

#[test]
fn the_service_is_reloaded_whole_or_not_at_all() {
    let Some(booted) = booted(&[(BROKER, "ExecReload=/bin/kill -HUP $MAINPID")]) else { return };
    let write = |text: &str| {
        let write =
            format!("mkdir -p /etc/palisade; printf '{text}' >/etc/palisade/palisaded.toml");
        booted.ok(&["bash", "-euc", &write]);
    };
    assert_eq!(booted.served("-- echo first"), "first\n");
    let broker = booted.main_pid(BROKER);
    let status = || property(&booted, BROKER, "StatusText");
    until("a status line", || status().contains("approval requests waiting "));
    write("log = \\\"debug\\\"\\n");
    until("it is ready", || property(&booted, BROKER, "ActiveState") == "active");
    booted.ok(&["systemctl", "reload", BROKER]);
    let journal = || booted.ok(&["journalctl", "--no-pager", "-u", BROKER]);
    until("it is reloaded", || journal().contains("profiles were reloaded"));

    write("log = \\\"debug\\\"\\nsokcet = 1\\n");
    let refused = booted.run(&["systemctl", "reload", BROKER]);
    assert_ne!(refused.status.code(), Some(0), "{refused:?}");
    let why = "/etc/palisade/palisaded.toml:2:1: sokcet: unknown key; did you mean `socket`?";
    until("the journal says why", || journal().contains(why));
    // The signal without the check says it, too, and goes on as before.
    booted.ok(&["systemctl", "kill", "--signal=HUP", "--kill-who=main", BROKER]);
    until("the status says why", || status().contains(why));
    assert_eq!(booted.served("-- echo second"), "second\n");
    assert_eq!(booted.main_pid(BROKER), broker, "the same broker");
    assert_eq!(property(&booted, BROKER, "ActiveState"), "active");
    // Such a file does not start one either, and is not tried again and again.
    assert_ne!(booted.run(&["systemctl", "restart", BROKER]).status.code(), Some(0));
    assert_eq!(property(&booted, BROKER, "ExecMainStatus"), "78");
    write("log = \\\"info\\\"\\n");
    booted.ok(&["systemctl", "restart", BROKER]);
    assert_eq!(booted.served("-- echo third"), "third\n");
}

#[test]
fn a_stop_lets_calls_end_and_loses_no_client() {
    let Some(booted) = booted(&[(BROKER, "TimeoutStopSec=45s")]) else { return };
    let running = |booted: &Booted, mark: &str| {
        awaited("it runs", || {
            booted.run(&["pgrep", "-f", &format!("^sleep {mark}$")]).status.success().then_some(())
        });
    };
    assert_eq!(booted.served("-- echo first"), "first\n");
    let call = begin(&booted, "'sleep 4.25; echo whole'");
    running(&booted, "4.25");
    booted.ok(&["systemctl", "restart", "--no-block", BROKER]);
    // One that comes meanwhile waits for the next broker.
    let waiting = begin(&booted, "'echo served'");
    let call = call.wait_with_output().expect("wait");
    assert_eq!(text(&call.stdout), "whole\n", "{}", text(&call.stderr));
    assert_eq!(call.status.code(), Some(0));
    let waiting = waiting.wait_with_output().expect("wait");
    assert_eq!(text(&waiting.stdout), "served\n", "{}", text(&waiting.stderr));

    // A call that takes longer than it may is ended.
    let write = "mkdir -p /etc/palisade; echo 'drain_ms = 500' >/etc/palisade/palisaded.toml";
    booted.ok(&["bash", "-euc", write]);
    // It serves before it is done with starting, which systemd takes a reload to be part of.
    until("it is ready", || property(&booted, BROKER, "ActiveState") == "active");
    booted.ok(&["systemctl", "reload", BROKER]);
    let journal = || booted.ok(&["journalctl", "--no-pager", "-u", BROKER]);
    until("it is reloaded", || journal().contains("profiles were reloaded"));
    let call = begin(&booted, "'sleep 612.5; echo whole'");
    running(&booted, "612.5");
    booted.ok(&["systemctl", "stop", BROKER]);
    let call = call.wait_with_output().expect("wait");
    assert_ne!(call.status.code(), Some(0));
    assert_eq!(text(&call.stdout), "");
    assert_eq!(booted.run(&["pgrep", "-f", "^sleep 612.5$"]).status.code(), Some(1));
    assert!(
        journal().contains("calls were still under way 500 ms after the stop"),
        "{}",
        journal()
    );
    // The sockets are systemd's: the next client starts another broker.
    assert_eq!(booted.served("-- echo again"), "again\n");
}

/// A role by unit: the same user is let in by the one, and not by a shell.
#[test]
fn a_role_goes_by_the_unit_of_the_process_that_connects() {
    let Some(booted) = booted(&[(BROKER, "ProcSubset=pid")]) else { return };
    let write = "mkdir -p /etc/palisade; \
        printf '[roles]\\nconnect = [\"unit:agent.service\"]\\n' >/etc/palisade/palisaded.toml";
    booted.ok(&["bash", "-euc", write]);
    let run = "cd ~/work && palisade run --socket /run/palisade/agent.sock -- id -u";
    let in_unit = |unit: &str| {
        let unit = format!("--unit={unit}");
        let groups = "--property=SupplementaryGroups=palisade-users";
        let argv = ["systemd-run", &unit, "--uid=alice", "--gid=alice", groups, "--wait", "--pipe"];
        booted.run(&[&argv[..], &["--quiet", "bash", "-c", run]].concat())
    };
    let agent = in_unit("agent.service");
    assert_eq!(text(&agent.stdout), "4343\n", "{}", text(&agent.stderr));
    let other = in_unit("other.service");
    assert_eq!((text(&other.stdout).as_str(), other.status.code()), ("", Some(125)));
    let expected = "(uid 4343, gid 4343, unit other.service) may not connect as an agent";
    assert!(text(&other.stderr).contains(expected), "{}", text(&other.stderr));
    let shell = booted.through("alice", "-- id -u");
    assert_eq!((text(&shell.stdout).as_str(), shell.status.code()), ("", Some(125)));
}

/// The metrics socket is there for who enables it, and a loopback address for who wants that.
#[test]
fn the_service_is_scraped_where_its_socket_says() {
    let wanted = [("palisade-metrics.socket", "FileDescriptorName=metrics")];
    let Some(booted) = booted(&wanted) else { return };
    assert_eq!(booted.served("-- echo first"), "first\n");
    assert_ne!(booted.run(&["test", "-e", "/run/palisade/metrics.sock"]).status.code(), Some(0));
    booted.ok(&["systemctl", "stop", BROKER]);
    let scrape = |connect: &str| {
        let get = format!(
            "import socket; s = {connect}; s.sendall(b'GET /metrics HTTP/1.1\\r\\n\\r\\n'); \
             print(s.makefile().read())"
        );
        booted.ok(&["python3", "-c", &get])
    };
    booted.ok(&["systemctl", "start", "palisade-metrics.socket"]);
    let mode = booted.ok(&["stat", "-c", "%a %U %G", "/run/palisade/metrics.sock"]);
    assert_eq!(mode, "660 root palisade-operators");
    assert_eq!(booted.served("-- echo second"), "second\n");
    let unix = "socket.socket(socket.AF_UNIX); s.connect('/run/palisade/metrics.sock')";
    let line = "palisade_calls_total{tool=\"bash\",outcome=\"ok\"} 1";
    assert!(scrape(unix).lines().any(|found| found == line), "{}", scrape(unix));
    booted.ok(&["systemctl", "stop", BROKER, "palisade-metrics.socket"]);
    let directory = "/etc/systemd/system/palisade-metrics.socket.d";
    let write = format!(
        "mkdir -p {directory}; printf '[Socket]\\nListenStream=\\nListenStream=127.0.0.1:9464\\n' \
         >{directory}/tcp.conf; ip link set lo up || true; systemctl daemon-reload"
    );
    booted.ok(&["bash", "-euc", &write]);
    booted.ok(&["systemctl", "start", "palisade-metrics.socket"]);
    assert_eq!(booted.served("-- echo third"), "third\n");
    let tcp = scrape("socket.create_connection(('127.0.0.1', 9464))");
    assert!(tcp.lines().any(|found| found == line), "{tcp}");
}
