//! Terminals: a program sees one of its own, of the size that was asked for, and nothing of the
//! host's.

use palisade_client::JobStatus;
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Mode, Sandbox, World, processes, profile_with};
use serde_json::json;
use std::time::{Duration, Instant};

fn on_terminal(sandbox: &Sandbox, line: &str) -> CallResult {
    sandbox.call("bash", json!({"command": line, "pty": true, "rows": 50, "cols": 132}))
}

/// Waits until a job has printed something.
fn prints(sandbox: &Sandbox, job: u64, what: &str) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let output = sandbox.done("job_output", json!({"job": job})).output;
        if output.contains(what) {
            return output;
        }
        assert!(Instant::now() < end, "{what:?} is not in {output:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_sees_a_terminal_of_its_own() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let result = on_terminal(
            &sandbox,
            "tty; stty size; echo $TERM; echo err >&2; test -t 0 -a -t 1 -a -t 2",
        );
        assert!(result.success, "{:?} {}", result.error, result.output);
        assert_eq!(result.output, "/dev/pts/0\r\n50 132\r\nxterm-256color\r\nerr\r\n");
        assert_eq!((result.stdout.as_str(), result.stderr.as_str()), (result.output.as_str(), ""));
        // Its usual use: the controlling terminal, by all of its names.
        let names =
            "echo a >/dev/tty; echo b >/dev/stdout; echo c >/dev/stderr; echo d >/dev/pts/0";
        assert_eq!(on_terminal(&sandbox, names).output, "a\r\nb\r\nc\r\nd\r\n");
        let python = "import os,sys; print(os.isatty(0), os.get_terminal_size(), os.ttyname(1), os.tcgetpgrp(0) == os.getpgrp())";
        let argv = json!({"argv": ["python3", "-c", python], "pty": true});
        assert_eq!(
            sandbox.done("bash", argv).output,
            "True os.terminal_size(columns=80, lines=24) /dev/pts/0 True\r\n"
        );
        // Without asking there is none.
        let without = sandbox.bash("tty; test -t 1");
        assert_eq!((without.output.as_str(), without.exit_code), ("not a tty\n", Some(1)));
        // The bytes come as they are, those of the alternate screen too.
        let screen = on_terminal(&sandbox, r"printf '\033[?1049h\033[2J\033[1;1Hhi\033[?1049l'");
        assert_eq!(screen.output, "\u{1b}[?1049h\u{1b}[2J\u{1b}[1;1Hhi\u{1b}[?1049l");
        // Input that was given ends; without any it is at its end.
        let fed = json!({"command": "stty -echo; cat; echo end", "pty": true, "stdin": "text\n"});
        assert!(sandbox.done("bash", fed).output.ends_with("text\r\nend\r\n"));
        assert_eq!(on_terminal(&sandbox, "cat; echo end").output, "end\r\n");
        // All of a flood comes.
        let flood = on_terminal(&sandbox, "for i in $(seq 2000); do echo line $i; done");
        assert!(flood.output.ends_with("line 1999\r\nline 2000\r\n"), "{}", flood.output.len());
        assert_eq!(flood.output.lines().count(), 2000);
    }
}

#[test]
fn a_job_on_a_terminal_is_typed_into_resized_and_interrupted() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        // What a trap starts would be cut off when the time of `read` is over.
        let line = "trap resized=1 WINCH; trap 'echo interrupted; exit 9' INT; stty size; \
                    while :; do read -r -t 0.2 x && echo got $x; \
                    if [ $resized ]; then resized=; echo size $(stty size); fi; done";
        let arguments = json!({"command": line, "background": true, "pty": true, "input": true, "rows": 10, "cols": 20});
        let job = JobStatus::of(&sandbox.done("bash", arguments)).unwrap().job;
        prints(&sandbox, job, "10 20\r\n");
        let _typed = sandbox.done("job_input", json!({"job": job, "data": "word\n"}));
        prints(&sandbox, job, "word\r\ngot word\r\n");
        let _resized = sandbox.done("job_input", json!({"job": job, "rows": 33, "cols": 44}));
        prints(&sandbox, job, "size 33 44\r\n");
        let _interrupt = sandbox.done("job_input", json!({"job": job, "data": "\u{3}"}));
        prints(&sandbox, job, "interrupted\r\n");
        let end = sandbox.done("job_output", json!({"job": job, "wait_ms": 20_000, "cursor": 0}));
        drop(end);
        let killed = sandbox.done("job_kill", json!({"job": job}));
        assert_eq!(JobStatus::of(&killed).unwrap().exit_code, Some(9));
        let (code, _) = sandbox.refused("job_input", json!({"job": job, "rows": 5, "cols": 5}));
        assert_eq!(code, ErrorCode::NotFound);
        // Two terminals at once are two, and each call has the first of its own.
        let ttys: Vec<String> = (0..2)
            .map(|_| {
                let arguments =
                    json!({"command": "tty; sleep 1000", "background": true, "pty": true});
                let job = JobStatus::of(&sandbox.done("bash", arguments)).unwrap().job;
                prints(&sandbox, job, "\r\n")
            })
            .collect();
        assert_eq!(ttys, ["/dev/pts/0\r\n", "/dev/pts/0\r\n"]);
    }
}

/// Tries to write to every terminal that a call can see, and to make one more visible.
const INTO_TERMINALS: &str = "for t in /dev/pts/[0-9]*; do echo INJECTED > $t; done; \
                              for p in /proc/[0-9]*/fd/*; do [ -t 1 ] && continue; [ -c $p ] && \
                              case $(readlink $p) in /dev/pts/*) echo INJECTED > $p;; esac; done; \
                              ls /dev/pts";

#[test]
fn no_call_reaches_the_terminal_of_another() {
    for mode in Mode::all() {
        let world = World::new(mode);
        // A transaction's runner too, and a shell that was started ahead of its call.
        world.add_unasked(
            "guarded-write",
            &profile_with(&[("guard = \"auto\"", "guard = \"transaction\"")]),
        );
        for profile in ["workspace", "guarded-write"] {
            let sandbox = world.open_with(profile);
            // Raw, so that what comes in comes out once, by the job itself.
            let line = "stty raw -echo; echo begun; cat";
            let arguments =
                json!({"command": line, "background": true, "pty": true, "input": true});
            let job = JobStatus::of(&sandbox.done("bash", arguments)).unwrap().job;
            let _begun = prints(&sandbox, job, "begun");
            for round in 0..3 {
                let plain = sandbox.bash(INTO_TERMINALS);
                assert_eq!(plain.stdout, "ptmx\n", "{mode:?} {profile} {round}: {}", plain.stderr);
                // With a terminal of its own a call sees that one, and reaches it.
                let own = on_terminal(&sandbox, &format!("tty; {INTO_TERMINALS}"));
                let expected = "/dev/pts/0\r\nINJECTED\r\n0  ptmx\r\n";
                assert_eq!(own.output, expected, "{mode:?} {profile} {round}");
                let written = sandbox.bash(
                    "echo changed > file; for t in /dev/pts/[0-9]*; do echo INJECTED > $t; done",
                );
                assert!(!written.output.contains("INJECTED"), "{}", written.output);
            }
            // `script` makes a terminal in the call's own file system.
            let script = "python3 -c 'import pty; pty.spawn([\"tty\"])'";
            assert_eq!(sandbox.ok(script).trim_end(), "/dev/pts/0", "{mode:?} {profile}");
            // The control: what the job's own client types arrives, and nothing came before it.
            let _typed = sandbox.done("job_input", json!({"job": job, "data": "typed\n"}));
            let _typed = prints(&sandbox, job, "typed\n");
            let all = sandbox.done("job_output", json!({"job": job, "cursor": 0})).output;
            assert_eq!(all, "begun\ntyped\n", "{mode:?} {profile}");
            let _killed = sandbox.done("job_kill", json!({"job": job}));
        }
    }
}

#[test]
fn bad_sizes_are_refused() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        for (arguments, begins) in [
            (json!({"command": "a", "rows": 5}), "`rows`: there is no terminal"),
            (json!({"command": "a", "cols": 5}), "`cols`: there is no terminal"),
            (json!({"command": "a", "pty": true, "rows": 0}), "`rows`: 0 is not from 1 to 4096"),
            (
                json!({"command": "a", "pty": true, "cols": 4097}),
                "`cols`: 4097 is not from 1 to 4096",
            ),
            (json!({"command": "a", "pty": true, "cols": 70_000}), "`cols`"),
        ] {
            let (code, message) = sandbox.refused("bash", arguments.clone());
            assert_eq!(code, ErrorCode::InvalidArguments, "{arguments}");
            assert!(message.starts_with(begins), "{arguments}: {message}");
        }
    }
}

#[test]
fn the_end_of_a_call_on_a_terminal_leaves_no_process() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let mark = processes::mark();
        let line = format!(
            "export m={mark}; (trap '' HUP TERM; exec -a $m-deaf sleep 1000) & \
             setsid -f bash -c 'exec -a $m-session sleep 1000' </dev/null; \
             until [ $(cat /proc/[0-9]*/comm 2>/dev/null | grep -cx sleep) = 2 ]; do :; done; echo over"
        );
        let result = on_terminal(&sandbox, &line);
        assert!(result.success && result.pipe_held, "{:?}", result.error);
        assert_eq!(result.output, "over\r\n");
        assert_eq!(processes::marked(&mark), []);
    }
}

/// Typing into a terminal that others read (TIOCSTI), pasting on a console (TIOCLINUX), taking a
/// terminal from another session: refused on a terminal of one's own too.
#[test]
fn what_reaches_through_a_terminal_is_refused() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        let python = "import fcntl,errno\n\
            def t(n,r,a):\n\
            \x20try: fcntl.ioctl(0,r,a); print(n,'done')\n\
            \x20except OSError as e: print(n,errno.errorcode[e.errno])\n\
            t('TIOCSTI',0x5412,b'x'); t('TIOCLINUX',0x541c,b'\\x02'); t('TIOCSETD',0x5423,b'\\0\\0\\0\\0')\n\
            t('TIOCCONS',0x541d,0); t('TIOCSCTTY',0x540e,1); t('TIOCGWINSZ',0x5413,b'\\0'*8)";
        let argv = json!({"argv": ["python3", "-c", python], "pty": true});
        assert_eq!(
            sandbox.done("bash", argv).output,
            "TIOCSTI EPERM\r\nTIOCLINUX EPERM\r\nTIOCSETD EPERM\r\nTIOCCONS EPERM\r\nTIOCSCTTY EPERM\r\nTIOCGWINSZ done\r\n"
        );
        // Of the host's terminals there is none, and the cell's own are its own.
        assert_eq!(on_terminal(&sandbox, "ls /dev/pts").output, "0  ptmx\r\n");
        assert_eq!(
            on_terminal(&sandbox, "ls /dev/console /dev/tty0 /dev/vcs 2>&1 | wc -l").output,
            "3\r\n"
        );
        let other = world.open();
        assert_eq!(on_terminal(&other, "tty; ls /dev/pts").output, "/dev/pts/0\r\n0  ptmx\r\n");
    }
}
