//! Tests of changes in two phases: every act, what it reports first, and that undo restores the
//! state before.

use super::tree::{Kept, snapshot};
use crate::tools::testing::{Broker, Draft, changing, content, failed};
use palisade_plan::{
    Path,
    cell::{FileErrorKind, FileReply, FileRequest},
    change::{
        Act, Before, Change, EffectKind, EvidenceDepth, FileEdits, Keep, Print, Replacement, State,
        WriteMode,
    },
};
use rustix::{
    fs::{CWD, Mode},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

fn put(broker: &Broker, name: &str, text: &str) {
    let path = broker.path(name);
    fs::create_dir_all(path.as_path().parent().unwrap()).unwrap();
    fs::write(path.as_path(), text).unwrap();
}

fn text(broker: &Broker, name: &str) -> String {
    fs::read_to_string(broker.path(name).as_path()).unwrap()
}

pub(super) fn edit(path: Path, old: &str, new: &str) -> FileEdits {
    let (old, new) = (old.as_bytes().to_vec(), new.as_bytes().to_vec());
    FileEdits { path, edits: vec![Replacement { old, new, all: false }] }
}

/// Makes a change, checks that preparing alone changed nothing, undoes it, and undoes the undo.
fn there_and_back(broker: &Broker, act: Act, contents: &[&[u8]]) -> Draft {
    let before = snapshot(broker, Kept::Everything);
    broker.prepare(act.clone(), contents).unwrap();
    assert_eq!(broker.ask(&FileRequest::Abandon), FileReply::Abandoned);
    assert_eq!(snapshot(broker, Kept::Everything), before);
    let (draft, _) = broker.change(act, contents).unwrap();
    let (before, after) = (before.without_times(), snapshot(broker, Kept::NotTimes));
    let (redo, _) = broker.undo(&draft, false).unwrap();
    assert_eq!(snapshot(broker, Kept::NotTimes), before);
    let (again, _) = broker.undo(&redo, false).unwrap();
    assert_eq!(snapshot(broker, Kept::NotTimes), after);
    broker.undo(&again, false).unwrap();
    assert_eq!(snapshot(broker, Kept::NotTimes), before);
    draft
}

#[test]
fn a_write_says_what_it_replaces_and_comes_back() {
    let broker = Broker::new();
    put(&broker, "file", "old");
    let path = broker.path("file");
    fs::set_permissions(path.as_path(), fs::Permissions::from_mode(0o640)).unwrap();
    let act = Act::Write { path: path.clone(), mode: WriteMode::Overwrite };
    let draft = there_and_back(&broker, act, &[b"newer"]);
    let [(Before::State { path: kept, state }, content)] = draft.befores.as_slice() else {
        panic!("{draft:?}")
    };
    assert_eq!((kept, content.as_slice()), (&path, b"old".as_slice()));
    assert!(matches!(state, State::File { mode: 0o640, size: 3, .. }), "{state:?}");
    let [effect] = draft.prepared.effects.as_slice() else { panic!("{draft:?}") };
    assert_eq!((effect.size_before, effect.size_after), (3, 5));
    assert_eq!(effect.kind, EffectKind::Replaced);
    let digest = Sha256::digest("newer").into();
    assert_eq!(effect.print, Print::File { mode: 0o640, digest });
    assert!(effect.replaces.is_some());
}

#[test]
fn a_new_file_and_its_directories_come_and_go_together() {
    let broker = Broker::new();
    let act = Act::Write { path: broker.path("a/b/file"), mode: WriteMode::Create };
    let draft = there_and_back(&broker, act, &[b"new"]);
    let kinds: Vec<_> = draft.prepared.effects.iter().map(|effect| &effect.kind).collect();
    assert_eq!(kinds, [&EffectKind::Created; 3]);
    assert_eq!(broker.names(), Vec::<String>::new());
}

#[test]
fn appending_and_linked_files_come_back() {
    let broker = Broker::new();
    put(&broker, "real/file", "one\n");
    symlink("real/file", broker.path("link").as_path()).unwrap();
    let act = Act::Write { path: broker.path("link"), mode: WriteMode::Append };
    let draft = there_and_back(&broker, act, &[b"two\n"]);
    assert_eq!(draft.prepared.effects[0].kind, EffectKind::Appended);
    assert_eq!(draft.prepared.effects[0].path, broker.path("real/file"));
}

#[test]
fn edits_of_many_files_are_all_or_nothing() {
    let broker = Broker::new();
    put(&broker, "one", "a\nb\nc\n");
    put(&broker, "two", "x\r\ny\r\n");
    let files =
        vec![edit(broker.path("one"), "b\n", "B\n"), edit(broker.path("two"), "y\n", "Y\n")];
    let draft = there_and_back(&broker, Act::Edit { files: files.clone() }, &[]);
    assert!(draft.prepared.effects.iter().all(|effect| effect.kind == EffectKind::Edited));
    broker.change(Act::Edit { files: files.clone() }, &[]).unwrap();
    assert_eq!(
        (text(&broker, "one"), text(&broker, "two")),
        ("a\nB\nc\n".into(), "x\r\nY\r\n".into())
    );
    // The second edit does not match any more, so the first is not made either.
    put(&broker, "one", "a\nb\nc\n");
    let before = snapshot(&broker, Kept::Everything);
    let error = broker.prepare(Act::Edit { files }, &[]).unwrap_err();
    assert_eq!((error.kind, error.errno), (FileErrorKind::NoMatch, 0));
    assert!(error.message.contains("the old text is not in the file"), "{}", error.message);
    assert_eq!(snapshot(&broker, Kept::Everything), before);
}

#[test]
fn an_edit_is_refused_where_it_can_not_be_meant() {
    let broker = Broker::new();
    put(&broker, "file", "same\nsame\n");
    fs::create_dir(broker.path("dir").as_path()).unwrap();
    symlink("file", broker.path("link").as_path()).unwrap();
    let before = snapshot(&broker, Kept::Everything);
    let refused = |files: Vec<FileEdits>| broker.prepare(Act::Edit { files }, &[]).unwrap_err();
    let one = |name: &str, old: &str, new: &str| refused(vec![edit(broker.path(name), old, new)]);
    let cases = [
        (one("file", "same", "other").kind, FileErrorKind::NoMatch),
        (one("file", "none", "other").kind, FileErrorKind::NoMatch),
        (one("file", "", "other").kind, FileErrorKind::Invalid),
        (one("file", "same", "same").kind, FileErrorKind::Invalid),
        (one("absent", "a", "b").kind, FileErrorKind::NotFound),
        (one("dir", "a", "b").kind, FileErrorKind::NotRegular),
        (refused(Vec::new()).kind, FileErrorKind::Invalid),
        (
            refused(vec![
                edit(broker.path("file"), "same\nsame", "x"),
                edit(broker.path("link"), "same\nsame", "x"),
            ])
            .kind,
            FileErrorKind::Invalid,
        ),
    ];
    for (at, (found, expected)) in cases.into_iter().enumerate() {
        assert_eq!(found, expected, "{at}");
    }
    assert_eq!(snapshot(&broker, Kept::Everything), before);
}

#[test]
fn what_is_deleted_is_kept_and_comes_back() {
    let broker = Broker::new();
    put(&broker, "tree/deep/file", "content");
    put(&broker, "tree/empty", "");
    symlink("../elsewhere", broker.path("tree/link").as_path()).unwrap();
    fs::create_dir(broker.path("tree/locked").as_path()).unwrap();
    fs::set_permissions(broker.path("tree/locked").as_path(), fs::Permissions::from_mode(0o511))
        .unwrap();
    put(&broker, "single", "s");
    symlink("nowhere", broker.path("dangling").as_path()).unwrap();
    for (name, entries) in [("single", 1), ("dangling", 1), ("tree", 6)] {
        let act = Act::Delete { path: broker.path(name), recursive: true };
        let draft = there_and_back(&broker, act, &[]);
        assert_eq!(draft.prepared.effects.len(), 1);
        assert_eq!(draft.prepared.effects[0].kind, EffectKind::Deleted { entries });
        assert_eq!(draft.befores.len() as u64, entries);
    }
}

#[test]
fn what_can_not_be_put_back_is_removed_and_says_so() {
    let broker = Broker::new();
    let fifo = broker.path("fifo");
    rustix::fs::mkfifoat(CWD, fifo.as_path(), Mode::from_raw_mode(0o600)).unwrap();
    let act = Act::Delete { path: fifo, recursive: false };
    let (draft, _) = broker.change(act, &[]).unwrap();
    assert!(matches!(draft.befores[0].0, Before::State { state: State::Other, .. }));
    for force in [false, true] {
        let (undo, changed) = broker.undo(&draft, force).unwrap();
        assert!(undo.prepared.effects.is_empty() && undo.befores.is_empty());
        assert!(changed.notes[0].contains("/fifo is not restored: it was a FIFO"), "{changed:?}");
    }
    assert_eq!(broker.names(), Vec::<String>::new());
}

#[test]
fn moves_of_every_kind_come_back() {
    let broker = Broker::new();
    put(&broker, "file", "content");
    put(&broker, "dir/inner", "inner");
    put(&broker, "taken", "taken");
    symlink("file", broker.path("link").as_path()).unwrap();
    for (from, to, over) in [
        ("file", "new", false),
        ("file", "made/for/it", false),
        ("link", "dir/link", false),
        ("dir", "other", false),
        ("dir/", "other/", false),
        ("file", "taken", true),
        ("link", "taken", true),
        ("file", "link", true),
    ] {
        let (from, to) = (broker.path(from), broker.path(to));
        there_and_back(&broker, Act::Move { from, to, overwrite: over }, &[]);
    }
}

#[test]
fn a_move_overwrites_nothing_unsaid_and_never_a_directory() {
    let broker = Broker::new();
    put(&broker, "file", "content");
    put(&broker, "taken", "taken");
    put(&broker, "dir/inner", "inner");
    fs::create_dir(broker.path("empty").as_path()).unwrap();
    let before = snapshot(&broker, Kept::Everything);
    for (from, to, overwrite, kind) in [
        ("file", "taken", false, FileErrorKind::AlreadyExists),
        ("file", "empty", true, FileErrorKind::AlreadyExists),
        ("dir", "taken", true, FileErrorKind::AlreadyExists),
        ("dir", "empty", true, FileErrorKind::AlreadyExists),
        ("dir", "dir/inner/x", false, FileErrorKind::NotFound),
        ("dir", "dir/new", false, FileErrorKind::Invalid),
        ("file", "file", true, FileErrorKind::Invalid),
        ("file/", "new", false, FileErrorKind::Invalid),
        ("file", "new/", false, FileErrorKind::Invalid),
        ("absent", "new", false, FileErrorKind::NotFound),
        ("", "new", false, FileErrorKind::Invalid),
        ("file", ".palisade-0123abcd.tmp", false, FileErrorKind::Invalid),
    ] {
        let act = Act::Move { from: broker.path(from), to: broker.path(to), overwrite };
        let error = broker.prepare(act, &[]).unwrap_err();
        assert_eq!(error.kind, kind, "{from} {to}: {}", error.message);
    }
    let act = Act::Move { from: broker.path("file"), to: Path::from("/proc/x"), overwrite: false };
    let error = broker.prepare(act, &[]).unwrap_err();
    assert_eq!((error.kind, error.errno), (FileErrorKind::FileSystem, Errno::XDEV.raw_os_error()));
    assert_eq!(snapshot(&broker, Kept::Everything), before);
}

#[test]
fn directories_are_made_once() {
    let broker = Broker::new();
    there_and_back(&broker, Act::MakeDir { path: broker.path("a/b/c/") }, &[]);
    broker.change(Act::MakeDir { path: broker.path("a/b") }, &[]).unwrap();
    symlink("a/b", broker.path("link").as_path()).unwrap();
    for name in ["a/b", "a", "a/", "a/../a", "link", ""] {
        let (draft, _) = broker.change(Act::MakeDir { path: broker.path(name) }, &[]).unwrap();
        assert!(draft.prepared.effects.is_empty() && draft.befores.is_empty());
    }
    put(&broker, "file", "");
    let error = broker.prepare(Act::MakeDir { path: broker.path("file") }, &[]).unwrap_err();
    assert_eq!(
        (error.kind, error.errno),
        (FileErrorKind::AlreadyExists, Errno::EXIST.raw_os_error())
    );
    let error = broker.prepare(Act::MakeDir { path: broker.path("file/x") }, &[]).unwrap_err();
    assert_eq!((error.kind, error.errno), (FileErrorKind::NotFound, Errno::NOTDIR.raw_os_error()));
}

#[test]
fn a_trial_sends_nothing_and_has_the_same_digest() {
    let broker = Broker::new();
    put(&broker, "file", "old\n");
    put(&broker, "tree/file", "old\n");
    let act = Act::Write { path: broker.path("file"), mode: WriteMode::Overwrite };
    let draft = |act: &Act, keep, data: &[u8]| {
        broker.send(&FileRequest::Change(Change {
            act: act.clone(),
            most: 99,
            keep,
            diff: 9999,
            evidence: EvidenceDepth::Full,
        }));
        if matches!(act, Act::Write { .. }) {
            broker.send(&content(data, true));
        }
        let draft = broker.prepared().unwrap();
        assert_eq!(broker.ask(&FileRequest::Abandon), FileReply::Abandoned);
        draft
    };
    let kept = Keep::Sent { bytes: 99, entries: 9 };
    let (trial, real) = (draft(&act, Keep::Nothing, b"new\n"), draft(&act, kept, b"new\n"));
    assert!(trial.befores.is_empty());
    assert_eq!(trial.prepared, real.prepared);
    assert!(real.prepared.diff.ends_with("@@ -1 +1 @@\n-old\n+new\n"), "{}", real.prepared.diff);
    assert!(real.prepared.diff_complete);
    // Anything else has another digest.
    assert_ne!(draft(&act, kept, b"other\n").prepared.digest, real.prepared.digest);
    put(&broker, "file", "old\n");
    assert_ne!(draft(&act, kept, b"new\n").prepared.digest, real.prepared.digest);
    let delete = Act::Delete { path: broker.path("tree"), recursive: true };
    let (trial, real) = (draft(&delete, Keep::Nothing, b""), draft(&delete, kept, b""));
    assert_eq!(trial.prepared, real.prepared);
    put(&broker, "tree/file", "old\n");
    assert_ne!(draft(&delete, kept, b"").prepared.digest, real.prepared.digest);
}

#[test]
fn what_is_too_much_to_keep_is_refused() {
    let broker = Broker::new();
    put(&broker, "tree/one", "12345");
    put(&broker, "tree/two", "12345");
    let act = Act::Delete { path: broker.path("tree"), recursive: true };
    let before = snapshot(&broker, Kept::Everything);
    let ask = |bytes, entries| {
        let keep = Keep::Sent { bytes, entries };
        broker.send(&FileRequest::Change(Change {
            act: act.clone(),
            most: 0,
            keep,
            diff: 0,
            evidence: EvidenceDepth::Full,
        }));
        broker.prepared()
    };
    for (bytes, entries) in [(9, 9), (10, 2), (0, 0)] {
        assert_eq!(failed(ask(bytes, entries).unwrap_err()).kind, FileErrorKind::TooLarge);
    }
    assert_eq!(snapshot(&broker, Kept::Everything), before);
    assert_eq!(ask(10, 3).unwrap().befores.len(), 3);
    assert_eq!(broker.ask(&FileRequest::Abandon), FileReply::Abandoned);
}

#[test]
fn what_takes_several_messages_to_tell_is_told_whole() {
    let broker = Broker::new();
    let levels = (4000 - broker.path("").0.len()) / 2;
    let deep = Act::MakeDir { path: broker.path("d/".repeat(levels)) };
    let (made, _) = broker.change(deep, &[]).unwrap();
    assert_eq!(made.prepared.effects.len(), levels);
    assert_eq!(broker.names(), ["d"]);
}

#[test]
fn an_abandon_stops_it_in_the_middle_and_one_too_late_is_passed_over() {
    let broker = Broker::new();
    for file in 0..500 {
        put(&broker, &format!("tree/{file}"), "");
    }
    let act = Act::Delete { path: broker.path("tree"), recursive: true };
    broker.channels[0].send_all(&[changing(act), FileRequest::Abandon]).unwrap();
    assert_eq!(broker.next(), FileReply::Abandoned);
    let path = broker.path("absent");
    let act = Act::Delete { path, recursive: false };
    broker.channels[0].send_all(&[changing(act), FileRequest::Abandon]).unwrap();
    assert_eq!(failed(broker.next()).kind, FileErrorKind::NotFound);
    let act = Act::MakeDir { path: broker.path("new") };
    broker.change(act, &[]).unwrap();
    broker.send(&FileRequest::Abandon);
    assert_eq!(broker.names(), ["new", "tree"]);
    broker.change(Act::Delete { path: broker.path("new"), recursive: true }, &[]).unwrap();
    assert_eq!(fs::read_dir(broker.path("tree").as_path()).unwrap().count(), 500);
}
