//! What a program does in a transaction is held back, told exactly, and done whole or not at all:
//! the cell alone, without broker and launcher.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can not go on fails"
)]

use palisade_plan::cell::FileErrorKind;
use palisade_tests::{Mode, Transaction, Words as _, World};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

fn world() -> World {
    World::new(Mode::User)
}

/// Everything in a workspace: kind, mode, and content or target.
fn picture(dir: &Path) -> BTreeMap<String, (u32, String)> {
    let mut found = BTreeMap::new();
    add(dir, dir, &mut found);
    found
}

fn add(top: &Path, dir: &Path, found: &mut BTreeMap<String, (u32, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let what = if meta.is_symlink() {
            format!("link {}", fs::read_link(&path).unwrap().display())
        } else if meta.is_dir() {
            add(top, &path, found);
            "directory".to_owned()
        } else {
            format!("file {}", String::from_utf8_lossy(&fs::read(&path).unwrap()))
        };
        let name = path.strip_prefix(top).unwrap().display().to_string();
        found.insert(name, (meta.mode() & 0o7777, what));
    }
}

/// A workspace with a few of everything.
fn furnished() -> World {
    let world = world();
    let at = world.workspace();
    Mode::User.act(|| {
        fs::create_dir_all(at.join("dir/sub")).unwrap();
        fs::write(at.join("file"), "old\n").unwrap();
        fs::write(at.join("log"), "one\n").unwrap();
        fs::write(at.join("dir/a"), "a\n").unwrap();
        fs::write(at.join("dir/sub/b"), "b\n").unwrap();
        fs::write(at.join("keep"), "keep\n").unwrap();
        std::os::unix::fs::symlink("file", at.join("link")).unwrap();
    });
    world
}

const ALL: &str = "echo new > file; echo two >> log; rm -r dir; mkdir -p tree/x; echo t > tree/x/y; \
                   ln -sfn log link; chmod 600 keep; echo fresh > made";

#[test]
fn nothing_is_done_until_it_is_committed_and_then_all_of_it() {
    let world = furnished();
    let at = world.workspace();
    let before = picture(&at);
    let transaction = Transaction::new(&at).unwrap();
    let (status, output) = transaction.bash(&format!("{ALL}; cat file log made; ls dir"), &at);
    assert_eq!(status, 2, "{output}");
    assert!(output.starts_with("new\none\ntwo\nfresh\n"), "{output}");
    assert_eq!(picture(&at), before);
    let expected = [
        "replaced file",
        "mode keep",
        "replaced link",
        "appended log",
        "created made",
        "created tree 3",
        "deleted dir 4",
    ];
    assert_eq!(transaction.trial().unwrap().words(&at), expected);
    assert_eq!(picture(&at), before);
    let (draft, changed) = transaction.commit(&[]).unwrap();
    assert_eq!(draft.words(&at), expected);
    assert_eq!(changed.effects, draft.prepared.effects);
    let after = picture(&at);
    let read = |name: &str| after.get(name).map(|(_, what)| what.as_str());
    assert_eq!(read("file"), Some("file new\n"));
    assert_eq!(read("log"), Some("file one\ntwo\n"));
    assert_eq!(read("tree/x/y"), Some("file t\n"));
    assert_eq!(read("link"), Some("link log"));
    assert_eq!(read("made"), Some("file fresh\n"));
    assert_eq!(after.get("keep").unwrap().0, 0o600);
    assert!(!after.keys().any(|name| name.starts_with("dir") || name.contains("palisade-")));
    // What is done is not there to be done again.
    assert_eq!(transaction.trial().unwrap().effects, []);
    transaction.undo(&draft, false).unwrap();
    assert_eq!(picture(&at), before);
}

#[test]
fn what_is_not_committed_is_gone_with_the_process() {
    let world = furnished();
    let at = world.workspace();
    let before = picture(&at);
    let transaction = Transaction::new(&at).unwrap();
    assert_eq!(transaction.bash(ALL, &at).0, 0);
    drop(transaction);
    assert_eq!(picture(&at), before);
    let again = Transaction::new(&at).unwrap();
    assert_eq!(again.bash("cat file; ls", &at).1.lines().next(), Some("old"));
}

#[test]
fn the_program_is_confined_as_in_any_other_call() {
    let world = furnished();
    let at = world.workspace();
    let plan = palisade_tests::plan(&at);
    let plain = palisade_tests::Cell::session(&plan, palisade_tests::Pids::Own, |_, s| s).unwrap();
    let transaction = Transaction::new(&at).unwrap();
    let mut receipt = transaction.cell.receipt.clone();
    // Only it says which the workspace is: a runner has nothing to do with it.
    receipt.workspace = plain.receipt.workspace.clone();
    assert_eq!(receipt, plain.receipt);
}

#[test]
fn what_was_changed_outside_meanwhile_is_a_conflict() {
    let world = furnished();
    let at = world.workspace();
    let transaction = Transaction::new(&at).unwrap();
    assert_eq!(transaction.bash("echo new > file; rm keep", &at).0, 0);
    Mode::User.act(|| fs::write(at.join("file"), "theirs\n").unwrap());
    let before = picture(&at);
    let error = transaction.trial().unwrap_err();
    assert_eq!(error.kind, FileErrorKind::Conflict);
    assert!(error.message.contains("a file of 7 bytes now"), "{}", error.message);
    assert_eq!(picture(&at), before);
    fs::set_permissions(at.join("keep"), fs::Permissions::from_mode(0o644)).unwrap();
}
