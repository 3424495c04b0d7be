//! Tests of building the change that undoes calls, for every kind of entry and for several calls.

use super::*;
use crate::stores::undo::{head::Head, record::PriorState};
use palisade_plan::change::Attribute;
use palisade_protocol::RawPath;

fn path(text: &str) -> Path {
    Path(text.as_bytes().to_vec())
}

fn print(digest: u8) -> Print {
    Print::File { mode: 0o644, digest: [digest; 32] }
}

fn head(call: &str) -> Head {
    Head {
        uid: 7,
        workspace: RawPath::from("/w"),
        session: "s1".parse().unwrap(),
        call_id: call.parse().unwrap(),
        tool: "edit".parse().unwrap(),
        order: 1,
        time: 1,
        undoes: Vec::new(),
    }
}

fn record(call: &str, entries: Vec<PriorState>, left: &[(&str, Print)]) -> StoredUndoRecord {
    let left = left.iter().map(|(at, print)| (path(at), print.clone())).collect();
    let file = Arc::new(tempfile::tempfile().unwrap());
    StoredUndoRecord { head: head(call), entries, change: None, left: Some(left), file }
}

/// Returns an entry for a file that existed with these contents.
fn was(at: &str, digest: u8) -> PriorState {
    let state = State::File { mode: 0o644, size: 1, mtime: (0, 0) };
    let before = Before::State { path: path(at), state };
    let attributes = Vec::new();
    PriorState { before, attributes, pieces: vec![(0, 1)], digest: [digest; 32] }
}

/// Returns an extended attribute.
fn note() -> Attribute {
    (b"user.note".to_vec(), b"1".to_vec())
}

fn absent(at: &str) -> PriorState {
    let before = Before::State { path: path(at), state: State::Absent };
    PriorState { before, attributes: Vec::new(), pieces: Vec::new(), digest: [0; 32] }
}

fn moved(from: &str, to: &str) -> PriorState {
    let before = Before::Moved { from: path(from), to: path(to) };
    PriorState { before, attributes: Vec::new(), pieces: Vec::new(), digest: [0; 32] }
}

/// Returns an entry for a file that was changed in place.
fn same(at: &str, size: u64, digest: u8) -> PriorState {
    let was = InodeState { mode: 0o644, size, mtime: (0, 0) };
    let before = Before::Same { path: path(at), was, digest: Some([digest; 32]) };
    PriorState { before, attributes: Vec::new(), pieces: Vec::new(), digest: [0; 32] }
}

/// Describes each step in a word: path or names, and what is expected there.
fn steps(restore: &Restore) -> Vec<String> {
    let text = |path: &Path| String::from_utf8(path.0.clone()).unwrap();
    let expected = |print: &Print| match print {
        Print::Absent => "-".to_owned(),
        Print::File { digest, .. } => digest[0].to_string(),
        other @ (Print::Directory
        | Print::Symlink { .. }
        | Print::Node { .. }
        | Print::Tree { .. }) => {
            format!("{other:?}")
        }
    };
    let step = |entry: &Restoration| match entry {
        Restoration::Put { path, expect, state, .. } => {
            let state = if *state == State::Absent { "-" } else { "+" };
            format!("{} {} {state}", text(path), expected(expect))
        }
        Restoration::Rename { from, to, expect } => {
            format!("{}>{} {}", text(from), text(to), expected(expect))
        }
        Restoration::Revert { path, expect, was } => {
            format!("{} {} ={}", text(path), expected(expect), was.size)
        }
    };
    restore.entries.iter().map(step).collect()
}

#[test]
fn a_call_is_undone_in_reverse() {
    // A new directory with a new file, an edited file, a deleted tree, and a move over a file.
    let entries = vec![
        absent("/w/d"),
        absent("/w/d/n"),
        was("/w/e", 1),
        was("/w/t/x", 2),
        was("/w/to", 3),
        moved("/w/from", "/w/to"),
    ];
    let left = [
        ("/w/d", Print::Directory),
        ("/w/d/n", print(11)),
        ("/w/e", print(12)),
        ("/w/t", Print::Absent),
        ("/w/to", print(13)),
    ];
    let restore = assemble(&[record("c1", entries, &left)], Force::Careful).unwrap();
    assert_eq!(
        steps(&restore),
        [
            "/w/to>/w/from 13",
            "/w/to 13 +",
            "/w/t/x - +",
            "/w/e 12 +",
            "/w/d/n 11 -",
            "/w/d Directory -"
        ]
    );
    assert_eq!(restore.pieces.iter().filter(|piece| piece.end).count(), 3);
}

#[test]
fn several_calls_expect_what_the_last_of_them_left() {
    let newest = record("c3", vec![moved("/w/f", "/w/g")], &[("/w/g", print(3))]);
    let middle = record("c2", vec![was("/w/f", 2)], &[("/w/f", print(3))]);
    let oldest = record("c1", vec![was("/w/f", 1)], &[("/w/f", print(2))]);
    let restore = assemble(&[newest, middle, oldest], Force::Careful).unwrap();
    // The moved file is not needed: an older call had found something else there.
    assert_eq!(steps(&restore), ["/w/g 3 -", "/w/f - +"]);
    assert_eq!(restore.pieces.len(), 1);
    let calls: Vec<&str> = restore.calls.iter().map(CallId::as_str).collect();
    assert_eq!(calls, ["c3", "c2", "c1"]);
}

#[test]
fn what_was_changed_and_then_moved_is_put_back_and_forth() {
    let (there, gone) = (("/w/g", print(2)), ("/w/f", Print::Absent));
    let patched = record("c1", vec![moved("/w/f", "/w/g"), was("/w/g", 1)], &[there, gone]);
    let restore = assemble(&[patched], Force::Careful).unwrap();
    assert_eq!(steps(&restore), ["/w/g 2 +", "/w/g>/w/f 2"]);
    // The undo of that: a file that is moved back and then replaced is not needed.
    let (there, gone) = (("/w/f", print(1)), ("/w/g", Print::Absent));
    let undone = record("c2", vec![was("/w/g", 2), moved("/w/g", "/w/f")], &[there, gone]);
    let restore = assemble(&[undone], Force::Careful).unwrap();
    assert_eq!(steps(&restore), ["/w/f 1 -", "/w/g - +"]);
}

#[test]
fn what_was_changed_between_two_calls_is_noticed_unless_forced() {
    let records = || {
        [
            record("c2", vec![was("/w/f", 9)], &[("/w/f", print(3))]),
            record("c1", vec![was("/w/f", 1)], &[("/w/f", print(2))]),
        ]
    };
    let error = assemble(&records(), Force::Careful).unwrap_err();
    assert_eq!(error.to_string(), "\"/w/f\" was changed between call c1 and call c2");
    assert_eq!(steps(&assemble(&records(), Force::Forced).unwrap()), ["/w/f 3 +"]);
    // A file that one call created and the next deleted was not changed between them.
    let chain = [
        record("c2", vec![was("/w/f", 2)], &[("/w/f", Print::Absent)]),
        record("c1", vec![absent("/w/f")], &[("/w/f", print(2))]),
    ];
    assert_eq!(steps(&assemble(&chain, Force::Careful).unwrap()), ["/w/f - -"]);
}

#[test]
fn what_was_moved_twice_goes_back_once_and_what_is_entangled_is_refused() {
    let twice = [
        record("c2", vec![moved("/w/b", "/w/c")], &[("/w/b", Print::Absent), ("/w/c", print(1))]),
        record("c1", vec![moved("/w/a", "/w/b")], &[("/w/a", Print::Absent), ("/w/b", print(1))]),
    ];
    assert_eq!(steps(&assemble(&twice, Force::Careful).unwrap()), ["/w/c>/w/a 1"]);
    // It was moved away, and its old name was used again.
    let entangled = [
        record("c2", vec![absent("/w/a")], &[("/w/a", print(2))]),
        record("c1", vec![moved("/w/a", "/w/b")], &[("/w/a", Print::Absent), ("/w/b", print(1))]),
    ];
    let error = assemble(&entangled, Force::Careful).unwrap_err();
    assert!(matches!(&error, UndoError::Entangled { path, .. } if path == "/w/a"), "{error}");
}

#[test]
fn what_was_changed_in_a_directory_that_was_moved_is_not_guessed() {
    let records = [
        record("c2", vec![moved("/w/d", "/w/e")], &[("/w/e", Print::Directory)]),
        record("c1", vec![was("/w/d/f", 1)], &[("/w/d/f", print(2))]),
    ];
    for force in [Force::Careful, Force::Forced] {
        let error = assemble(&records, force).unwrap_err();
        assert_eq!(error.to_string(), "call c2 moved \"/w/d\", and call c1 changed what was in it");
    }
}

#[test]
fn too_much_at_once_is_refused() {
    let many = |call: &str| {
        let name = |at: usize| absent(&format!("/w/{call}{}{at}", "n".repeat(3000)));
        record(call, (0..9000).map(name).collect(), &[])
    };
    assert!(assemble(&[many("c1")], Force::Careful).is_ok());
    let both = assemble(&[many("c2"), many("c1")], Force::Careful);
    assert!(matches!(both, Err(UndoError::TooMuch)));
}

#[test]
fn what_stayed_the_same_file_is_made_what_it_was_before_all_of_them() {
    let one = || record("c1", vec![same("/w/f", 3, 1)], &[("/w/f", print(2))]);
    let two = || record("c2", vec![same("/w/f", 5, 2)], &[("/w/f", print(3))]);
    let both = assemble(&[two(), one()], Force::Careful).unwrap();
    assert_eq!(steps(&both), ["/w/f 3 =3"]);
    // The content that a newer call replaced includes what an older call appended; that part is
    // cut.
    let mut replaced = was("/w/f", 3);
    replaced.before = Before::State {
        path: path("/w/f"),
        state: State::File { mode: 0o644, size: 7, mtime: (1, 0) },
    };
    replaced.attributes = vec![note()];
    replaced.pieces = vec![(0, 2), (2, 2), (4, 3)];
    let three = record("c3", vec![replaced], &[("/w/f", print(4))]);
    let all = assemble(&[three, two(), one()], Force::Careful).unwrap();
    assert_eq!(steps(&all), ["/w/f 4 +"]);
    let lengths: Vec<_> = all.pieces.iter().map(|piece| (piece.length, piece.end)).collect();
    assert_eq!(lengths, [(2, false), (1, true)]);
    let [Restoration::Put { state, attributes, .. }] = &all.entries[..] else { panic!("{all:?}") };
    assert_eq!(*attributes, [note()]);
    assert_eq!(*state, State::File { mode: 0o644, size: 3, mtime: (0, 0) });
    // In the opposite order the older record has the whole content.
    let older = record("c0", vec![was("/w/f", 0)], &[("/w/f", print(1))]);
    assert_eq!(steps(&assemble(&[one(), older], Force::Careful).unwrap()), ["/w/f 2 +"]);
    let edited = record("c2", vec![same("/w/f", 5, 9)], &[("/w/f", print(3))]);
    assert!(assemble(&[edited, one()], Force::Careful).is_err());
}
