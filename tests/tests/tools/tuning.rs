//! Tuning a profile: the security team's loop as a script, what `learn` says of a command that fails,
//! and that a second run of a call (`why --trace`) can do and reveal no more than the first.

use palisade_tests::{Mode, World, binary, tree};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A profile without a network that extends nothing, so that whoever owns it may widen it.
fn team(more: &str) -> String {
    format!(
        "version = 1\ndescription = \"x\"\nask = \"never\"\n{more}[fs]\nworkspace = \"write\"\n\
         execute = [\"!/usr\", \"/bin\", \"/lib\", \"/lib64\"]\n\
         etc = [\"passwd\", \"group\", \"nsswitch.conf\", \"ld.so.cache\", \"alternatives\"]\n\
         [net]\nmode = \"none\"\n[limits]\ntimeout_ms = 300_000\n[layers]\noptional = [\"limits\"]\n"
    )
}

/// A file in a directory that the profile leaves out, deleted afterwards.
struct CachedFile(PathBuf);

impl CachedFile {
    fn new(world: &World, name: &str) -> Self {
        // The ordinary user of these tests has no account, and so no home.
        let above = match world.mode {
            Mode::System => PathBuf::from("/root"),
            Mode::User => world.outside(),
        };
        let directory = above.join(format!(".cache-palisade-{}-{name}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        world.give(&directory);
        fs::write(directory.join("model.bin"), "weights").unwrap();
        world.give(&directory.join("model.bin"));
        Self(directory)
    }

    fn path(&self) -> PathBuf {
        self.0.join("model.bin")
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}

/// Writes the project: a test that reads the file, and one that listens on a port.
fn project(world: &World, model: &Path) {
    let text = format!(
        "import socket, unittest\n\
         class App(unittest.TestCase):\n    \
             def test_model(self):\n        self.assertEqual(open({model:?}).read(), 'weights')\n    \
             def test_port(self):\n        with socket.socket() as s:\n            \
             s.bind(('127.0.0.1', 8123))\n            s.listen()\n            \
             socket.create_connection(('127.0.0.1', 8123)).close()\n"
    );
    let path = world.workspace().join("test_app.py");
    fs::write(&path, text).unwrap();
    world.give(&path);
}

/// Returns a command as this world's user. Its log is in the world's state directory.
fn prepared(world: &World, program: &str) -> Command {
    let mut command = world.command("palisade");
    let known: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    if program != "palisade" {
        command = Command::new(program);
        command.env_clear().envs(known).current_dir(world.workspace());
    }
    if world.mode == Mode::User {
        command.env_remove("HOME");
    }
    command
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn the_security_teams_task_from_denial_to_proof() {
    // As text: the user may not be able to enter the checkout.
    let script = include_str!("../../security-team");
    // Root's log is not in the world.
    let world = World::new(Mode::User);
    let cached = CachedFile::new(&world, "task");
    project(&world, &cached.path());
    world.add_profile("team", &team(""));
    let programs = binary("palisade").parent().unwrap().display().to_string();
    let output = world.mode.act(|| {
        let mut command = prepared(&world, "/bin/sh");
        command.env("PATH", format!("{programs}:/usr/bin:/bin")).args([
            "-c",
            script,
            "security-team",
        ]);
        command.arg(world.workspace()).arg(world.profiles()).arg("team").output().unwrap()
    });
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let steps: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("== ")).collect();
    assert_eq!(steps, ["denial", "why", "suggest", "test", "diff", "prove"], "{said}");
    let model = cached.path().display().to_string();
    for part in [
        format!("not in the session, but on this host: {model}\n"),
        "refused: 127.0.0.1:8123\n".to_owned(),
        format!("add {model:?} to fs.read"),
        "set \"loopback\" as net.mode".to_owned(),
    ] {
        assert!(said.contains(&part), "{part} is not in {said}");
    }
    let wider = fs::read_to_string(world.profiles().join("team-wider.toml")).unwrap();
    assert!(wider.contains(&model) && wider.contains("mode = \"loopback\""), "{wider}");
    // No more than that.
    assert!(!wider.contains("unguarded = [\""), "{wider}");
}

#[test]
fn why_works_for_the_user_whose_call_a_daemon_ran_without_reading_its_log() {
    // Root's log is not in the world.
    let world = World::new(Mode::User);
    let left_out = world.outside().join("model.bin");
    fs::write(&left_out, "weights").unwrap();
    world.give(&left_out);
    world.add_profile("team", &team(""));
    let daemon = world.daemon();
    let state = world.outside().join("state");
    let palisade = |socket: &Path, words: &[&str]| {
        world.mode.act(|| {
            let mut command = prepared(&world, "palisade");
            command.env("XDG_STATE_HOME", &state).env("PALISADE_SOCKET", socket);
            command.args(words).output().unwrap()
        })
    };
    let path = left_out.display().to_string();
    let words = ["run", "--profile", "team", "--", "cat", &path];
    assert_eq!(palisade(&daemon.socket, &words).status.code(), Some(1));
    assert!(!state.exists(), "the call is in no log of this user's");
    let told = said(&palisade(&daemon.socket, &["why", "last"]));
    assert!(told.starts_with("the call failed"), "{told}");
    let profiles = world.profiles().display().to_string();
    let words = ["why", "last", "--trace", "--profiles", &profiles];
    let traced = palisade(&daemon.socket, &words);
    let told = said(&traced);
    assert_eq!(traced.status.code(), Some(0), "{told}");
    let expected = format!("not in the session, but on this host: {path}\n");
    assert!(told.contains(&expected), "{told}");
    let nowhere = palisade(&state.join("none"), &["why", "0192"]);
    assert_ne!(nowhere.status.code(), Some(0), "{}", said(&nowhere));
}

#[test]
fn learn_says_what_a_failing_command_was_refused_and_writes_a_wider_profile() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let cached = CachedFile::new(&world, "learn");
        project(&world, &cached.path());
        world.add_profile("team", &team(""));
        let (profiles, wider) = (world.profiles(), world.profiles().join("wider.toml"));
        let learn = |options: &[&str]| {
            mode.act(|| {
                let mut command = prepared(&world, "palisade");
                command.args(["profile", "learn", "--from", "team", "--timeout", "5m"]);
                command.arg("--profiles").arg(&profiles).args(options);
                command.args(["--", "python3", "-m", "unittest", "test_app"]).output().unwrap()
            })
        };
        let output = learn(&["--widen", "-o", wider.to_str().unwrap()]);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(1), "{mode:?}: {told}");
        let model = cached.path().display().to_string();
        for part in
            ["nothing was learned: ", &format!("left out: {model}: "), "refused: 127.0.0.1:8123: "]
        {
            assert!(told.contains(part), "{mode:?}: {part} is not in {told}");
        }
        // The command passes with the profile that was written, and not with the first one.
        let run = |profile: &str| {
            mode.act(|| {
                let mut command = prepared(&world, "palisade");
                command.args(["run", "--profile", profile, "--timeout", "5m", "--profiles"]);
                command.arg(&profiles).args(["--", "python3", "-m", "unittest", "test_app"]);
                command.output().unwrap()
            })
        };
        let passed = run("wider");
        assert_eq!(passed.status.code(), Some(0), "{mode:?}: {}{told}", said(&passed));
        assert_eq!(run("team").status.code(), Some(1), "{mode:?}");
    }
}

/// Runs `why --trace` for a call; gives the exit status and what it says, as JSON.
fn trace(world: &World, call: &str) -> (Option<i32>, Value) {
    let output = world.mode.act(|| {
        let mut command = prepared(world, "palisade");
        command.args(["why", "--trace", call, "--json", "--dir"]).arg(world.state().join("audit"));
        command.arg("--profiles").arg(world.profiles()).output().unwrap()
    });
    let text = said(&output);
    let line = text.lines().next().unwrap_or_default();
    (output.status.code(), serde_json::from_str(line).unwrap_or_else(|_| panic!("{text}")))
}

#[test]
fn a_second_run_changes_nothing_and_is_judged_as_the_first() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let rule =
            "[[rules]]\nverdict = \"deny\"\nwhy = \"never\"\ncommand = [\"git\", \"push\"]\n";
        world.add_profile("team", &format!("{}{rule}", team("")));
        let sandbox = world.open_with("team");
        let kept = world.workspace().join("kept");
        fs::write(&kept, "as it was\n").unwrap();
        world.give(&kept);
        let before = tree(&world.workspace());

        // What it changes is discarded. The control: the first run was committed.
        let first = sandbox.bash("echo one >> count; cat count | wc -l > lines; false");
        assert!(!first.success);
        let count = || fs::read_to_string(world.workspace().join("count")).unwrap();
        assert_eq!(count(), "one\n");
        let after = tree(&world.workspace());
        assert_ne!(before, after);
        let (_, told) = trace(&world, first.call_id.as_str());
        assert_eq!(told["exit_code"], Value::from(1), "{mode:?}: {told}");
        assert_eq!(tree(&world.workspace()), after, "{mode:?}");

        // It is in the log, as a dry run with its reason.
        let log = fs::read_dir(world.state().join("audit")).unwrap().flatten();
        let log: String = log.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
        let reason = format!("palisade why --trace {}", first.call_id);
        let record = log.lines().find(|line| line.contains(&reason)).unwrap();
        assert!(record.contains("\"dry_run\":true"), "{record}");

        // A rule that denies the call denies it again.
        let denied = sandbox.bash("git push; cat /nothing");
        assert!(!denied.success);
        let (status, told) = trace(&world, denied.call_id.as_str());
        let message = told["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(status, Some(125), "{mode:?}: {told}");
        assert!(message.starts_with("the call can not be run again: "), "{mode:?}: {told}");
    }
}

#[test]
fn a_call_that_the_log_does_not_have_whole_is_not_run_again() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_profile("team", &team(""));
        let sandbox = world.open_with("team");
        let bash = |arguments: Value| sandbox.call("bash", arguments).call_id.to_string();
        let with_input = sandbox.wait(async {
            sandbox.session.bash("cat; false").stdin("secret input").await.unwrap().call_id
        });
        let text = |told: &Value| told["error"]["message"].as_str().unwrap_or_default().to_owned();
        for (call, part) in [
            (with_input.to_string(), "its standard input"),
            (
                bash(serde_json::json!({"command": "false", "env": {"API_TOKEN": "hunter2"}})),
                "its env as it was sent",
            ),
            (
                bash(serde_json::json!({"command": format!("false {}", "x ".repeat(9000))})),
                "its command as it was sent",
            ),
            (
                sandbox
                    .call("read_file", serde_json::json!({"path": "/srv/x"}))
                    .call_id
                    .to_string(),
                "this was a call of read_file",
            ),
        ] {
            let (status, told) = trace(&world, &call);
            assert_eq!(status, Some(125), "{mode:?}: {told}");
            assert!(text(&told).contains(part), "{mode:?}: {part}: {told}");
        }
        // The control: the same with what the log keeps.
        let call = bash(serde_json::json!({"command": "false", "env": {"CI": "1"}, "stdin": "x"}));
        let (_, told) = trace(&world, &call);
        assert_eq!(told["exit_code"], Value::from(1), "{mode:?}: {told}");
    }
}

#[test]
fn a_second_run_reveals_no_path_that_its_user_can_not_see() {
    let world = World::new(Mode::User);
    world.add_profile("team", &team(""));
    let (shut, open) = (world.outside().join("shut"), world.outside().join("open"));
    for directory in [&shut, &open] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("file"), "x").unwrap();
    }
    // Root owns it; for an ordinary user that runs the tests its mode is enough.
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o000)).unwrap();
    let sandbox = world.open_with("team");
    // What a trace says of a file: how often it is left out, and how often it exists nowhere.
    let read = |directory: &Path, name: &str| {
        let path = directory.join(name).display().to_string();
        let call = sandbox.bash(&format!("cat {path}")).call_id.to_string();
        let (_, told) = trace(&world, &call);
        assert_eq!(told["exit_code"], Value::from(1), "{told}");
        let left_out = told["left_out"].as_array().unwrap().iter();
        let nowhere = told["nowhere"].as_array().unwrap().iter();
        let left_out = left_out.filter(|denial| denial["target"] == path.as_str());
        (
            left_out.count(),
            nowhere.filter(|missing| missing.as_str() == Some(path.as_str())).count(),
        )
    };
    assert_eq!(read(&shut, "file"), (0, 0));
    assert_eq!(read(&shut, "no-such-file"), (0, 0), "as for the file that exists");
    // The control: what the user can see is told apart.
    assert_eq!(read(&open, "file"), (1, 0));
    assert_eq!(read(&open, "no-such-file"), (0, 1));
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn only_the_user_whose_call_it_was_runs_it_again() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = World::new(Mode::User);
    world.add_profile("team", &team(""));
    let call = world.open_with("team").bash("false").call_id.to_string();
    // A workspace that belongs to root by now, and root's command: the session would be root's.
    std::os::unix::fs::chown(world.workspace(), Some(0), Some(0)).unwrap();
    let mut command = world.command("palisade");
    command.args(["why", "--trace", &call, "--json", "--dir"]).arg(world.state().join("audit"));
    let output = command.arg("--profiles").arg(world.profiles()).output().unwrap();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(125), "{told}");
    assert!(told.contains("it was a call of uid 4242, and would now run as uid 0"), "{told}");
}
