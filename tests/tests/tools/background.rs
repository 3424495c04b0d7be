//! `palisade run --background`: a job that goes on when its command has returned, what is committed at its
//! end, and how it is ended.

use palisade_tests::{Daemon, Mode, UNASKED, World, rooms::until};
use serde_json::Value;
use std::{fs, path::PathBuf, process::Command};

/// Returns a command of the client that uses this daemon.
fn palisade(world: &World, daemon: &Daemon, words: &[&str]) -> Command {
    let mut command = world.command("palisade");
    command.args(words).env("PALISADE_SOCKET", &daemon.socket);
    command
}

/// Runs a command of the client; returns its status, output and errors.
fn finish(world: &World, command: &mut Command) -> (Option<i32>, String, String) {
    let output = world.mode.act(|| command.output().unwrap());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Starts a line in the background; returns what it printed, as JSON.
fn start(world: &World, daemon: &Daemon, line: &str) -> Value {
    let words = ["run", "--background", "--json", "--profile", UNASKED, "--", line];
    let (status, output, errors) = finish(world, &mut palisade(world, daemon, &words));
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{output}");
    serde_json::from_str(&output).unwrap()
}

/// Waits until a process has ended. A zombie has.
fn gone(pid: &Value) {
    let stat = PathBuf::from(format!("/proc/{pid}/stat"));
    until("the process has ended", || {
        fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn a_job_goes_on_when_its_command_has_returned_and_is_committed_at_its_end() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let told = start(&world, &daemon, "echo one; sleep 0.5; echo done > made.txt; echo two");
        assert_eq!((&told["success"], &told["job"]), (&Value::Bool(true), &Value::from(1)));
        gone(&told["pid"]);
        assert_eq!(fs::read_to_string(world.workspace().join("made.txt")).unwrap(), "done\n");
        let call = told["call_id"].as_str().unwrap();
        let (status, output, _) = finish(&world, &mut palisade(&world, &daemon, &["output", call]));
        assert_eq!((status, output.as_str()), (Some(0), "one\ntwo\n"));
    }
}

#[test]
fn sigterm_to_the_process_that_stays_ends_the_job_and_commits_what_it_did() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let told = start(&world, &daemon, "echo early > early.txt; echo ready; sleep 100000");
        let jobs = |world: &World| {
            let words = ["jobs", "--json"];
            let (_, output, _) = finish(world, &mut palisade(world, &daemon, &words));
            serde_json::from_str::<Value>(&output).unwrap()["jobs"].clone()
        };
        let printed = Value::from("ready\n".len());
        until("the job has printed", || jobs(&world)[0]["output_bytes"] == printed);
        assert_eq!(jobs(&world)[0]["running"], Value::Bool(true));
        let call = told["call_id"].as_str().unwrap();
        for named in [call, &call[..18], "last"] {
            let words = ["output", named];
            let (status, output, errors) = finish(&world, &mut palisade(&world, &daemon, &words));
            assert_eq!((status, output.as_str()), (Some(0), "ready\n"), "{named}: {errors}");
            assert!(errors.contains("the job is still running"), "{named}: {errors}");
        }
        let pid = told["pid"].to_string();
        let kill = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(kill.success());
        gone(&told["pid"]);
        assert_eq!(fs::read_to_string(world.workspace().join("early.txt")).unwrap(), "early\n");
        assert_eq!(jobs(&world), Value::Array(Vec::new()));
        let (_, output, _) = finish(&world, &mut palisade(&world, &daemon, &["output", call]));
        assert_eq!(output, "ready\n");
    }
}

#[test]
fn where_no_daemon_can_stay_nothing_is_started_and_it_is_said_what_to_do() {
    let refused = |mode, more: &[&str]| {
        let world = World::new(mode);
        let mut command = world.command("palisade");
        command.args(["run", "--background"]).args(more).args(["--", "echo done > made.txt"]);
        let (status, output, errors) = finish(&world, &mut command);
        assert_eq!((status, output.as_str()), (Some(125), ""), "{errors}");
        assert!(!world.workspace().join("made.txt").exists());
        errors
    };
    for mode in Mode::all() {
        assert_eq!(
            refused(mode, &["--profiles", "."]),
            "error: a background run does not start a daemon with other directories of profiles\n\
             hint: start one with `palisaded --profiles DIR`; or run it in the foreground\n"
        );
    }
    // Root has a directory for sockets in any case.
    let errors = refused(Mode::User, &[]);
    assert!(errors.contains("and none can be left running here\nhint: start one"), "{errors}");
}

#[test]
fn a_job_that_is_refused_is_an_error_of_the_command() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let words = ["run", "--background", "--profile", "no-such-profile", "--", "true"];
        let (status, output, errors) = finish(&world, &mut palisade(&world, &daemon, &words));
        assert_eq!((status, output.as_str()), (Some(125), ""), "{errors}");
        assert!(errors.contains("no-such-profile"), "{errors}");
    }
}
