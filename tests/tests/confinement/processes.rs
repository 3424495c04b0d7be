//! When a call ends, however it ends, every process that it started is gone, seen from the host.

use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Mode, Sandbox, World, effort, processes, rooms::until};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// A small profile: few processes, little patience.
const PROFILE: &str = r#"
version = 1
description = "for tests of how calls end"
[fs]
workspace = "write"
execute = ["!/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
etc = ["passwd", "group", "ld.so.cache"]
[env]
path = ["/usr/bin", "/bin"]
[limits]
processes = 64
kill_grace_ms = 300
[layers]
optional = ["limits"]
"#;

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Exit,
    Timeout,
    Cancel,
}

/// Waits until the host sees a process of each name, or, of no name, a crowd; false if too late.
/// A line has its mark in a variable, so that no name is in the arguments of the shell itself.
fn all_seen(mark: &str, ends: &[&str], patience: Duration) -> bool {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        let marked = processes::marked(mark);
        let is_there = |end: &&str| {
            let name = format!("{mark}-{end}");
            marked.iter().any(|process| process.command.contains(&name))
        };
        if ends.iter().all(is_there) && (!ends.is_empty() || marked.len() > 20) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Runs a line that makes marked processes and then waits for a file named `go`; sees them from
/// the host; ends the call; sees from the host that nothing marked is left.
fn end(world: &World, sandbox: &Sandbox, line: &str, ends: &[&str], ending: Ending) -> CallResult {
    let go = world.workspace().join("go");
    // A deadline that a busy host does not meet before it shows the processes is tried again.
    for seconds in if ending == Ending::Timeout { [1, 4, 12, 60] } else { [60; 4] } {
        fs::remove_file(&go).unwrap_or_default();
        let (mark, timeout) = (processes::mark(), Duration::from_secs(seconds));
        let call = sandbox.session.bash(format!("export m={mark}\n{line}")).timeout(timeout);
        let running = sandbox.wait(call.start()).unwrap();
        let seen = all_seen(&mark, ends, timeout);
        match ending {
            Ending::Exit => fs::write(&go, "").unwrap(),
            Ending::Timeout => {}
            Ending::Cancel => sandbox.wait(running.cancel()).unwrap(),
        }
        let result = sandbox.wait(running.result()).unwrap();
        let left = processes::marked(&mark);
        assert!(left.is_empty(), "{:?}, {ending:?}: {left:?}", world.mode);
        if seen {
            return result;
        }
    }
    panic!("{:?}, {ending:?}: the host never saw all of {ends:?}: {line}", world.mode);
}

fn assert_ended(result: &CallResult, ending: Ending) {
    let code = result.error.as_ref().map(|error| error.code);
    let (expected, timed_out, cancelled) = match ending {
        Ending::Exit => (None, false, false),
        Ending::Timeout => (Some(ErrorCode::TimedOut), true, false),
        Ending::Cancel => (Some(ErrorCode::Cancelled), false, true),
    };
    assert_eq!(
        (code, result.timed_out, result.cancelled),
        (expected, timed_out, cancelled),
        "{ending:?}: {:?}",
        result.error
    );
}

/// Each in the background, each with its name.
const ZOO: [&str; 7] = [
    "(exec -a $m-child sleep 1000) &",
    "( ( (exec -a $m-orphan sleep 1000) & ) & )",
    "setsid -f bash -c \"exec -a $m-session sleep 1000\"",
    "(setsid bash -c '(cd /; exec -a $m-daemon sleep 1000) </dev/null >/dev/null 2>&1 &') &",
    "(trap '' TERM HUP INT QUIT USR1; exec -a $m-ignores sleep 1000) &",
    "./probe deaf:$m-deaf &",
    "(exec -a $m-stopped sleep 1000) & until grep -q sleep /proc/$!/comm; do :; done; kill -STOP $!",
];

fn zoo() -> String {
    // Once looked for, a name stays absent in a transaction: the directory is read instead.
    format!("{}\nuntil ls | grep -qx go; do sleep 0.05; done\necho over", ZOO.join("\n"))
}

fn open(mode: Mode) -> (World, Sandbox) {
    let world = World::new(mode);
    world.add_unasked("small", PROFILE);
    let sandbox = world.open_with("small");
    (world, sandbox)
}

#[test]
fn nothing_outlives_its_call() {
    let ends = ["child", "orphan", "session", "daemon", "ignores", "deaf", "stopped"];
    for mode in Mode::all() {
        let (world, sandbox) = open(mode);
        for ending in [Ending::Exit, Ending::Timeout, Ending::Cancel] {
            let result = end(&world, &sandbox, &zoo(), &ends, ending);
            assert_ended(&result, ending);
            if ending == Ending::Exit {
                assert_eq!((result.exit_code, result.stdout.as_str()), (Some(0), "over\n"));
                assert!(result.pipe_held, "{mode:?}: some of them held its output");
            }
            assert_eq!(sandbox.ok("echo still here"), "still here\n", "{mode:?}, {ending:?}");
        }
    }
}

#[test]
fn a_program_that_hears_nothing_is_killed() {
    for mode in Mode::all() {
        let (world, sandbox) = open(mode);
        for ending in [Ending::Timeout, Ending::Cancel] {
            // The program of the call itself, not one beside it.
            for line in [
                "trap '' TERM HUP INT; exec -a $m-it sleep 1000",
                "(until grep -q '^State:.T' /proc/$$/status; do :; done; exec -a $m-it sleep 1000) &
                 kill -STOP $$",
                "trap '' TERM; setsid -w bash -c 'exec -a $m-it sleep 1000'; sleep 1000",
            ] {
                let result = end(&world, &sandbox, line, &["it"], ending);
                assert_ended(&result, ending);
                assert_eq!(
                    (result.signal, result.exit_code),
                    (Some(9), Some(137)),
                    "{mode:?}, {ending:?}: {line}"
                );
            }
        }
    }
}

#[test]
fn a_program_that_is_asked_to_end_may_clean_up() {
    for mode in Mode::all() {
        // With the usual patience.
        let world = World::new(mode);
        let sandbox = world.open();
        let line = "trap 'echo asked; exit 7' TERM; exec 9< <(exec -a $m-it sleep 1000)
            while :; do sleep 0.05; done";
        for ending in [Ending::Timeout, Ending::Cancel] {
            let result = end(&world, &sandbox, line, &["it"], ending);
            assert_ended(&result, ending);
            assert_eq!((result.exit_code, result.signal), (Some(7), None), "{mode:?}, {ending:?}");
            assert_eq!(result.stdout, "asked\n", "{mode:?}, {ending:?}");
        }
    }
}

#[test]
fn processes_that_fork_while_they_are_killed_are_gone_too() {
    for mode in Mode::all() {
        let (world, sandbox) = open(mode);
        for ending in [Ending::Exit, Ending::Timeout, Ending::Cancel] {
            // Always somebody else; always more; always somebody else, elsewhere.
            for (line, ends) in [
                ("./probe chain:$m-it & ./probe chain:$m-too & ", ["it", "too"].as_slice()),
                ("b() { b | b & }; (b) 2>/dev/null & ", &[]),
                ("setsid -f ./probe chain:$m-it; trap '' TERM; ", &["it"]),
            ] {
                // In the shell itself: where no process has room, `sleep` has none either.
                let line = format!("{line}until set -- *; [[ \"$*\" == *go* ]]; do :; done");
                let result = end(&world, &sandbox, &line, ends, ending);
                assert_ended(&result, ending);
                assert_eq!(sandbox.ok("echo alive"), "alive\n", "{mode:?}, {ending:?}");
            }
        }
    }
}

/// Real-time signals have no names, and a library may know none of them.
#[test]
fn real_time_signals_end_processes_as_other_signals_do() {
    for mode in Mode::all() {
        let (world, sandbox) = open(mode);
        for number in [32, 34, 64] {
            let result = sandbox.bash(&format!("kill -{number} $$"));
            let code = result.error.as_ref().map(|error| error.code);
            assert_eq!(
                (result.signal, result.exit_code, code),
                (Some(number), Some(128 + number), Some(ErrorCode::CommandFailed)),
                "{mode:?}: {:?}",
                result.error
            );
        }
        // A child of the program, and one that only the runner can reap.
        let line =
            "bash -c 'kill -40 $$'; echo $?; (bash -c 'kill -41 $$' & ) ; sleep 0.2; echo on";
        assert_eq!(sandbox.bash(line).stdout, "168\non\n", "{mode:?}");
        // Those that the program left unreaped stand before those that still run.
        let line = "for _ in {1..8}; do
              (until read -r name </proc/$$/comm; [[ $name == sleep ]]; do :; done
               kill -34 $BASHPID) &
            done
            (exec -a $m-it sleep 1000) &
            until ls | grep -qx go; do sleep 0.05; done
            exec sleep 1";
        let result = end(&world, &sandbox, line, &["it"], Ending::Exit);
        assert_ended(&result, Ending::Exit);
        assert_eq!(sandbox.ok("echo alive"), "alive\n", "{mode:?}");
    }
}

#[test]
fn a_child_that_holds_the_pipe_does_not_delay_the_result() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        let mark = processes::mark();
        // Had it been waited for, the call would have timed out.
        let line = format!("(exec -a {mark} sleep 1000) & echo done");
        let result = sandbox.bash(&line);
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!((result.stdout.as_str(), result.exit_code), ("done\n", Some(0)));
        assert!(result.pipe_held, "{mode:?}");
        assert!(!result.timed_out, "{mode:?}");
        assert!(processes::marked(&mark).is_empty(), "{mode:?}");
        // And with nobody holding it, nobody is said to.
        let result = sandbox.bash("echo done; sleep 0.01 & wait");
        assert!(result.success && !result.pipe_held, "{mode:?}: {:?}", result.error);
    }
}

#[test]
fn what_is_written_before_the_end_is_not_lost_with_the_pipe_held() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        for _ in 0..20 {
            let result = sandbox
                .bash("sleep 1000 & head -c 60000 /dev/zero | tr '\\0' x; echo; echo last >&2");
            assert_eq!(result.stdout.len(), 60_001, "{mode:?}");
            assert_eq!((result.stderr.as_str(), result.pipe_held), ("last\n", true), "{mode:?}");
        }
    }
}

/// Zombies below a process, as the host sees them.
fn zombies_below(root: i32) -> usize {
    let below: Vec<i32> = processes::tree(root).iter().map(|process| process.pid).collect();
    let is_zombie = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        (state == "Z" && below.contains(&parent)).then_some(())
    };
    fs::read_dir(Path::new("/proc")).unwrap().flatten().filter_map(is_zombie).count()
}

#[test]
fn thousands_of_orphans_are_collected() {
    let attempt = format!("orphans:{}", effort(2_000, 10_000));
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        // With room for 64: those that are not collected would soon leave none.
        assert_eq!(sandbox.probe(&attempt), [format!("{attempt}=ok")], "{mode:?}");
        let daemon = sandbox.daemon.as_ref().unwrap().id();
        // The transaction's own processes end just after its result.
        until("all are collected", || zombies_below(i32::try_from(daemon).unwrap()) == 0);
        // The first of the namespace, bash, and the three of the pipe.
        let listed = sandbox.ok("ls /proc | grep -c '^[0-9]'");
        assert!(listed.trim().parse::<u32>().unwrap() <= 5, "{mode:?}: {listed}");
    }
}

#[test]
fn the_end_of_a_session_is_the_end_of_its_calls() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let (mark, ends) = (processes::mark(), ["child", "orphan", "session", "deaf", "stopped"]);
        let open =
            || palisade_client::Open::new(world.workspace()).profile(palisade_tests::UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        let call = sandbox.session.bash(format!("export m={mark}\n{}", zoo()));
        let running = sandbox.wait(call.timeout(Duration::from_secs(300)).start()).unwrap();
        assert!(all_seen(&mark, &ends, Duration::from_secs(60)), "{mode:?}");
        // The client goes without a word.
        drop(running);
        sandbox.wait(sandbox.client.shutdown()).unwrap();
        let gone = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            processes::marked(&mark).is_empty()
        });
        assert!(gone, "{mode:?}: {:?}", processes::marked(&mark));
        let next = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        assert_eq!(next.ok("echo next"), "next\n", "{mode:?}");
    }
}
