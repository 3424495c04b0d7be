//! Tests that appended bytes go to the same file, and are removed again only if nothing else was
//! appended.

use super::*;
use palisade_plan::change::Before;
use std::io::Write as _;

/// Makes a file with one line, to which the program appended another.
fn added() -> Two {
    let two = Two::new();
    two.low("log", "one\n");
    two.up("log", "one\ntwo\n");
    two
}

fn read(two: &Two) -> String {
    fs::read_to_string(two.lower().join("log")).unwrap()
}

fn append(two: &Two, text: &str) {
    let mut file = fs::File::options().append(true).open(two.lower().join("log")).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn ino(two: &Two, name: &str) -> u64 {
    fs::metadata(two.lower().join(name)).unwrap().ino()
}

#[test]
fn what_is_added_goes_to_the_same_file_and_away_again() {
    let two = added();
    let (before, picture) = (ino(&two, "log"), two.picture());
    let draft = two.settle(None).unwrap().0;
    assert_eq!(words(&draft, &two), ["appended log"]);
    // The undo record has no content, because the old bytes stay.
    assert!(
        matches!(draft.befores[..], [(Before::Same { .. }, ref content)] if content.is_empty())
    );
    two.settle_whole();
    assert_eq!((read(&two).as_str(), ino(&two, "log")), ("one\ntwo\n", before));
    two.broker.undo(&draft, false).unwrap();
    assert_eq!((two.picture(), ino(&two, "log")), (picture, before));
}

#[test]
fn an_undo_does_not_take_what_somebody_else_added() {
    let two = added();
    let draft = two.settle(None).unwrap().0;
    two.settle_whole();
    append(&two, "three\n");
    let error = two.broker.undo(&draft, false).unwrap_err();
    assert_eq!(error.kind, FileErrorKind::Conflict);
    assert_eq!(read(&two), "one\ntwo\nthree\n");
}

#[test]
fn what_was_cut_off_in_the_middle_is_taken_back() {
    for cut in ["one\nt", "one\ntwo\n"] {
        let two = added();
        two.settle(Some(0)).unwrap();
        append(&two, cut.strip_prefix("one\n").unwrap());
        let changed = two.resolve();
        assert_eq!((changed.effects.len(), changed.notes), (1, vec![]), "{cut}");
        assert_eq!(read(&two), "one\n", "{cut}");
    }
}

#[test]
fn what_somebody_else_added_after_it_was_cut_off_stays() {
    // Somebody else's bytes in place of ours, after all of ours, and after a part of ours.
    for text in ["xyz", "two\nx", "t\n"] {
        let two = added();
        two.settle(Some(0)).unwrap();
        append(&two, text);
        let changed = two.resolve();
        assert_eq!(read(&two), format!("one\n{text}"));
        assert!(changed.notes.iter().any(|note| note.contains("/log")), "{:?}", changed.notes);
    }
}

#[test]
fn names_of_one_file_stay_that_unless_one_is_outside_or_was_changed_as_well() {
    let two = added();
    fs::hard_link(two.lower().join("log"), two.lower().join("link")).unwrap();
    two.settle_whole();
    assert_eq!(ino(&two, "log"), ino(&two, "link"));
    assert_eq!(fs::read_to_string(two.lower().join("link")).unwrap(), "one\ntwo\n");
    // A name outside the workspace: its file must not change.
    let (two, outside) = (added(), tempfile::tempdir_in("/tmp").unwrap());
    let other = outside.path().join("log");
    fs::hard_link(two.lower().join("log"), &other).unwrap();
    two.settle_whole();
    assert_eq!(
        (read(&two).as_str(), fs::read_to_string(&other).unwrap().as_str()),
        ("one\ntwo\n", "one\n")
    );
    // Two names to which the program appended different bytes, and one that it deleted.
    let two = added();
    fs::hard_link(two.lower().join("log"), two.lower().join("link")).unwrap();
    fs::hard_link(two.lower().join("log"), two.lower().join("gone")).unwrap();
    two.up("link", "one\nother\n");
    two.white("gone");
    two.settle_whole();
    assert_eq!(read(&two), "one\ntwo\n");
    assert_eq!(fs::read_to_string(two.lower().join("link")).unwrap(), "one\nother\n");
    assert!(!two.lower().join("gone").exists());
}

#[test]
fn a_mode_goes_with_it_and_holes_do_not_fill_the_disk() {
    let two = added();
    let before = ino(&two, "log");
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(two.upper.path().join("log"), mode).unwrap();
    let (draft, picture) = (two.settle(None).unwrap().0, two.picture());
    two.settle_whole();
    let meta = fs::metadata(two.lower().join("log")).unwrap();
    assert_eq!((meta.ino(), meta.mode() & 0o777, meta.len()), (before, 0o600, 8));
    two.broker.undo(&draft, false).unwrap();
    assert_eq!(two.picture(), picture);
    let two = added();
    let file = fs::File::options().write(true).open(two.upper.path().join("log")).unwrap();
    file.set_len(64 << 20).unwrap();
    two.settle_whole();
    let meta = fs::metadata(two.lower().join("log")).unwrap();
    assert_eq!(meta.len(), 64 << 20);
    assert!(meta.blocks() < 1024, "{} blocks", meta.blocks());
}

#[test]
fn what_somebody_else_added_meanwhile_is_a_conflict() {
    let two = added();
    two.settle(None).unwrap();
    let since = crate::change_time::now(dir(&two.lower()));
    append(&two, "theirs\n");
    let error = two.settle_with(&Layers { since, ..two.layers() }, &[], None).unwrap_err();
    assert_eq!(error.kind, FileErrorKind::Conflict, "{}", error.message);
    assert_eq!(read(&two), "one\ntheirs\n");
}
