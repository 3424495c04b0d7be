//! Tests of patches: what they may change, and that they are applied completely or not at all.

use super::tree::{Kept, snapshot};
use crate::tools::testing::{Broker, Draft};
use palisade_plan::{
    cell::{FileError, FileErrorKind, FileRequest},
    change::{Act, EffectKind},
};
use rustix::{fs::CWD, io::Errno};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

fn put(broker: &Broker, name: &str, text: &str) {
    let path = broker.path(name);
    fs::create_dir_all(path.as_path().parent().unwrap()).unwrap();
    fs::write(path.as_path(), text).unwrap();
}

fn act(broker: &Broker) -> Act {
    Act::Patch { base: broker.path("") }
}

fn refused(broker: &Broker, patch: &str) -> FileError {
    let before = snapshot(broker, Kept::Everything);
    let error = broker.prepare(act(broker), &[patch.as_bytes()]).unwrap_err();
    assert_eq!(snapshot(broker, Kept::Everything), before, "{patch}");
    error
}

/// A patch with every kind of part, for files that are each in a directory of their own.
const ALL: &str = "\
diff --git a/one/edit b/one/edit
--- a/one/edit
+++ b/one/edit
@@ -1,2 +1,2 @@
 a
-b
+B
diff --git a/two/new/deep/file b/two/new/deep/file
new file mode 100755
--- /dev/null
+++ b/two/new/deep/file
@@ -0,0 +1 @@
+added
diff --git a/three/gone b/three/gone
deleted file mode 100644
--- a/three/gone
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/four/from b/five/to
similarity index 50%
rename from four/from
rename to five/to
--- a/four/from
+++ b/five/to
@@ -1 +1 @@
-x
+y
diff --git a/six/mode b/six/mode
old mode 100644
new mode 100755
diff --git a/seven/source b/eight/copy
similarity index 100%
copy from seven/source
copy to eight/copy
";

const DIRECTORIES: [&str; 8] = ["one", "two", "three", "four", "five", "six", "seven", "eight"];

fn files(broker: &Broker) {
    put(broker, "one/edit", "a\nb\n");
    put(broker, "two/beside", "");
    put(broker, "three/gone", "gone\n");
    put(broker, "four/from", "x\n");
    put(broker, "five/beside", "");
    put(broker, "six/mode", "m\n");
    put(broker, "seven/source", "s\n");
    put(broker, "eight/beside", "");
    for (name, mode) in [("six/mode", 0o644), ("four/from", 0o600)] {
        let path = broker.path(name);
        fs::set_permissions(path.as_path(), fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn mode(broker: &Broker, name: &str) -> u32 {
    fs::metadata(broker.path(name).as_path()).unwrap().permissions().mode() & 0o7777
}

#[test]
fn every_kind_of_part_is_done_and_undone() {
    let broker = Broker::new();
    files(&broker);
    let before = snapshot(&broker, Kept::NotTimes);
    let (draft, changed) = broker.change(act(&broker), &[ALL.as_bytes()]).unwrap();
    let read = |name: &str| fs::read_to_string(broker.path(name).as_path()).unwrap();
    assert_eq!(read("one/edit"), "a\nB\n");
    assert_eq!(read("two/new/deep/file"), "added\n");
    assert_eq!(mode(&broker, "two/new/deep/file") & 0o100, 0o100);
    assert!(!broker.path("three/gone").as_path().exists());
    assert!(!broker.path("four/from").as_path().exists());
    assert_eq!((read("five/to"), mode(&broker, "five/to")), ("y\n".into(), 0o600));
    assert_eq!(mode(&broker, "six/mode"), 0o755);
    assert_eq!(read("eight/copy"), read("seven/source"));
    assert_eq!(changed.wrote.len(), 6);
    let moved = EffectKind::Moved { from: broker.path("four/from") };
    assert!(draft.prepared.effects.iter().any(|effect| effect.kind == moved));
    let after = snapshot(&broker, Kept::NotTimes);
    let (redo, _) = broker.undo(&draft, false).unwrap();
    assert_eq!(snapshot(&broker, Kept::NotTimes), before);
    broker.undo(&redo, false).unwrap();
    assert_eq!(snapshot(&broker, Kept::NotTimes), after);
}

fn set(broker: &Broker, name: &str, mode: u32) {
    let path = broker.path(name);
    fs::set_permissions(path.as_path(), fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes the commit fail in each directory in turn, and checks that everything is as it was.
fn fails_everywhere(broker: &Broker, prepare: impl Fn() -> Draft, directories: &[&str]) {
    for name in directories {
        let before = snapshot(broker, Kept::NotTimes);
        prepare();
        set(broker, name, 0o555);
        let reply = broker.ask(&FileRequest::Commit);
        set(broker, name, 0o755);
        let error = crate::tools::testing::failed(reply);
        let denied = (FileErrorKind::OutsidePolicy, Errno::ACCESS.raw_os_error());
        assert_eq!((error.kind, error.errno), denied, "{name}: {}", error.message);
        assert!(!error.message.contains("could not be restored"), "{}", error.message);
        assert_eq!(snapshot(broker, Kept::NotTimes), before, "{name}");
    }
}

#[test]
fn a_step_that_fails_takes_all_the_others_back() {
    let broker = Broker::new();
    files(&broker);
    for name in DIRECTORIES {
        set(&broker, name, 0o755);
    }
    let prepare = || broker.prepare(act(&broker), &[ALL.as_bytes()]).unwrap();
    // In the sixth directory only a mode changes, and the seventh is only read.
    let written = ["one", "two", "three", "four", "five", "eight"];
    fails_everywhere(&broker, prepare, &written);
    let (draft, _) = broker.change(act(&broker), &[ALL.as_bytes()]).unwrap();
    let (entries, contents) = draft.restorations();
    let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let undo = Act::Restore { entries, force: false };
    let prepare = || broker.prepare(undo.clone(), &contents).unwrap();
    fails_everywhere(&broker, prepare, &written);
    broker.undo(&draft, false).unwrap();
}

#[test]
fn what_changes_between_the_two_phases_is_noticed() {
    let broker = Broker::new();
    files(&broker);
    for name in ["one/edit", "three/gone", "four/from", "six/mode", "five/to", "eight/copy"] {
        broker.prepare(act(&broker), &[ALL.as_bytes()]).unwrap();
        let path = broker.path(name);
        let there = fs::read(path.as_path()).ok();
        fs::write(path.as_path(), "theirs").unwrap();
        let before = snapshot(&broker, Kept::NotTimes);
        let error = crate::tools::testing::failed(broker.ask(&FileRequest::Commit));
        assert_eq!(
            (error.kind, error.errno),
            (FileErrorKind::Conflict, Errno::STALE.raw_os_error())
        );
        assert_eq!(snapshot(&broker, Kept::NotTimes), before, "{name}");
        match there {
            Some(content) => fs::write(path.as_path(), content).unwrap(),
            None => fs::remove_file(path.as_path()).unwrap(),
        }
    }
    broker.change(act(&broker), &[ALL.as_bytes()]).unwrap();
}

fn add(path: &str) -> String {
    format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n")
}

#[test]
fn a_hostile_patch_changes_nothing() {
    let broker = Broker::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("victim"), "v\n").unwrap();
    put(&broker, "file", "one\ntwo\n");
    put(&broker, "taken", "t\n");
    symlink(outside.path(), broker.path("way").as_path()).unwrap();
    symlink("file", broker.path("link").as_path()).unwrap();
    rustix::fs::mkfifoat(CWD, broker.path("fifo").as_path(), 0o600.into()).unwrap();
    fs::create_dir(broker.path("dir").as_path()).unwrap();
    let rename = "diff --git a/file b/taken\nrename from file\nrename to taken\n";
    let update = |path: &str| format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-v\n+w\n");
    let link =
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n";
    let policy = FileErrorKind::OutsidePolicy;
    let cases = [
        (add("b/../../escape"), policy),
        (add("/etc/escape"), policy),
        (add("b/way/new"), policy),
        (update("way/victim"), policy),
        (update("link"), FileErrorKind::NotRegular),
        (update("fifo"), FileErrorKind::NotRegular),
        (update("dir"), FileErrorKind::NotRegular),
        (update("absent"), FileErrorKind::NotFound),
        (update("file"), FileErrorKind::NoMatch),
        (add("b/taken"), FileErrorKind::AlreadyExists),
        (add("b/.palisade-0123abcd.tmp"), FileErrorKind::Invalid),
        (rename.to_owned(), FileErrorKind::AlreadyExists),
        (link.to_owned(), FileErrorKind::Invalid),
        ("nonsense".to_owned(), FileErrorKind::Invalid),
        (String::new(), FileErrorKind::Invalid),
        // The first part alone would apply.
        (add("b/fine") + &update("file"), FileErrorKind::NoMatch),
    ];
    for (patch, kind) in cases {
        let error = refused(&broker, &patch);
        assert_eq!(error.kind, kind, "{patch}: {}", error.message);
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read(outside.path().join("victim")).unwrap(), b"v\n");
}

#[test]
fn a_million_hunks_are_bounded() {
    let broker = Broker::new();
    put(&broker, "file", "x\n");
    let mut patch = String::from("--- a/file\n+++ b/file\n");
    while patch.len() < 7 << 20 {
        patch.push_str("@@ -1 +1 @@\n-y\n+z\n");
    }
    let before = snapshot(&broker, Kept::Everything);
    broker.send(&crate::tools::testing::changing(act(&broker)));
    for piece in patch.as_bytes().chunks(palisade_plan::cell::CHUNK) {
        broker.send(&crate::tools::testing::content(piece, false));
    }
    broker.send(&crate::tools::testing::content(b"", true));
    let error = crate::tools::testing::failed(broker.prepared().unwrap_err());
    assert_eq!(error.kind, FileErrorKind::NoMatch);
    assert_eq!(snapshot(&broker, Kept::Everything), before);
}
