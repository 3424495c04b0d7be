//! `palisade shell` where a program expects a shell: lines, scripts and standard input run confined, in
//! the caller's directory and with the line's own exit status, or not at all.

use palisade_tests::{Daemon, Mode, UNASKED, World, binary, processes, rooms::until};
use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
};

/// Returns the command of a shell that uses this daemon, with the profile that asks for nothing.
fn shell(world: &World, daemon: &Daemon) -> Command {
    let mut command = world.command("palisade");
    command.args(["shell", "--"]);
    command.env("PALISADE_SOCKET", &daemon.socket).env("PALISADE_PROFILE", UNASKED);
    command
}

fn spawn(world: &World, command: &mut Command) -> Child {
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    world.mode.act(|| streams.spawn().unwrap())
}

/// Runs a command with this input; returns its status, output and errors.
fn run(world: &World, command: &mut Command, input: &str) -> (Option<i32>, String, String) {
    let mut child = spawn(world, command);
    // A program that does not read its input is not a failure.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap_or_default();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn each(act: impl Fn(&World, &Daemon)) {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        act(&world, &daemon);
    }
}

#[test]
fn a_shells_words_do_what_they_do_in_a_shell() {
    each(|world, daemon| {
        let at = world.workspace();
        fs::create_dir(at.join("sub")).unwrap();
        fs::write(at.join("script"), "echo \"$# $1\"; cat; exit 4\n").unwrap();
        for name in ["sub", "script"] {
            world.give(&at.join(name));
        }
        let sub = format!("{}\n", at.join("sub").display());
        for (words, input, status, output) in [
            (&["-c", "echo a; exit 3"][..], "", 3, "a\n"),
            (&["-lc", "pwd"], "", 0, sub.as_str()),
            (&["echo bare; pwd"], "", 0, &format!("bare\n{sub}")),
            (&["-c", "echo \"$0 $1\"", "name", "one"], "", 0, "name one\n"),
            (&["-ec", "false; echo not"], "", 1, ""),
            (
                &[
                    "-aE",
                    "-O",
                    "globstar",
                    "-c",
                    "a=1; env | grep ^a=; shopt -q globstar && echo on",
                ],
                "",
                0,
                "a=1\non\n",
            ),
            (&["-e", "+e", "-c", "false; echo on"], "", 0, "on\n"),
            (&["-c", "cat; echo end"], "given\n", 0, "given\nend\n"),
            (&["../script", "one"], "given\n", 4, "1 one\ngiven\n"),
            (&[], "echo from; echo input\n", 0, "from\ninput\n"),
            (&["-c", "kill -TERM $$"], "", 128 + 15, ""),
            (&["-c", "no-such-program"], "", 127, ""),
        ] {
            let mut command = shell(world, daemon);
            command.args(words).current_dir(at.join("sub")).env("PALISADE_WORKSPACE", &at);
            let (found, said, errors) = run(world, &mut command, input);
            let expected = (Some(status), output.to_owned());
            assert_eq!((found, said), expected, "{:?}: {words:?}: {errors}", world.mode);
        }
    });
}

#[test]
fn a_line_is_confined_and_has_only_the_variables_that_are_passed() {
    each(|world, daemon| {
        let canary = world.canary();
        let line = format!(
            "cat {0}; echo x > {0}; echo kept > kept; echo \"${{SECRET-none}} ${{NAMED-none}}\"",
            canary.display()
        );
        let mut command = shell(world, daemon);
        command.args(["-c", &line]).env("SECRET", "s").env("NAMED", "n");
        command.env("PALISADE_SHELL_ENV", "NAMED");
        let (status, output, errors) = run(world, &mut command, "");
        assert_eq!((status, output.as_str()), (Some(0), "none n\n"), "{errors}");
        assert!(errors.contains("No such file or directory"), "{errors}");
        world.assert_canary_untouched();
        assert_eq!(fs::read_to_string(world.workspace().join("kept")).unwrap(), "kept\n");
    });
}

#[test]
fn the_workspace_is_the_repository_around_the_directory() {
    each(|world, daemon| {
        let at = world.workspace();
        for name in [".git", "sub"] {
            fs::create_dir(at.join(name)).unwrap();
            world.give(&at.join(name));
        }
        let mut command = shell(world, daemon);
        command.args(["-c", "echo x > ../above"]).current_dir(at.join("sub"));
        let (status, _, errors) = run(world, &mut command, "");
        assert_eq!(status, Some(0), "{errors}");
        assert_eq!(fs::read_to_string(at.join("above")).unwrap(), "x\n");
    });
}

#[test]
fn nothing_runs_unconfined() {
    each(|world, daemon| {
        let made = world.workspace().join("made");
        let line = ["-c", "touch made"];
        let nowhere = world.outside().join("nobody.sock");
        let mut commands = [(); 4].map(|()| shell(world, daemon));
        commands[0].args(line).env("PALISADE_SOCKET", nowhere);
        commands[1].args(line).env("PALISADE_PROFILE", "no-such-profile");
        commands[2].args(["--rcfile", "x", "-c", "touch made"]);
        commands[3].args(line).env("PALISADE_WORKSPACE", world.outside().join("missing"));
        for command in &mut commands {
            let (status, output, errors) = run(world, command, "touch made\n");
            assert_eq!((status, output.as_str()), (Some(125), ""), "{command:?}: {errors}");
            assert!(!errors.is_empty() && !made.exists(), "{command:?}");
        }
        // The control.
        assert_eq!(run(world, shell(world, daemon).args(line), "").0, Some(0));
        assert!(made.exists());
    });
}

#[test]
fn a_deletion_that_nobody_approves_is_denied() {
    each(|world, daemon| {
        let kept = world.workspace().join("kept");
        fs::write(&kept, "kept\n").unwrap();
        world.give(&kept);
        let mut command = shell(world, daemon);
        command.args(["-c", "rm kept"]).env("PALISADE_PROFILE", "workspace");
        let (status, _, errors) = run(world, &mut command, "");
        assert_eq!(status, Some(126), "{errors}");
        assert_eq!(fs::read_to_string(kept).unwrap(), "kept\n");
    });
}

#[test]
fn make_runs_its_lines_in_it() {
    each(|world, daemon| {
        let shell = world.outside().join("palisade-sh");
        fs::write(&shell, include_str!("../../../systemd/palisade-sh")).unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
        let text = "all:\n\t@echo made > made; touch /usr/oops; cat made\n\t@exit 3\n";
        fs::write(world.workspace().join("Makefile"), text).unwrap();
        world.give(&world.workspace().join("Makefile"));
        let like = world.command("palisade");
        let mut make = Command::new("make");
        make.env_clear().current_dir(world.workspace());
        make.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        make.env("PALISADE_SOCKET", &daemon.socket).env("PALISADE_PROFILE", UNASKED);
        let beside = binary("palisade").parent().unwrap().to_owned();
        make.env("PATH", format!("{}:/usr/bin:/bin", beside.display()));
        make.arg(format!("SHELL={}", shell.display()));
        let (status, output, errors) = run(world, &mut make, "");
        assert_eq!((status, output.as_str()), (Some(2), "made\n"), "{errors}");
        assert!(errors.contains("cannot touch '/usr/oops'"), "{errors}");
        assert!(errors.contains("Error 3"), "{errors}");
    });
}

#[test]
fn who_ends_the_shell_ends_what_it_runs() {
    each(|world, daemon| {
        let mark = processes::mark();
        let line = format!("setsid bash -c 'exec -a {mark} sleep 300' & exec -a {mark} sleep 300");
        let mut child = spawn(world, shell(world, daemon).args(["-c", &line]));
        until("it runs", || {
            processes::marked(&mark).iter().filter(|p| p.name == "sleep").count() == 2
        });
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(!child.wait().unwrap().success());
        until("all of it has ended", || {
            processes::marked(&mark).iter().all(|process| process.name != "sleep")
        });
    });
}
