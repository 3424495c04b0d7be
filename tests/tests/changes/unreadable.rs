//! A command may leave what nobody may read, its owner included: it is committed with the mode that
//! the command gave it, and undone to the mode that it had.

use palisade_client::Answer;
use palisade_protocol::CallResult;
use palisade_tests::{Desk, Mode, profile_with};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn desk(mode: Mode) -> Desk {
    let desk = Desk::new(mode, &profile_with(&[("guard = \"auto\"", "guard = \"transaction\"")]));
    desk.file("f", "text\n");
    desk.file("d/in", "inner\n");
    desk.file("d/deep/er", "deeper\n");
    desk.attach();
    desk
}

fn run(desk: &Desk, line: &str) -> CallResult {
    let (result, _) = desk.bash(line, |_| Answer::approve());
    assert!(result.success, "{line}: {result:?}");
    result
}

fn undo(desk: &Desk, result: &CallResult) {
    let call = json!({"call_id": result.undo.clone().expect("an undo id")});
    let (undone, _) = desk.call("undo", call, |_| Some(Answer::approve()));
    assert!(undone.success, "{undone:?}");
}

#[test]
fn a_file_that_ends_unreadable_is_committed_and_undone() {
    for who in Mode::all() {
        let desk = desk(who);
        let path = desk.path("f");
        let before = (mode(&path), fs::metadata(&path).unwrap().ino());
        for line in ["chmod -r f", "chmod 000 f", "chmod 000 f; echo x > n"] {
            let result = run(&desk, line);
            let left = if line == "chmod -r f" { before.0 & !0o444 } else { 0 };
            assert_eq!(mode(&path), left, "{who:?} {line}");
            undo(&desk, &result);
            // It is the same file, and nobody had to read it.
            let now = (mode(&path), fs::metadata(&path).unwrap().ino());
            assert_eq!(now, before, "{who:?} {line}");
            assert_eq!(desk.text("f").as_deref(), Some("text\n"), "{who:?} {line}");
        }
        // A file that could not be read from the start can be made readable.
        run(&desk, "chmod 000 f");
        run(&desk, "chmod 600 f");
        assert_eq!((mode(&path), desk.text("f").as_deref()), (0o600, Some("text\n")), "{who:?}");
    }
}

#[test]
fn what_is_new_and_unreadable_is_committed_and_undone() {
    for who in Mode::all() {
        let desk = desk(who);
        let line = "echo secret > new; chmod 000 new; echo more >> f; chmod 000 f";
        let result = run(&desk, line);
        assert_eq!((mode(&desk.path("new")), mode(&desk.path("f"))), (0, 0), "{who:?}");
        for name in ["new", "f"] {
            fs::set_permissions(desk.path(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        assert_eq!(desk.text("new").as_deref(), Some("secret\n"), "{who:?}");
        assert_eq!(desk.text("f").as_deref(), Some("text\nmore\n"), "{who:?}");
        for name in ["new", "f"] {
            fs::set_permissions(desk.path(name), fs::Permissions::from_mode(0o000)).unwrap();
        }
        undo(&desk, &result);
        assert_eq!(desk.text("new"), None, "{who:?}");
        assert_eq!(desk.text("f").as_deref(), Some("text\n"), "{who:?}");
        assert_ne!(mode(&desk.path("f")) & 0o400, 0, "{who:?}");
    }
}

#[test]
fn directories_that_nobody_may_enter_are_committed_with_what_is_in_them() {
    for who in Mode::all() {
        let desk = desk(who);
        let was = mode(&desk.path("d"));
        let result = run(&desk, "chmod 000 d");
        assert_eq!(mode(&desk.path("d")), 0, "{who:?}");
        undo(&desk, &result);
        assert_eq!(mode(&desk.path("d")), was, "{who:?}");
        let line = "echo a > d/a; rm d/in; chmod 000 d/deep; chmod 311 d; \
                    mkdir -p t/u/v; echo x > t/u/x; chmod 000 t/u/x t/u; chmod 111 t";
        run(&desk, line);
        let modes = ["d", "t"].map(|name| mode(&desk.path(name)));
        assert_eq!(modes, [0o311, 0o111], "{who:?}");
        for (name, was) in [("d", 0o311), ("d/deep", 0), ("t", 0o111), ("t/u", 0), ("t/u/x", 0)] {
            assert_eq!(mode(&desk.path(name)), was, "{who:?} {name}");
            let open = fs::Permissions::from_mode(0o700);
            fs::set_permissions(desk.path(name), open).unwrap();
        }
        assert_eq!(desk.text("d/a").as_deref(), Some("a\n"), "{who:?}");
        assert_eq!(desk.text("d/in"), None, "{who:?}");
        assert_eq!(desk.text("d/deep/er").as_deref(), Some("deeper\n"), "{who:?}");
        assert_eq!(desk.text("t/u/x").as_deref(), Some("x\n"), "{who:?}");
        assert!(desk.path("t/u/v").is_dir(), "{who:?}");
    }
}
