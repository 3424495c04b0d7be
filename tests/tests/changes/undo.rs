//! Undo: what every changing tool did is put back, unless somebody changed it since, and for
//! nobody else.

use palisade_client::Open;
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{
    Desk, Mode, Sandbox, World, data, outside, profile_never_asking, profile_with, tree,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
};

fn scene(mode: Mode) -> (World, Sandbox) {
    let world = World::new(mode);
    world.add_unasked("free", &profile_never_asking());
    let workspace = world.workspace();
    fs::create_dir_all(workspace.join("d/e")).unwrap();
    for (name, text, mode) in [
        ("a", "one\ntwo\n", 0o640),
        ("b", "bee\n", 0o755),
        ("empty", "", 0o600),
        ("d/x", "x\n", 0o644),
        ("d/e/y", "y\n", 0o400),
    ] {
        fs::write(workspace.join(name), text).unwrap();
        fs::set_permissions(workspace.join(name), fs::Permissions::from_mode(mode)).unwrap();
        world.give(&workspace.join(name));
    }
    world.give(&workspace.join("d"));
    world.give(&workspace.join("d/e"));
    symlink("../a", workspace.join("d/link")).unwrap();
    let sandbox = world.open_with("free");
    (world, sandbox)
}

/// One call of each kind of change.
fn changes() -> Vec<(&'static str, Value)> {
    let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: moved/a\n@@\n-two\n+2\n\
                 *** Add File: new/n\n+n\n*** Delete File: b\n*** End Patch\n";
    let git = "diff --git a/b b/c\nold mode 100755\nnew mode 100644\nsimilarity index 100%\n\
               rename from b\nrename to c\n";
    vec![
        ("write_file", json!({"path": "a", "content": "new"})),
        ("write_file", json!({"path": "a", "content": "new", "mode": "append"})),
        ("write_file", json!({"path": "p/q/new", "content": "new"})),
        ("write_file", json!({"path": "empty", "content": "new"})),
        ("edit", json!({"path": "a", "old_string": "two", "new_string": "2"})),
        (
            "multi_edit",
            json!({"files": [
                {"path": "a", "edits": [{"old_string": "two", "new_string": "2"}]},
                {"path": "d/x", "edits": [{"old_string": "x", "new_string": "X"}]},
            ]}),
        ),
        ("apply_patch", json!({"patch": patch})),
        ("apply_patch", json!({"patch": git})),
        ("move_file", json!({"from": "a", "to": "p/q/a"})),
        ("move_file", json!({"from": "d", "to": "moved"})),
        ("move_file", json!({"from": "a", "to": "b", "overwrite": true})),
        ("make_dir", json!({"path": "p/q/r"})),
        ("delete_file", json!({"path": "a"})),
        ("delete_file", json!({"path": "d/link"})),
        ("delete_file", json!({"path": "d", "recursive": true})),
    ]
}

fn undo(sandbox: &Sandbox, call: &CallResult) -> CallResult {
    sandbox.call("undo", json!({"call_id": call.undo.as_ref().expect("an undo")}))
}

fn undone(sandbox: &Sandbox, call: &CallResult) -> CallResult {
    let result = undo(sandbox, call);
    assert!(result.success, "{:?}", result.error);
    result
}

#[test]
fn every_change_is_undone_and_done_again_and_undone() {
    for mode in Mode::all() {
        let (world, sandbox) = scene(mode);
        let before = tree(&world.workspace());
        for (tool, arguments) in changes() {
            let shown = format!("{mode:?} {tool} {arguments}");
            let change = sandbox.done(tool, arguments);
            let after = tree(&world.workspace());
            assert_ne!(after, before, "{shown}");
            let back = undone(&sandbox, &change);
            assert_eq!(tree(&world.workspace()), before, "{shown}");
            // Undoing the undo does it again, and that can be undone as well.
            let again = undone(&sandbox, &back);
            assert_eq!(tree(&world.workspace()), after, "{shown}");
            undone(&sandbox, &again);
            assert_eq!(tree(&world.workspace()), before, "{shown}");
            // An undone call is not undone twice: the files are not as the call left them.
            let twice = undo(&sandbox, &change).error.expect("a refusal");
            assert_eq!(twice.code, ErrorCode::Conflict, "{shown}: {}", twice.message);
            assert_eq!(tree(&world.workspace()), before, "{shown}");
        }
    }
}

#[test]
fn what_changed_since_is_kept_and_shown_unless_forced() {
    for mode in Mode::all() {
        let (world, sandbox) = scene(mode);
        let file = world.workspace().join("a");
        let edit = json!({"path": "a", "old_string": "two", "new_string": "2"});
        let change = sandbox.done("edit", edit);
        fs::write(&file, "one\n2\nmine\n").unwrap();
        let result = undo(&sandbox, &change);
        let error = result.error.clone().expect("a conflict");
        assert_eq!(error.code, ErrorCode::Conflict, "{}", error.message);
        assert!(error.hint.contains("force: true"), "{}", error.hint);
        let diff = data(&result)["conflict"]["diff"].as_str().unwrap().to_owned();
        assert!(diff.contains("-mine") && diff.contains("+two"), "{diff}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\n2\nmine\n");
        let forced = json!({"call_id": change.undo, "force": true});
        let forced = sandbox.done("undo", forced);
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
        // Even that can be taken back.
        undone(&sandbox, &forced);
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\n2\nmine\n");
        // Another mode is a change as well.
        let change = sandbox.done("write_file", json!({"path": "a", "content": "new"}));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(undo(&sandbox, &change).error.expect("a conflict").code, ErrorCode::Conflict);
        // And something in a directory that the call made.
        let change = sandbox.done("make_dir", json!({"path": "m"}));
        fs::write(world.workspace().join("m/theirs"), "theirs").unwrap();
        assert_eq!(undo(&sandbox, &change).error.expect("a conflict").code, ErrorCode::Conflict);
        assert_eq!(fs::read_to_string(world.workspace().join("m/theirs")).unwrap(), "theirs");
    }
}

#[test]
fn several_calls_go_back_to_a_point() {
    for mode in Mode::all() {
        let (world, sandbox) = scene(mode);
        let edit =
            |old: &str, new: &str| json!({"path": "a", "old_string": old, "new_string": new});
        let point = sandbox.done("edit", edit("one", "1"));
        let at_point = tree(&world.workspace());
        assert!(sandbox.done("edit", edit("two", "2")).success);
        assert!(sandbox.done("write_file", json!({"path": "p/new", "content": "n"})).success);
        assert!(sandbox.done("edit", edit("2", "II")).success);
        assert!(sandbox.done("move_file", json!({"from": "a", "to": "c"})).success);
        assert!(sandbox.done("delete_file", json!({"path": "d", "recursive": true})).success);
        let after = tree(&world.workspace());
        // Something that somebody else did in between is not lost.
        fs::write(world.workspace().join("c"), "theirs").unwrap();
        let (code, _) = sandbox.refused("undo", json!({"to": point.undo}));
        assert_eq!(code, ErrorCode::Conflict);
        fs::write(world.workspace().join("c"), "1\nII\n").unwrap();
        let back = sandbox.done("undo", json!({"to": point.undo}));
        assert_eq!(tree(&world.workspace()), at_point, "{mode:?}");
        undone(&sandbox, &back);
        assert_eq!(tree(&world.workspace()), after, "{mode:?}");
        let (code, _) = sandbox.refused("undo", json!({"to": "none"}));
        assert_eq!(code, ErrorCode::NotFound);
    }
}

#[test]
fn what_was_deleted_comes_back_after_the_session_and_the_daemon() {
    for mode in Mode::all() {
        let (world, sandbox) = scene(mode);
        let before = tree(&world.workspace());
        let gone = sandbox.done("delete_file", json!({"path": "d", "recursive": true}));
        assert!(!world.workspace().join("d").exists());
        drop(sandbox);
        // It is private.
        let kept = world.state().join("undo");
        assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o7777, 0o700);
        let files: Vec<_> = fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].metadata().unwrap().mode() & 0o7777, 0o600);
        // Another workspace can not have it, another session of the same can.
        let daemon = world.daemon();
        let other = world.workspace().join("elsewhere");
        fs::create_dir(&other).unwrap();
        world.give(&other);
        let open = |at| Open::new(at).profile("free");
        let elsewhere = Sandbox::over(daemon.connect(mode), None, open(other.clone())).unwrap();
        let (code, _) = elsewhere.refused("undo", json!({"call_id": gone.undo}));
        assert_eq!(code, ErrorCode::NotFound);
        drop(elsewhere);
        fs::remove_dir(&other).unwrap();
        let sandbox = Sandbox::over(daemon.connect(mode), None, open(world.workspace())).unwrap();
        undone(&sandbox, &gone);
        assert_eq!(tree(&world.workspace()), before, "{mode:?}");
    }
}

#[test]
fn what_is_too_large_to_be_kept_goes_only_for_good() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let small = profile_with(&[
            ("ask = \"destructive\"", "ask = \"never\""),
            ("undo = \"256 MiB\"", "undo = \"64 KiB\""),
        ]);
        world.add_unasked("small", &small);
        let file = world.workspace().join("large");
        fs::write(&file, vec![7; 200_000]).unwrap();
        world.give(&file);
        let sandbox = world.open_with("small");
        let result = sandbox.call("delete_file", json!({"path": "large"}));
        let error = result.error.expect("a refusal");
        assert_eq!(error.code, ErrorCode::TooLarge, "{}", error.message);
        assert!(error.hint.contains("permanent: true"), "{}", error.hint);
        assert_eq!(fs::metadata(&file).unwrap().len(), 200_000);
        assert!(!sandbox.call("write_file", json!({"path": "large", "content": "x"})).success);
        assert_eq!(fs::metadata(&file).unwrap().len(), 200_000);
        let gone = sandbox.done("delete_file", json!({"path": "large", "permanent": true}));
        assert_eq!(gone.undo, None);
        assert!(!file.exists());
        assert_eq!(fs::read_dir(world.state().join("undo")).unwrap().count(), 0);
        // Records of somebody else's content stay, whatever `limits.undo` says.
        let mut calls = Vec::new();
        for at in 0..6 {
            fs::write(&file, vec![at; 20_000]).unwrap();
            world.give(&file);
            calls.push(sandbox.done("delete_file", json!({"path": "large"})));
        }
        undone(&sandbox, &calls[0]);
        assert_eq!(fs::read(&file).unwrap(), vec![0; 20_000]);
        // Of its own work, the oldest goes when it is too much.
        let content = |at: usize| at.to_string().repeat(20_000);
        let write = |at| sandbox.done("write_file", json!({"path": "own", "content": content(at)}));
        let calls: Vec<_> = (0..6).map(write).collect();
        assert_eq!(undo(&sandbox, &calls[1]).error.expect("swept").code, ErrorCode::NotFound);
        undone(&sandbox, &calls[5]);
        assert_eq!(fs::read_to_string(world.workspace().join("own")).unwrap(), content(4));
    }
}

/// Returns a session with no approver, in a repository that ignores `dist/`.
fn repository(mode: Mode) -> Desk {
    let desk = Desk::new(mode, &profile_with(&[]));
    let make = "git init -q . && echo dist/ > .gitignore && echo aaaa > a && git add -A && \
                git -c user.name=a -c user.email=a@a commit -qm a && mkdir dist node_modules && \
                echo precious > dist/x && echo n > node_modules/n";
    outside(&desk.world, &desk.world.workspace(), make);
    desk
}

const SOCKET: &str = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"dist/s\")'";

#[test]
fn fifos_and_sockets_do_not_prevent_undo() {
    for mode in Mode::all() {
        let desk = repository(mode);
        let make = format!("mkfifo dist/f node_modules/f && {SOCKET}");
        outside(&desk.world, &desk.world.workspace(), &make);
        let deleted = desk.sandbox.bash("rm -rf node_modules dist");
        assert!(deleted.success, "{mode:?}: {:?}", deleted.error);
        let kept = data(&deleted)["transaction"]["kept"].to_string();
        assert!(kept.contains("without content (FIFO, socket or device)"), "{mode:?}: {kept}");
        let here = |name: &str| desk.world.workspace().join(name).exists();
        let restored = |call: &CallResult| {
            let back = undone(&desk.sandbox, call);
            assert_eq!(desk.text("dist/x").as_deref(), Some("precious\n"), "{mode:?}");
            assert_eq!(desk.text("node_modules/n").as_deref(), Some("n\n"), "{mode:?}");
            assert!(!here("dist/f") && !here("dist/s") && !here("node_modules/f"));
            let notes = data(&back)["notes"].clone();
            assert_eq!(notes.as_array().map(Vec::len), Some(3), "{mode:?}: {notes}");
            let note = "dist/s is not restored: it was a FIFO, socket or device";
            assert!(back.output.contains(note), "{mode:?}: {}", back.output);
            back
        };
        let back = restored(&deleted);
        // The undo can be undone, and done again.
        let again = undone(&desk.sandbox, &back);
        assert!(!here("dist") && !here("node_modules"), "{mode:?}");
        let back = undone(&desk.sandbox, &again);
        assert_eq!(desk.text("dist/x").as_deref(), Some("precious\n"), "{mode:?}: {back:?}");
    }
}

#[test]
fn a_file_in_the_place_of_a_socket_goes_with_the_calls_that_are_undone() {
    for mode in Mode::all() {
        let desk = repository(mode);
        outside(&desk.world, &desk.world.workspace(), SOCKET);
        let point = desk.sandbox.done("write_file", json!({"path": "p", "content": "p"}));
        assert!(desk.sandbox.bash("rm dist/s dist/x").success);
        assert!(desk.sandbox.bash("echo new > dist/s").success);
        let undone = desk.sandbox.call("undo", json!({"to": point.undo}));
        assert!(undone.success, "{mode:?}: {:?}", undone.error);
        assert_eq!(desk.text("dist/x").as_deref(), Some("precious\n"), "{mode:?}");
        assert_eq!(desk.text("dist/s"), None, "{mode:?}");
    }
}

#[test]
fn force_skips_and_reports_what_is_gone_and_restores_the_rest() {
    for (first, then, gone) in [
        ("echo more >> a; rm -rf dist", "git rm -qf a", "/a is not restored: it is gone"),
        ("chmod 755 a; rm -rf dist", "git rm -qf a", "/a is not restored: it is gone"),
        (
            "echo more >> a; rm -rf dist",
            "git checkout -q a; : > a",
            "/a is not restored: it is shorter",
        ),
        ("mv own new; rm -rf dist", "rm new", "/new is not restored: it is gone"),
    ] {
        for mode in Mode::all() {
            let desk = repository(mode);
            let shown = format!("{mode:?} {first:?} {then:?}");
            assert!(desk.sandbox.bash("echo own > own").success, "{shown}");
            let call = desk.sandbox.bash(first);
            assert!(call.success, "{shown}: {:?}", call.error);
            let after = desk.sandbox.bash(then);
            assert!(after.success, "{shown}: {:?}", after.error);
            let refused = undo(&desk.sandbox, &call).error.expect("a conflict");
            assert_eq!(refused.code, ErrorCode::Conflict, "{shown}: {}", refused.message);
            let forced = json!({"call_id": call.undo, "force": true});
            let forced = desk.sandbox.call("undo", forced);
            assert!(forced.success, "{shown}: {:?}", forced.error);
            assert!(forced.output.contains(gone), "{shown}: {}", forced.output);
            assert_eq!(desk.text("dist/x").as_deref(), Some("precious\n"), "{shown}");
        }
    }
}
