//! The profile `autonomous`: nobody is asked, what undo keeps is done, and what it can not keep and what
//! a program outside would run is denied. The system's daemon offers it only if it is told to.

use palisade_protocol::ErrorCode;
use palisade_tests::{Mode, Sandbox, World, tree};
use serde_json::json;
use std::fs;

fn world(mode: Mode) -> World {
    let world = World::new(mode);
    let workspace = world.workspace();
    for (name, text) in [("a.txt", "only here\n"), ("b.txt", "and here\n")] {
        fs::write(workspace.join(name), text).unwrap();
        world.give(&workspace.join(name));
    }
    world
}

fn denied(sandbox: &Sandbox, tool: &str, arguments: serde_json::Value) -> String {
    let (code, message) = sandbox.refused(tool, arguments);
    assert_eq!(code, ErrorCode::Denied, "{message}");
    message
}

#[test]
fn losses_are_done_and_come_back() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("autonomous");
        let before = tree(&world.workspace());
        for (tool, arguments) in [
            ("bash", json!({"command": "rm a.txt; echo new > b.txt"})),
            ("delete_file", json!({"path": "a.txt"})),
            ("write_file", json!({"path": "b.txt", "content": "new\n"})),
        ] {
            let done = sandbox.call(tool, arguments);
            assert!(done.success, "{mode:?} {tool}: {:?}", done.error);
            assert_ne!(tree(&world.workspace()), before, "{mode:?} {tool}");
            let undone = sandbox.call("undo", json!({"call_id": done.undo.expect("an undo")}));
            assert!(undone.success, "{mode:?} {tool}: {:?}", undone.error);
            assert_eq!(tree(&world.workspace()), before, "{mode:?} {tool}");
        }
    }
}

#[test]
fn what_undo_can_not_keep_is_denied() {
    for mode in Mode::all() {
        let world = world(mode);
        let little = "version = 1\ndescription = \"x\"\nextends = \"autonomous\"\n\
                      [limits]\nundo = \"4 KiB\"\n";
        world.add_profile("little", little);
        fs::write(world.workspace().join("large"), vec![b'x'; 100_000]).unwrap();
        world.give(&world.workspace().join("large"));
        let sandbox = world.open_with("little");
        let before = tree(&world.workspace());
        let message = denied(&sandbox, "bash", json!({"command": "rm large"}));
        assert!(message.contains("undo could not restore"), "{mode:?}: {message}");
        let message = denied(&sandbox, "delete_file", json!({"path": "a.txt", "permanent": true}));
        assert!(message.contains("undo could not restore"), "{mode:?}: {message}");
        assert_eq!(tree(&world.workspace()), before, "{mode:?}");
        let small = sandbox.call("bash", json!({"command": "rm a.txt"}));
        assert!(small.success, "{mode:?}: {:?}", small.error);
    }
}

/// A record needs more room than what it keeps. A file that fits without that is not lost either.
#[test]
fn what_undo_can_only_just_not_keep_is_denied_or_comes_back() {
    for mode in Mode::all() {
        let world = world(mode);
        let little = "version = 1\ndescription = \"x\"\nextends = \"autonomous\"\n\
                      [limits]\nundo = \"64 KiB\"\n";
        world.add_profile("little", little);
        let large = world.workspace().join("large");
        let sandbox = world.open_with("little");
        let (mut kept, mut refused) = (0, 0);
        let fitting = (52_000..64_000).step_by(6_000);
        for size in fitting.chain((64_800..65_700).step_by(50)) {
            fs::write(&large, vec![b'x'; size]).unwrap();
            world.give(&large);
            let done = sandbox.call("bash", json!({"command": "rm large"}));
            if done.success {
                kept += 1;
                let call = done.undo.unwrap_or_else(|| panic!("{mode:?} {size}: no undo"));
                assert!(sandbox.call("undo", json!({ "call_id": call })).success, "{size}");
            } else {
                refused += 1;
            }
            assert_eq!(fs::metadata(&large).unwrap().len(), size as u64, "{mode:?}");
        }
        assert!(kept > 0 && refused > 0, "{mode:?}: {kept} kept, {refused} refused");
    }
}

#[test]
fn plants_are_denied() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("autonomous");
        let before = tree(&world.workspace());
        let message = denied(&sandbox, "bash", json!({"command": "echo x > .envrc"}));
        assert!(message.contains("direnv"), "{mode:?}: {message}");
        denied(&sandbox, "write_file", json!({"path": ".mcp.json", "content": "{}"}));
        denied(&sandbox, "bash", json!({"command": "git init -q && git config core.pager x"}));
        assert_eq!(tree(&world.workspace()), before, "{mode:?}");
    }
}

/// Also at the top of a workspace that is no repository, and in a repository of the session's own.
#[test]
fn a_repository_that_runs_a_program_is_not_made_in_parts() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("autonomous");
        let evil = "printf '[core]\\n\\tfsmonitor = evil\\n' >> .git/config";
        let head = "echo 'ref: refs/heads/main' > .git/HEAD";
        for parts in [["mkdir -p .git/refs .git/objects", head], ["git init -q", "rm .git/HEAD"]] {
            for part in parts {
                let result = sandbox.bash(part);
                assert!(result.success, "{mode:?} {part}: {:?}", result.error);
            }
            let message = denied(&sandbox, "bash", json!({"command": evil}));
            assert!(message.contains("core.fsmonitor"), "{mode:?}: {message}");
        }
        let all = format!("{evil}; {head}");
        denied(&sandbox, "bash", json!({"command": all}));
    }
}

#[test]
fn no_job_runs_without_a_transaction() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("autonomous");
        let arguments = json!({"command": "true", "background": true, "route": "direct"});
        let refused = sandbox.call("bash", arguments);
        assert!(!refused.success, "{mode:?}");
    }
}

#[test]
fn the_systems_daemon_offers_it_only_if_it_is_told_to() {
    for mode in Mode::all() {
        for (configuration, is_offered) in [
            ("", mode == Mode::User),
            ("offered = [\"autonomous\"]", true),
            ("offered = []", false),
        ] {
            let world = world(mode);
            world.configure(configuration);
            let _daemon = world.configured_daemon(|_| {});
            let mut run = world.command("palisade");
            run.args(["run", "--profile", "autonomous", "--socket"]);
            run.arg(world.run().join("agent.sock")).args(["--", "true"]);
            let output = mode.act(|| run.output()).unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), is_offered, "{mode:?} {configuration:?}: {told}");
            assert!(is_offered || told.contains("autonomous"), "{mode:?}: {told}");
        }
    }
}

#[test]
fn a_profile_of_whom_the_daemon_belongs_to_widens() {
    for mode in Mode::all() {
        let world = world(mode);
        let wide = "version = 1\ndescription = \"x\"\nextends = \"workspace\"\nwiden = true\n\
                    ask = \"never\"\n";
        world.add_profile("wide", wide);
        let sandbox = world.open_with("wide");
        let done = sandbox.call("bash", json!({"command": "rm a.txt"}));
        assert!(done.success, "{mode:?}: {:?}", done.error);
    }
}
