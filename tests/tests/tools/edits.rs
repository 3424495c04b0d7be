//! The tools that change files, each on every kind of argument and file: what they do, what they
//! refuse, and that a refusal leaves everything as it was.

use palisade_protocol::ErrorCode;
use palisade_tests::{Mode, Sandbox, World, data, profile_never_asking, tree};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
};

/// A world whose session asks nobody, with some files in its workspace.
fn scene(mode: Mode) -> (World, Sandbox) {
    let world = World::new(mode);
    world.add_unasked("free", &profile_never_asking());
    let workspace = world.workspace();
    let file = |name: &str, text: &str, mode: u32| {
        let path = workspace.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        world.give(&path);
    };
    file("a", "one\ntwo\nthree\n", 0o640);
    file("b", "two\r\ntwo\r\n", 0o755);
    file("empty", "", 0o644);
    file("binary", "\0\u{1}two\0", 0o644);
    fs::create_dir(workspace.join("d")).unwrap();
    world.give(&workspace.join("d"));
    file("d/x", "x\n", 0o600);
    symlink("a", workspace.join("link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        workspace.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    fs::set_permissions(workspace.join("fifo"), fs::Permissions::from_mode(0o666)).unwrap();
    let sandbox = world.open_with("free");
    (world, sandbox)
}

fn read(world: &World, name: &str) -> String {
    fs::read_to_string(world.workspace().join(name)).unwrap()
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_string": old, "new_string": new})
}

#[test]
fn each_tool_does_what_it_says() {
    for mode in Mode::all() {
        let (world, sandbox) = scene(mode);
        let workspace = world.workspace();
        let done = sandbox.done("edit", edit("a", "two", "2"));
        assert_eq!(read(&world, "a"), "one\n2\nthree\n");
        assert_eq!(mode_of(&workspace.join("a")), 0o640, "{mode:?}: its mode is kept");
        assert_eq!(data(&done)["effects"][0]["effect"], json!("edited"));
        assert_eq!(data(&done)["size"], json!(12));
        assert_eq!(data(&done)["replacements"], json!(1));
        assert_eq!(done.undo.as_deref(), Some(done.call_id.as_str()));
        assert_eq!(done.output, format!("edited {}\n", workspace.join("a").display()));
        let all =
            json!({"path": "b", "old_string": "two", "new_string": "zwei", "replace_all": true});
        let done = sandbox.done("edit", all);
        assert_eq!(read(&world, "b"), "zwei\r\nzwei\r\n");
        assert_eq!(data(&done)["replacements"], json!(2));
        assert!(done.output.ends_with("\nreplaced 2 occurrences\n"), "{}", done.output);
        // Through a link, which stays one.
        assert!(sandbox.done("edit", edit("link", "one", "1")).success);
        assert_eq!(read(&world, "a"), "1\n2\nthree\n");
        assert!(fs::symlink_metadata(workspace.join("link")).unwrap().is_symlink());
        let many = json!({"files": [
            {"path": "a", "edits": [
                {"old_string": "1", "new_string": "I"}, {"old_string": "I\n2", "new_string": "I\nII"},
            ]},
            {"path": "d/x", "edits": [{"old_string": "x", "new_string": "y"}]},
        ]});
        assert!(sandbox.done("multi_edit", many).success);
        assert_eq!(
            (read(&world, "a"), read(&world, "d/x")),
            ("I\nII\nthree\n".into(), "y\n".into())
        );
        let patch = "*** Begin Patch\n*** Update File: a\n@@\n-three\n+III\n*** Add File: new/n\n+n\n\
                     *** Delete File: empty\n*** End Patch\n";
        let done = sandbox.done("apply_patch", json!({"patch": patch}));
        assert_eq!(
            (read(&world, "a"), read(&world, "new/n")),
            ("I\nII\nIII\n".into(), "n\n".into())
        );
        assert!(!workspace.join("empty").exists());
        assert!(done.output.contains("deleted"), "{}", done.output);
        assert!(sandbox.done("move_file", json!({"from": "d", "to": "deep/er/d"})).success);
        assert_eq!(read(&world, "deep/er/d/x"), "y\n");
        assert!(!workspace.join("d").exists());
        assert!(
            sandbox.done("move_file", json!({"from": "b", "to": "a", "overwrite": true})).success
        );
        assert_eq!(read(&world, "a"), "zwei\r\nzwei\r\n");
        assert!(sandbox.done("move_file", json!({"from": "link", "to": "other"})).success);
        assert_eq!(fs::read_link(workspace.join("other")).unwrap(), Path::new("a"));
        assert!(sandbox.done("make_dir", json!({"path": "m/n/o"})).success);
        assert!(workspace.join("m/n/o").is_dir());
        let again = sandbox.done("make_dir", json!({"path": "m/n/o"}));
        assert_eq!(again.output, "the directory exists already\n");
        let gone = sandbox.done("delete_file", json!({"path": "deep", "recursive": true}));
        assert_eq!(data(&gone)["entries"], json!(4));
        assert!(gone.undo.is_some());
        let gone = sandbox.done("delete_file", json!({"path": "fifo", "permanent": true}));
        assert_eq!(gone.undo, None, "nothing is kept of what goes for good");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let patch = |text: &str| json!({"patch": text});
    let begin = |text: &str| json!({"patch": format!("*** Begin Patch\n{text}*** End Patch\n")});
    let refusals = [
        ("edit", edit("a", "four", "4"), ErrorCode::NoMatch),
        ("edit", edit("b", "two", "2"), ErrorCode::NoMatch),
        ("edit", edit("none", "a", "b"), ErrorCode::NotFound),
        ("edit", edit("d", "a", "b"), ErrorCode::NotRegular),
        ("edit", edit("fifo", "a", "b"), ErrorCode::NotRegular),
        ("edit", edit("/dev/null", "a", "b"), ErrorCode::NotRegular),
        ("edit", edit("/usr/bin/env", "a", "b"), ErrorCode::OutsidePolicy),
        ("edit", edit("a", "", "b"), ErrorCode::InvalidArguments),
        ("edit", edit("a", "b", "b"), ErrorCode::InvalidArguments),
        // The second file does not fit, and so the first is left alone.
        (
            "multi_edit",
            json!({"files": [
                {"path": "a", "edits": [{"old_string": "one", "new_string": "1"}]},
                {"path": "d/x", "edits": [{"old_string": "nothing", "new_string": "1"}]},
            ]}),
            ErrorCode::NoMatch,
        ),
        ("multi_edit", json!({"path": "a", "edits": []}), ErrorCode::InvalidArguments),
        ("apply_patch", patch("this is not a patch"), ErrorCode::InvalidArguments),
        ("apply_patch", begin("*** Update File: a\n@@\n-four\n+4\n"), ErrorCode::NoMatch),
        (
            "apply_patch",
            begin("*** Delete File: a\n*** Update File: b\n@@\n-four\n+4\n"),
            ErrorCode::NoMatch,
        ),
        ("apply_patch", begin("*** Add File: a\n+x\n"), ErrorCode::AlreadyExists),
        ("move_file", json!({"from": "none", "to": "x"}), ErrorCode::NotFound),
        ("move_file", json!({"from": "a", "to": "b"}), ErrorCode::AlreadyExists),
        ("move_file", json!({"from": "d", "to": "d/below"}), ErrorCode::InvalidArguments),
        ("make_dir", json!({"path": "a"}), ErrorCode::AlreadyExists),
        ("delete_file", json!({"path": "d"}), ErrorCode::NotRegular),
        ("delete_file", json!({"path": "none"}), ErrorCode::NotFound),
        ("delete_file", json!({"path": ".", "recursive": true}), ErrorCode::InvalidArguments),
        ("undo", json!({"call_id": "0197a5c8-0000-7000-8000-000000000000"}), ErrorCode::NotFound),
        ("undo", json!({"to": "c1"}), ErrorCode::NotFound),
        ("undo", json!({}), ErrorCode::InvalidArguments),
    ];
    for mode in Mode::all() {
        let (world, sandbox) = scene(mode);
        let before = tree(&world.workspace());
        assert!(before.len() >= 8, "{before:?}");
        for (tool, arguments, code) in &refusals {
            let shown = format!("{mode:?} {tool} {arguments}");
            let result = sandbox.call(tool, arguments.clone());
            let error = result.error.unwrap_or_else(|| panic!("{shown} was done"));
            assert_eq!(error.code, *code, "{shown}: {}", error.message);
            assert_eq!(result.undo, None, "{shown}");
            assert_eq!(tree(&world.workspace()), before, "{shown}");
        }
        // The nearest lines are shown where a text is not there, and how often it is where it is.
        let (_, message) = sandbox.refused("edit", edit("a", "one\ntwoo\nthree", "2"));
        assert!(message.contains("two"), "{message}");
        let (_, message) = sandbox.refused("edit", edit("b", "two", "2"));
        assert!(message.contains('2'), "{message}");
    }
}

#[test]
fn no_tool_leads_outside() {
    for mode in Mode::all() {
        let (world, sandbox) = scene(mode);
        let (canary, workspace) = (world.canary(), world.workspace());
        symlink(&canary, workspace.join("to-canary")).unwrap();
        symlink(world.outside(), workspace.join("to-outside")).unwrap();
        let outside = canary.display().to_string();
        let before = tree(&workspace);
        for path in [outside.as_str(), "to-canary", "to-outside/canary", "../outside/canary"] {
            let patch = format!(
                "*** Begin Patch\n*** Update File: {path}\n@@\n-canary\n+mine\n*** End Patch\n"
            );
            let git = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-canary\n+mine\n");
            for (tool, arguments) in [
                ("edit", edit(path, "canary", "mine")),
                (
                    "multi_edit",
                    json!({"path": path, "edits": [
                        {"old_string": "canary", "new_string": "mine"},
                    ]}),
                ),
                ("apply_patch", json!({"patch": patch})),
                ("apply_patch", json!({"patch": git})),
                ("write_file", json!({"path": path, "content": "mine"})),
                ("write_file", json!({"path": path, "content": "mine", "mode": "append"})),
                ("make_dir", json!({"path": format!("{path}/d")})),
            ] {
                // A session has a /tmp of its own, where such a file can be made.
                let in_tmp = path == outside || path.starts_with("..");
                if in_tmp && matches!(tool, "write_file" | "make_dir") {
                    continue;
                }
                let result = sandbox.call(tool, arguments);
                let error =
                    result.error.unwrap_or_else(|| panic!("{mode:?} {tool} {path} was done"));
                let refused = [
                    ErrorCode::NotFound,
                    ErrorCode::OutsidePolicy,
                    ErrorCode::InvalidArguments,
                    ErrorCode::NotRegular,
                ];
                assert!(refused.contains(&error.code), "{mode:?} {tool} {path}: {error}");
                world.assert_canary_untouched();
            }
        }
        for (from, to) in [
            (outside.as_str(), "stolen"),
            ("to-outside/canary", "stolen"),
            ("a", "to-outside/mine"),
            ("a", "/tmp/a"),
            ("a", "/usr/a"),
        ] {
            let arguments = json!({"from": from, "to": to, "overwrite": true});
            let result = sandbox.call("move_file", arguments);
            world.assert_canary_untouched();
            if result.success {
                // The session's own /tmp is no way out; it is brought back for the comparison.
                assert!(to.starts_with("/tmp/") || from.starts_with("/tmp/"), "{from} {to}");
                assert!(sandbox.done("undo", json!({"call_id": result.undo})).success);
            }
        }
        for path in [outside.as_str(), "to-outside/canary", "../outside/canary"] {
            let deleted = sandbox.call("delete_file", json!({"path": path})).success;
            assert!(!deleted || path == outside || path.starts_with(".."), "{mode:?} {path}");
            world.assert_canary_untouched();
        }
        assert_eq!(tree(&workspace), before);
        world.assert_canary_untouched();
        // The control: the same acts inside.
        assert!(sandbox.done("edit", edit("a", "one", "mine")).success);
        assert!(sandbox.done("move_file", json!({"from": "a", "to": "mine"})).success);
    }
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let patch = "*** Begin Patch\n*** Update File: a\n@@\n-two\n+2\n*** Delete File: empty\n*** End Patch\n";
    let calls = [
        ("write_file", json!({"path": "a", "content": "new"}), "ask"),
        ("write_file", json!({"path": "fresh", "content": "new"}), "allow"),
        ("edit", edit("a", "two", "2"), "allow"),
        (
            "multi_edit",
            json!({"path": "a", "edits": [{"old_string": "two", "new_string": "2"}]}),
            "allow",
        ),
        ("apply_patch", json!({"patch": patch}), "ask"),
        ("move_file", json!({"from": "a", "to": "c"}), "allow"),
        ("move_file", json!({"from": "a", "to": "b", "overwrite": true}), "ask"),
        ("make_dir", json!({"path": "m"}), "allow"),
        ("delete_file", json!({"path": "d", "recursive": true}), "ask"),
    ];
    for mode in Mode::all() {
        let (world, _) = scene(mode);
        let sandbox = world.open_with("workspace");
        let before = tree(&world.workspace());
        for (tool, arguments, judgement) in &calls {
            let call = sandbox.session.call(tool, arguments).dry_run();
            let result = sandbox.wait(async { call.await.unwrap() });
            assert!(result.success, "{mode:?} {tool}: {:?}", result.error);
            let report = data(&result);
            assert_eq!(report["judgement"], json!(judgement), "{mode:?} {tool} {report}");
            assert_eq!(report["dry_run"], json!(true));
            assert!(!report["effects"].as_array().unwrap().is_empty(), "{tool} {report}");
            assert!(!report["paths"].as_array().unwrap().is_empty(), "{tool} {report}");
            assert_eq!((result.undo, result.checkpoint), (None, None), "{tool}");
        }
        let call = sandbox.session.call("edit", edit("a", "two", "2")).dry_run();
        let report = data(&sandbox.wait(async { call.await.unwrap() }));
        assert!(report["diff"].as_str().unwrap().contains("-two\n+2\n"), "{report}");
        assert_eq!(tree(&world.workspace()), before, "{mode:?}");
        // The control: without it, the same is done.
        assert!(sandbox.done("edit", edit("a", "two", "2")).success);
        assert_eq!(read(&world, "a"), "one\n2\nthree\n");
    }
}

#[test]
fn hostile_patches_are_bounded_and_refused() {
    let begin = |text: &str| format!("*** Begin Patch\n{text}*** End Patch\n");
    let hunks: String = (0..200_000).map(|_| "@@ -1 +1 @@\n-one\n+one\n").collect();
    let patches = [
        "--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-root\n+mine\n".to_owned(),
        "--- a/../../outside/canary\n+++ b/../../outside/canary\n@@ -1 +1 @@\n-canary\n+mine\n".to_owned(),
        begin("*** Add File: ../outside/new\n+mine\n"),
        begin("*** Add File: /etc/new\n+mine\n"),
        begin("*** Update File: a\n*** Move to: ../outside/a\n@@\n-two\n+2\n"),
        begin("*** Update File: a\n*** Move to: b\n@@\n-two\n+2\n"),
        begin("*** Delete File: ../outside/canary\n"),
        begin("*** Delete File: d\n"),
        begin("*** Update File: fifo\n@@\n-two\n+2\n"),
        "diff --git a/a b/b\nrename from a\nrename to b\n".to_owned(),
        "diff --git a/a b/a\nold mode 100644\nnew mode 104755\n".to_owned(),
        "diff --git a/evil b/evil\nnew file mode 120000\n--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n\
         +/etc/passwd\n\\ No newline at end of file\n"
            .to_owned(),
        "--- a/a\n+++ b/a\n@@ -1,99999999999999999999 +1 @@\n-one\n".to_owned(),
        format!("--- a/a\n+++ b/a\n{hunks}"),
        begin(&"*** Add File: x\n+x\n".repeat(2)),
    ];
    for mode in Mode::all() {
        let (world, sandbox) = scene(mode);
        let before = tree(&world.workspace());
        for patch in &patches {
            let shown = patch.get(..patch.floor_char_boundary(80)).unwrap();
            let result = sandbox.call("apply_patch", json!({"patch": patch}));
            assert!(!result.success, "{mode:?} {shown}: {}", result.output);
            assert_eq!(tree(&world.workspace()), before, "{mode:?} {shown}");
            world.assert_canary_untouched();
        }
        // Lines that end in CR LF stay so.
        let patch = "--- a/b\n+++ b/b\n@@ -1,2 +1,2 @@\n-two\r\n+zwei\r\n two\r\n";
        assert!(sandbox.done("apply_patch", json!({"patch": patch})).success);
        assert_eq!(read(&world, "b"), "zwei\r\ntwo\r\n");
    }
}

#[test]
fn a_planted_hard_link_does_not_carry_a_change_outside() {
    for mode in Mode::all() {
        let (world, sandbox) = scene(mode);
        let inside = world.workspace().join("hard");
        let patch = "*** Begin Patch\n*** Update File: hard\n@@\n-canary\n+mine\n*** End Patch\n";
        for (tool, arguments) in [
            ("edit", edit("hard", "canary", "mine")),
            (
                "multi_edit",
                json!({"path": "hard", "edits": [
                    {"old_string": "canary", "new_string": "mine"},
                ]}),
            ),
            ("apply_patch", json!({"patch": patch})),
        ] {
            fs::hard_link(world.canary(), &inside).unwrap();
            let change = sandbox.done(tool, arguments);
            assert_eq!(fs::read_to_string(&inside).unwrap(), "mine\n", "{mode:?} {tool}");
            world.assert_canary_untouched();
            assert!(sandbox.done("undo", json!({"call_id": change.undo})).success);
            assert_eq!(fs::read_to_string(&inside).unwrap(), "canary\n", "{mode:?} {tool}");
            world.assert_canary_untouched();
            assert_eq!(fs::metadata(world.canary()).unwrap().nlink(), 1, "{mode:?} {tool}");
            fs::remove_file(&inside).unwrap();
        }
    }
}
