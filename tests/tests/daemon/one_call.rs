//! A daemon for one call loads the profile of that call only, and prepares nothing for another. The
//! promises are the same: a second call, a second session and every refusal work as in any daemon.

use palisade_client::{Error, ErrorCode, Open};
use palisade_tests::{Mode, Sandbox, UNASKED, World, processes, rooms};
use std::fs;

/// Runs the command line; returns its status, its output and its messages.
fn palisade(world: &World, program: &str, words: &[&str]) -> (Option<i32>, String, String) {
    let profiles = world.profiles();
    let output = world.mode.act(|| {
        let mut command = world.command(program);
        command.args(&words[..1]).arg("--profiles").arg(&profiles).args(&words[1..]);
        command.output().unwrap()
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn run_reads_its_own_profile_and_no_other() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let child =
            |parent: &str| format!("version = 1\ndescription = \"x\"\nextends = {parent:?}\n");
        world.add_profile("base", &child("workspace"));
        world.add_profile("mine", &child("base"));
        let run = |profile: &str| {
            palisade(&world, "palisade", &["run", "--profile", profile, "--", "echo served"])
        };
        let is_served = |profile: &str| {
            let (status, output, told) = run(profile);
            assert_eq!((status, output.as_str()), (Some(0), "served\n"), "{mode:?}: {told}");
        };
        let (socket, state) = (world.state().join("agent.sock"), world.state());
        let (socket, state) = (socket.to_str().unwrap(), state.to_str().unwrap());
        let check =
            || palisade(&world, "palisaded", &["--check", "--socket", socket, "--state", state]);
        is_served("mine");
        assert_eq!(check().0, Some(0), "{mode:?}: the control");

        // Neither can be loaded: one is not a profile, the other can not even be read.
        world.add_profile("broken", "version = 1\nnonsense = true\n");
        let directory = world.profiles().join("directory.toml");
        fs::create_dir(&directory).unwrap();
        world.give(&directory);
        for profile in ["mine", "base", "workspace", "build"] {
            is_served(profile);
        }
        let (status, output, told) = run("broken");
        assert_eq!((status, output.as_str()), (Some(125), ""), "{mode:?}: {told}");
        assert!(told.contains("broken.toml:2:1: nonsense: unknown key"), "{mode:?}: {told}");
        let (status, output, told) = run("directory");
        assert_eq!((status, output.as_str()), (Some(125), ""), "{mode:?}: {told}");
        assert!(told.contains("directory.toml"), "{mode:?}: {told}");
        // Whoever checks the configuration is told of both.
        let (status, _, told) = check();
        assert_eq!(status, Some(78), "{mode:?}: {told}");
        assert!(told.contains("directory.toml"), "{mode:?}: {told}");
        fs::remove_dir(&directory).unwrap();
        let (status, _, told) = check();
        assert_eq!(status, Some(78), "{mode:?}: {told}");
        assert!(told.contains("broken.toml:2:1: nonsense: unknown key"), "{mode:?}: {told}");
        // A daemon of every profile starts without the invalid one, and says so.
        let (status, _, told) = palisade(&world, "palisade", &["doctor"]);
        assert_eq!(status, Some(0), "{mode:?}: {told}");
        assert!(told.contains("broken.toml:2:1: nonsense: unknown key"), "{mode:?}: {told}");

        // A built-in profile is not replaced, whoever asks for it or for one that extends it.
        fs::remove_file(world.profiles().join("broken.toml")).unwrap();
        world.add_profile("workspace", &child("readonly"));
        for profile in ["workspace", "mine"] {
            let (status, output, told) = run(profile);
            assert_eq!((status, output.as_str()), (Some(125), ""), "{mode:?}: {told}");
            assert!(told.contains("\"workspace\" already exists"), "{mode:?}: {told}");
        }
        fs::remove_file(world.profiles().join("workspace.toml")).unwrap();
        let (status, _, told) = run("nothing");
        assert_eq!(status, Some(125), "{mode:?}: {told}");
        let known = "autonomous, base, build, container, guarded, mine, readonly, strict";
        assert!(told.contains(known), "{mode:?}: {told}");
    }
}

#[test]
fn more_than_one_call_is_served_and_nothing_is_prepared_for_it() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let open = |profile: &str| Open::new(world.workspace()).profile(profile);
        let only = format!("--only-profile={UNASKED}");
        let (stream, daemon) = world.embedded(&["--one-call", &only]);
        let sandbox = Sandbox::over(stream, Some(daemon), open(UNASKED)).unwrap();
        assert_eq!(sandbox.ok("echo one"), "one\n", "{mode:?}");
        assert_eq!(sandbox.ok("echo two > file && cat file"), "two\n", "{mode:?}");
        assert_eq!(fs::read_to_string(world.workspace().join("file")).unwrap(), "two\n");
        let broker = sandbox.daemon.as_ref().unwrap().id();
        // A process that waits for a session has the program's own name; the others have those of
        // what they do.
        rooms::until("every process of a cell belongs to the session", || {
            rooms::Rooms::of(broker).cells.iter().all(|cell| cell.name != "palisade-cell")
        });
        // Nor is a later call the worse for it.
        assert_eq!(sandbox.ok("cat file"), "two\n", "{mode:?}");
        let (stream, mut daemon) = world.embedded(&["--one-call", &only]);
        match Sandbox::over(stream, None, open("strict")) {
            Err(Error::Remote(error)) => assert_eq!(error.code, ErrorCode::ProfileNotFound),
            other => panic!("{mode:?}: {other:?}"),
        }
        daemon.wait().unwrap();
    }
}

/// Returns how many shells and how many transactions of a daemon there are.
fn prepared(daemon: u32) -> (usize, usize) {
    let tree = processes::tree(i32::try_from(daemon).unwrap());
    let shells = tree.iter().filter(|process| process.is_spare()).count();
    let transactions = tree.iter().filter(|process| process.name.ends_with(" once")).count();
    (shells, transactions)
}

#[test]
fn what_a_call_used_up_is_made_again_only_if_another_call_is_expected() {
    for mode in Mode::all() {
        let world = World::new(mode);
        for (options, expected) in [(&[][..], (2, 1)), (&["--one-call"][..], (0, 0))] {
            let (stream, daemon) = world.embedded(options);
            let open = Open::new(world.workspace());
            let sandbox = Sandbox::over(stream, Some(daemon), open).unwrap();
            let daemon = sandbox.daemon.as_ref().unwrap().id();
            rooms::until("a shell waits for the first call", || prepared(daemon).0 > 0);
            assert_eq!(sandbox.ok("echo read"), "read\n", "{mode:?}");
            assert_eq!(sandbox.ok("echo written > one"), "", "{mode:?}");
            rooms::until("no more and no less is prepared", || prepared(daemon) == expected);
            // Nor is a later call the worse for it.
            assert_eq!(sandbox.ok("cat one; echo more > two"), "written\n", "{mode:?}");
            rooms::until("it is the same again", || prepared(daemon) == expected);
            for name in ["one", "two"] {
                fs::remove_file(world.workspace().join(name)).unwrap();
            }
        }
    }
}
