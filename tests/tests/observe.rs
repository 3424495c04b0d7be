//! A profile that is only observed: what it would have refused is recorded and done, what it denies
//! by name is denied, and what it is observed under still confines. As root's session and as an
//! ordinary user's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can not go on fails; it runs the command line"
)]

use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Mode, Sandbox, World};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Output};

/// A world with a wide profile, a narrow one that is observed under it, and the same enforced.
fn world(mode: Mode) -> World {
    let world = World::new(mode);
    for name in ["open", "shown"] {
        let path = world.outside().join(name);
        fs::create_dir(&path).unwrap();
        world.give(&path);
    }
    let file = world.outside().join("shown/file");
    fs::write(&file, "shown\n").unwrap();
    world.give(&file);
    let secret = world.workspace().join(".env");
    fs::write(&secret, "secret\n").unwrap();
    world.give(&secret);
    let (open, shown) = (world.outside().join("open"), world.outside().join("shown"));
    let run = r#"execute = ["!/usr", "/bin", "/lib", "/lib64"]"#;
    world.add_profile(
        "wide",
        &format!(
            "version = 1\ndescription = \"What is enforced today.\"\nask = \"never\"\n[fs]\n\
             workspace = \"write\"\nallow_delete = true\n{run}\nread = [{shown:?}]\n\
             write = [{open:?}]\n[layers]\noptional = [\"limits\"]\n"
        ),
    );
    let narrow = |observe: &str| {
        format!(
            "version = 1\ndescription = \"What we would like to enforce.\"\nextends = \"wide\"\n\
             {observe}[fs]\nworkspace = \"read\"\nallow_delete = false\n{run}\nread = []\n\
             write = []\nhide = [\".env\"]\n[tools]\ndeny = [\"todo_write\"]\n[[rules]]\n\
             verdict = \"deny\"\nwhy = \"for people\"\ncommand = [\"printf\", \"forbidden\"]\n"
        )
    };
    world.add_profile("tried", &narrow("observe = \"wide\"\n"));
    world.add_profile("enforced", &narrow(""));
    world
}

/// What a call would have been refused: right, target.
fn would_be(result: &CallResult) -> Vec<(String, String)> {
    let observed = result.receipt.observed.as_ref().expect("it is observed");
    assert_eq!(observed.under, "wide");
    assert_eq!(result.receipt.profile, "tried");
    let one = |denial: &palisade_protocol::Denial| {
        let (right, _) = denial.rule.split_once(": ").unwrap_or((&denial.rule, ""));
        (right.to_owned(), denial.target.clone())
    };
    observed.would_refuse.iter().map(one).collect()
}

/// Runs a line that must succeed and must not be called a denial.
fn done(sandbox: &Sandbox, line: &str) -> CallResult {
    let result = sandbox.bash(line);
    assert!(result.success, "{line}: {:?} {}", result.error, result.stderr);
    assert_eq!(result.denials, [], "{line}");
    result
}

fn palisade(world: &World, arguments: &[&str]) -> (Output, String) {
    let output = world.mode.act(|| world.command("palisade").args(arguments).output().unwrap());
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, told)
}

#[test]
fn what_would_be_refused_is_recorded_and_done() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("tried");
        let (open, shown) = (world.outside().join("open/new"), world.outside().join("shown/file"));
        let text = |path: &Path| path.display().to_string();

        assert_eq!(would_be(&done(&sandbox, "true")), []);
        let written = done(&sandbox, &format!("echo done > {}", open.display()));
        assert_eq!(would_be(&written), [("write".to_owned(), text(&open))], "{mode:?}");
        assert_eq!(fs::read_to_string(&open).unwrap(), "done\n", "{mode:?}");
        let read = done(&sandbox, &format!("cat {}", shown.display()));
        assert_eq!(read.stdout, "shown\n");
        assert_eq!(would_be(&read), [("read".to_owned(), text(&shown))], "{mode:?}");
        let made = done(&sandbox, "echo made > made");
        assert_eq!(would_be(&made), [("write".to_owned(), text(&world.workspace()))], "{mode:?}");
        assert_eq!(fs::read_to_string(world.workspace().join("made")).unwrap(), "made\n");

        // File tools, and a tool that would not be there.
        let read = sandbox.call("read_file", json!({"path": text(&shown)}));
        assert!(read.success, "{:?}", read.error);
        assert_eq!(would_be(&read), [("read".to_owned(), text(&shown))], "{mode:?}");
        let path = world.workspace().join("by-tool");
        let write = json!({"path": text(&path), "content": "x"});
        let write = sandbox.call("write_file", write);
        assert!(write.success, "{:?}", write.error);
        assert_eq!(would_be(&write), [("write".to_owned(), text(&path))], "{mode:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "x");
        let delete = sandbox.call("delete_file", json!({"path": text(&path)}));
        assert!(delete.success, "{:?}", delete.error);
        let expected = [("fs.allow_delete", "delete_file".to_owned()), ("write", text(&path))];
        assert_eq!(would_be(&delete), expected.map(|(a, b)| (a.to_owned(), b)), "{mode:?}");
        assert!(!path.exists());

        recorded(&world, &written, &text(&open));
    }
}

/// The log has it, as what it is, and so has whatever is read from the log.
fn recorded(world: &World, call: &CallResult, target: &str) {
    let log = world.state().join("audit");
    let (id, log) = (call.call_id.as_str(), log.to_str().unwrap());
    let (output, told) = palisade(world, &["why", id, "--dir", log]);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let head = format!("would be refused, were the profile enforced: {target}\n");
    assert!(told.starts_with(&head), "{told}");
    let (_, json) = palisade(world, &["why", id, "--dir", log, "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["denials"], json!([]));
    assert_eq!(json["observed"][0]["target"], json!(target));
}

#[test]
fn what_is_denied_by_name_is_denied_and_the_base_still_confines() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("tried");
        let denied = sandbox.bash("printf forbidden > /tmp/x");
        assert_eq!(denied.error.as_ref().map(|error| error.code), Some(ErrorCode::Denied));
        assert_eq!(denied.denials.len(), 1, "{mode:?}");
        assert_eq!(would_be(&denied), []);
        let tool = sandbox.call("todo_write", json!({"items": []}));
        assert_eq!(
            tool.error.as_ref().map(|error| error.code),
            Some(ErrorCode::Denied),
            "{mode:?}"
        );
        let hidden = sandbox.bash("cat .env; ls -A");
        assert!(hidden.stderr.contains("No such file or directory"), "{}", hidden.stderr);
        assert!(!hidden.stdout.contains(".env"), "{}", hidden.stdout);
        assert!(!would_be(&hidden).iter().any(|(_, target)| target.contains(".env")));

        // The base has no word of these.
        let canary = world.canary();
        let before = fs::read(&canary).unwrap();
        drop(sandbox.bash(&format!("echo x > {}", canary.display())));
        assert_eq!(fs::read(&canary).unwrap(), before, "{mode:?}");
        let beyond = sandbox.bash("echo x > /usr/oops; cat /etc/shadow; cat /etc/passwd");
        assert_eq!(beyond.stdout, "", "{mode:?}");
        assert_eq!(would_be(&beyond), [], "{mode:?}: what is refused is no would-be");
        assert!(!Path::new("/usr/oops").exists());
        let outside = sandbox.call("read_file", json!({"path": "/etc/passwd"}));
        assert!(!outside.success);
        assert_eq!((outside.denials.len(), would_be(&outside).len()), (1, 0), "{mode:?}");
        assert_eq!(fs::read_to_string(world.workspace().join(".env")).unwrap(), "secret\n");
    }
}

#[test]
fn the_same_profile_enforced_refuses_the_same() {
    for mode in Mode::all() {
        let world = world(mode);
        let sandbox = world.open_with("enforced");
        let open = world.outside().join("open/new");
        let shown = world.outside().join("shown/file");
        for line in [
            format!("echo done > {}", open.display()),
            format!("cat {}", shown.display()),
            "echo made > made".to_owned(),
        ] {
            let result = sandbox.bash(&line);
            assert!(!result.success && result.stdout.is_empty(), "{mode:?}: {line}");
            assert_eq!(result.receipt.observed, None);
        }
        assert!(!open.exists() && !world.workspace().join("made").exists(), "{mode:?}");
        assert!(sandbox.bash("true").success);
    }
}

#[test]
fn it_is_said_wherever_the_profile_is_shown() {
    for mode in Mode::all() {
        let world = world(mode);
        let profiles = world.profiles();
        let profiles = profiles.to_str().unwrap();
        let (_, shown) = palisade(&world, &["profile", "show", "tried", "--profiles", profiles]);
        assert!(shown.contains("# OBSERVED, NOT ENFORCED: what holds is wide\n"), "{shown}");
        assert!(shown.contains("observe = \"wide\"\n"), "{shown}");
        let run = ["run", "-v", "--profile", "tried", "--profiles", profiles, "--", "echo x > y"];
        let (output, _) = palisade(&world, &run);
        assert_eq!(output.status.code(), Some(0));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            told.contains("observed, not enforced: profile tried; what holds is wide"),
            "{told}"
        );
        assert!(told.contains("mount would have refused"), "{told}");
        let (_, enforced) =
            palisade(&world, &["profile", "show", "enforced", "--profiles", profiles]);
        assert!(!enforced.to_lowercase().contains("observe"), "{enforced}");
    }
}
