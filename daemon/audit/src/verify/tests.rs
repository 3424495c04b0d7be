use super::*;
use crate::{
    diagnose::{BadRecord, TamperKind},
    hash::Hash,
    line::Entry,
    log::{
        Log,
        tests::{file, made, note, options},
    },
};
use std::fs;

/// Returns what `verify` finds after the lines of a chain of ten were changed.
fn after(change: impl FnOnce(&mut Vec<String>)) -> Option<BadRecord> {
    let directory = made(9);
    rewrite(directory.path(), change);
    let found = verify(directory.path(), &[]).unwrap();
    assert_eq!(found.is_good(), found.chains[0].bad.is_none());
    found.chains[0].bad.clone()
}

fn rewrite(directory: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let path = file(directory);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<_> = text.split_inclusive('\n').map(str::to_owned).collect();
    assert_eq!(lines.len(), 10);
    change(&mut lines);
    fs::write(&path, lines.concat()).unwrap();
}

/// Returns the expected finding for record `seq` at a line.
fn bad(line: u64, seq: u64, what: TamperKind) -> Option<BadRecord> {
    Some(BadRecord {
        place: LogPosition { file: "c0000-000000000001.jsonl".into(), line },
        seq,
        what,
    })
}

#[test]
fn nothing_changed_is_good() {
    assert_eq!(after(|_| ()), None);
}

#[test]
fn an_edit_is_named_wherever_it_is() {
    for at in 1..=10 {
        let edit = |from: &'static str, to: &'static str| {
            after(move |lines| {
                assert!(lines[at - 1].contains(from), "{}", lines[at - 1]);
                lines[at - 1] = lines[at - 1].replacen(from, to, 1);
            })
        };
        let expected = bad(at as u64, at as u64, TamperKind::Edited);
        assert_eq!(edit("\"time\":\"2", "\"time\":\"3"), expected, "time of {at}");
        assert_eq!(edit("}\n", ",\"x\":1}\n"), expected, "a field more in {at}");
        assert_eq!(edit("{", "x"), expected, "no JSON at {at}");
        assert_eq!(edit("\"seq\":", "\"seq\":7"), expected, "number of {at}");
        let prev = edit(
            "\"prev\":\"",
            "\"prev\":\"0000000000000000000000000000000000000000000000000000000000000001\",\"x\":\"",
        );
        assert_eq!(prev, expected, "prev of {at}");
    }
}

#[test]
fn a_deletion_is_named_wherever_it_is() {
    for at in 1..=9 {
        let expected = bad(at, at, TamperKind::Deleted(at));
        assert_eq!(after(|lines| drop(lines.remove(at as usize - 1))), expected);
    }
    assert_eq!(after(|lines| drop(lines.drain(2..5))), bad(3, 3, TamperKind::Deleted(5)));
    assert_eq!(after(|lines| drop(lines.drain(0..9))), bad(1, 1, TamperKind::Deleted(9)));
}

#[test]
fn a_reordering_is_named_wherever_it_is() {
    for at in 1..=9 {
        let found = after(|lines| lines.swap(at as usize - 1, at as usize));
        assert_eq!(found, bad(at, at + 1, TamperKind::Reordered), "at {at}");
    }
    assert_eq!(after(|lines| lines.swap(1, 7)), bad(2, 8, TamperKind::Reordered));
    let moved = after(|lines| {
        let line = lines.remove(2);
        lines.push(line);
    });
    assert_eq!(moved, bad(3, 4, TamperKind::Reordered));
}

#[test]
fn an_insertion_is_named_wherever_it_is() {
    for at in 1..=10 {
        let copy = after(|lines| lines.insert(at as usize, lines[at as usize - 1].clone()));
        assert_eq!(copy, bad(at + 1, at, TamperKind::Inserted), "a copy of {at}");
        let first = after(|lines| lines.insert(at as usize, lines[0].clone()));
        assert_eq!(first, bad(at + 1, 1, TamperKind::Inserted), "the first after {at}");
        let forged = after(|lines| {
            let mut entry = Entry::parse(lines[at as usize - 1].as_bytes()).unwrap();
            entry.prev = Hash::of(lines[at as usize - 1].as_bytes());
            entry.seq += 1;
            entry.record = note(77);
            lines.insert(at as usize, String::from_utf8(entry.render().unwrap()).unwrap());
        });
        // At the end it may be a record whose head was not written yet; one such record is
        // accepted.
        let expected = (at < 10).then_some(TamperKind::Inserted);
        assert_eq!(forged.map(|bad| bad.what), expected, "a forged one after {at}");
    }
}

#[test]
fn records_that_nobody_wrote_at_the_end_are_named() {
    let directory = made(9);
    let head = fs::read(directory.path().join("c0000.head.json")).unwrap();
    let log = Log::open(directory.path(), options()).unwrap();
    drop(log.append(&note(1)).unwrap());
    // While a writer is alive this is accepted: the head was read before the records.
    drop(log);
    fs::write(directory.path().join("c0000.head.json"), head).unwrap();
    let found = verify(directory.path(), &[]).unwrap();
    assert_eq!(found.chains[0].bad, bad(11, 11, TamperKind::Inserted));
}

#[test]
fn a_cut_is_named_wherever_it_is() {
    for left in 0..10 {
        let expected = bad(left + 1, left + 1, TamperKind::Cut(10));
        assert_eq!(after(|lines| lines.truncate(left as usize)), expected, "{left} left");
    }
    // The cut is in the middle of the last record, which according to the head was whole.
    let found = after(|lines| lines[9].truncate(30));
    assert_eq!(found, bad(10, 10, TamperKind::Cut(10)));
    let directory = made(9);
    fs::remove_file(file(directory.path())).unwrap();
    let found = verify(directory.path(), &[]).unwrap();
    assert_eq!(found.chains[0].bad, bad(1, 1, TamperKind::Cut(10)));
}

#[test]
fn a_missing_head_is_named() {
    let directory = made(9);
    fs::remove_file(directory.path().join("c0000.head.json")).unwrap();
    let found = verify(directory.path(), &[]).unwrap();
    assert_eq!(found.chains[0].bad, bad(11, 10, TamperKind::HeadMissing));
}

#[test]
fn a_start_after_a_cut_or_an_edit_does_not_cover_it_up() {
    for (change, seq, what) in [
        (&|lines: &mut Vec<String>| lines.truncate(7), 8, TamperKind::Cut(10)),
        (
            &|lines: &mut Vec<String>| lines[9] = lines[9].replace("\"calls\":9", "\"calls\":8"),
            10,
            TamperKind::Edited,
        ),
    ] as [(&dyn Fn(&mut Vec<String>), _, _); 2]
    {
        let directory = made(9);
        rewrite(directory.path(), change);
        drop(Log::open(directory.path(), options()).unwrap());
        let found = verify(directory.path(), &[]).unwrap();
        assert!(!found.is_good());
        assert_eq!(found.chains[0].bad, None);
        let losses: Vec<_> = found.chains[0].losses.iter().map(|bad| (bad.seq, bad.what)).collect();
        assert_eq!(losses, [(seq, what)]);
    }
}

#[test]
fn only_an_anchor_tells_of_a_cut_by_somebody_who_also_writes_the_head() {
    let directory = made(9);
    let all = verify(directory.path(), &[]).unwrap().chains[0].head;
    rewrite(directory.path(), |lines| lines.truncate(7));
    let text = fs::read_to_string(file(directory.path())).unwrap();
    let last = text.split_inclusive('\n').next_back().unwrap();
    let hash = Hash::of(last.as_bytes());
    fs::write(
        directory.path().join("c0000.head.json"),
        format!("{{\"seq\":7,\"hash\":\"{hash}\"}}"),
    )
    .unwrap();
    assert!(verify(directory.path(), &[]).unwrap().is_good());
    let found = verify(directory.path(), &[Head { seq: 7, hash }, all]).unwrap();
    assert_eq!((found.is_good(), found.missing), (false, vec![all]));
}

#[test]
fn a_deleted_file_is_a_deletion() {
    let directory = tempfile::tempdir().unwrap();
    let small = crate::Options { rotate_at: 600, ..options() };
    let log = Log::open(directory.path(), small).unwrap();
    (1..=30).for_each(|n| drop(log.append(&note(n)).unwrap()));
    drop(log);
    let names = Directory(directory.path().to_owned()).segments(Chain(0)).unwrap();
    let first = |name: &str| name[6..18].parse::<u64>().unwrap();
    fs::remove_file(directory.path().join(&names[2])).unwrap();
    let bad = verify(directory.path(), &[]).unwrap().chains[0].bad.clone().unwrap();
    let expected = (first(&names[2]), TamperKind::Deleted(first(&names[3]) - 1));
    assert_eq!((bad.seq, bad.what, bad.place.file), (expected.0, expected.1, names[3].clone()));
}
