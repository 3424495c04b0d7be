use super::*;
use crate::{
    hash::Hash,
    line::Entry,
    record::{Repair, Rotate, SessionClose, TornEnd},
    verify::{Verification, verify},
};
use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
};

pub(crate) fn options() -> Options {
    Options::new("test")
}

pub(crate) fn note(n: u64) -> Record {
    Record::SessionClose(SessionClose { session: format!("s{n}"), calls: n })
}

/// Creates a directory with a log of a start and `count` notes.
pub(crate) fn made(count: u64) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), options()).unwrap();
    (1..=count).for_each(|n| drop(log.append(&note(n)).unwrap()));
    directory
}

pub(crate) fn file(directory: &Path) -> PathBuf {
    directory.join(Chain(0).segment(1))
}

pub(crate) fn entries(path: &Path) -> Vec<Entry> {
    fs::read(path)
        .unwrap()
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| Entry::parse(line).unwrap())
        .collect()
}

pub(crate) fn good(directory: &Path) -> Verification {
    let found = verify(directory, &[]).unwrap();
    assert!(found.is_good(), "{found:?}");
    found
}

#[test]
fn a_chain_verifies_and_is_private() {
    let directory = made(3);
    let found = good(directory.path());
    assert_eq!((found.chains[0].head.seq, found.chains.len()), (4, 1));
    let lines = entries(&file(directory.path()));
    assert_eq!(lines.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(matches!(&lines[0].record, Record::Start(start) if start.build == "test"));
    assert_eq!(lines[0].prev, Hash::ZERO);
    for entry in fs::read_dir(directory.path()).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let inner = directory.path().join("a/b");
    drop(Log::open(&inner, options()).unwrap());
    assert_eq!(inner.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn the_hashes_are_those_of_sha256sum_over_the_lines() {
    let directory = made(2);
    let text = fs::read_to_string(file(directory.path())).unwrap();
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let prev = format!("\"prev\":\"{}\"", Hash::of(lines[1].as_bytes()));
    assert!(lines[2].contains(&prev));
}

#[test]
fn tickets_name_their_records_and_a_new_start_goes_on_with_the_chain() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), options()).unwrap();
    let ticket = log.append(&note(1)).unwrap();
    assert_eq!((ticket.head().seq, ticket.head()), (2, log.head()));
    drop(log);
    let log = Log::open(directory.path(), options()).unwrap();
    assert_eq!((log.chain(), log.head().seq), (Chain(0), 3));
    drop(log);
    let found = verify(directory.path(), &[ticket.head()]).unwrap();
    assert!(found.is_good(), "{found:?}");
}

#[test]
fn two_writers_have_a_chain_each() {
    let directory = tempfile::tempdir().unwrap();
    let first = Log::open(directory.path(), options()).unwrap();
    let refused = Log::open_chain(directory.path(), Chain(0), options());
    assert!(matches!(refused, Err(AuditError::Locked(Chain(0)))), "{refused:?}");
    let second = Log::open(directory.path(), options()).unwrap();
    assert_eq!((first.chain(), second.chain()), (Chain(0), Chain(1)));
    drop(first.append(&note(1)).unwrap());
    drop(second.append(&note(2)).unwrap());
    assert_eq!(good(directory.path()).chains.len(), 2);
    drop(first);
    let third = Log::open(directory.path(), options()).unwrap();
    assert_eq!((third.chain(), third.head().seq), (Chain(0), 3));
}

#[test]
fn rotation_keeps_the_chain() {
    let directory = tempfile::tempdir().unwrap();
    let small = Options { rotate_at: 1000, ..options() };
    let log = Log::open(directory.path(), small.clone()).unwrap();
    (1..=50).for_each(|n| drop(log.append(&note(n)).unwrap()));
    drop(log);
    let found = good(directory.path());
    assert!(found.chains[0].files > 5, "{found:?}");
    let names = Directory(directory.path().to_owned()).segments(Chain(0)).unwrap();
    let mut before: Option<(String, u64)> = None;
    for name in names {
        let path = directory.path().join(&name);
        let entry = entries(&path).remove(0);
        if let Some((from, bytes)) = before {
            assert_eq!(entry.record, Record::Rotate(Rotate { from, bytes }));
            assert_eq!(name, Chain(0).segment(entry.seq));
        }
        before = Some((name, path.metadata().unwrap().len()));
    }
    let log = Log::open(directory.path(), small).unwrap();
    drop(log.append(&note(51)).unwrap());
    good(directory.path());
}

#[test]
fn a_torn_end_is_repaired_wherever_it_tore() {
    let whole = made(3);
    let bytes = fs::read(file(whole.path())).unwrap();
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let third = entries(&file(whole.path())).remove(2);
    let head = Head { seq: 3, hash: Hash::of(&third.render().unwrap()) };
    for length in last..bytes.len() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(file(directory.path()), &bytes[..length]).unwrap();
        // The head is written after the record, so it does not include an incomplete one.
        let stored = File::create(directory.path().join(Chain(0).head())).unwrap();
        head.store(&stored).unwrap();
        let found = good(directory.path());
        assert_eq!((found.chains[0].torn, found.chains[0].head), ((length - last) as u64, head));

        drop(Log::open(directory.path(), options()).unwrap());
        good(directory.path());
        let lines = entries(&file(directory.path()));
        if length == last {
            assert!(matches!(lines[3].record, Record::Start(_)), "nothing was torn");
            continue;
        }
        let name = Chain(0).segment(1);
        let kept_in = format!("{name}.torn-4");
        let kept = fs::read(directory.path().join(&kept_in)).unwrap();
        assert_eq!(kept, &bytes[last..length]);
        let torn = Some(TornEnd { file: name, kept_in, bytes: (length - last) as u64 });
        assert_eq!(
            lines[3].record,
            Record::Repair(Repair { torn, head: None, found: head, unfinished: Vec::new() })
        );
        assert!(matches!(lines[4].record, Record::Start(_)));
    }
}

#[test]
fn a_repair_that_was_itself_interrupted_is_recorded() {
    let directory = made(1);
    let torn = directory.path().join(format!("{}.torn-3", Chain(0).segment(1)));
    fs::write(torn, "{\"se").unwrap();
    drop(Log::open(directory.path(), options()).unwrap());
    let record = entries(&file(directory.path())).remove(2).record;
    assert!(matches!(record, Record::Repair(Repair { torn: Some(TornEnd { bytes: 4, .. }), .. })));
}

#[test]
fn a_crash_between_a_record_and_its_head_is_no_fault() {
    let directory = made(1);
    let before = fs::read(directory.path().join(Chain(0).head())).unwrap();
    let log = Log::open(directory.path(), options()).unwrap();
    drop(log);
    fs::write(directory.path().join(Chain(0).head()), before).unwrap();
    good(directory.path());
    drop(Log::open(directory.path(), options()).unwrap());
    good(directory.path());
    let kinds: Vec<_> = entries(&file(directory.path()));
    assert!(!kinds.iter().any(|entry| matches!(entry.record, Record::Repair(_))));
}

#[test]
fn a_file_that_somebody_else_touches_is_not_written_any_more() {
    let disturbed = |act: &dyn Fn(&Path), what: &str| {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::open(directory.path(), options()).unwrap();
        drop(log.append(&note(1)).unwrap());
        act(&file(directory.path()));
        match log.append(&note(2)) {
            Err(AuditError::Disturbed { what: found, .. }) => assert_eq!(found, what),
            other => panic!("{other:?}"),
        }
    };
    disturbed(&|path| fs::remove_file(path).unwrap(), "removed");
    disturbed(&|path| File::options().write(true).open(path).unwrap().set_len(5).unwrap(), "cut");
    let add = |path: &Path| {
        OpenOptions::new().append(true).open(path).unwrap().write_all(b"x").unwrap();
    };
    disturbed(&add, "added to");
}

#[test]
fn links_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let victim = directory.path().join("victim");
    fs::write(&victim, "whole").unwrap();
    let logs = directory.path().join("logs");
    fs::create_dir(&logs).unwrap();
    std::os::unix::fs::symlink(&victim, logs.join(Chain(0).segment(1))).unwrap();
    let refused = Log::open(&logs, options());
    assert!(matches!(refused, Err(AuditError::Io { act: "open", .. })), "{refused:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "whole");
}

#[test]
fn what_is_deferred_keeps_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), options()).unwrap();
    drop(log.append(&note(1)).unwrap());
    log.defer(|| note(2)).unwrap();
    log.defer(|| note(3)).unwrap();
    drop(log.append(&note(4)).unwrap());
    (5..1000).for_each(|n| log.defer(move || note(n)).unwrap());
    drop(log);
    let records = entries(&file(directory.path()));
    let numbers: Vec<u64> = records[1..]
        .iter()
        .map(|entry| {
            let Record::SessionClose(close) = &entry.record else { panic!("{entry:?}") };
            close.calls
        })
        .collect();
    assert_eq!(numbers, (1..1000).collect::<Vec<_>>(), "in order, and none is lost at the end");
    good(directory.path());
}

#[test]
fn whoever_has_time_writes_what_is_deferred() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), options()).unwrap();
    log.defer(|| note(1)).unwrap();
    assert_eq!(entries(&file(directory.path())).len(), 1, "nobody has written it yet");
    log.catch_up().unwrap();
    assert_eq!(entries(&file(directory.path())).len(), 2);
}

#[test]
fn what_can_not_be_written_stays_in_front_and_lets_nothing_past() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), options()).unwrap();
    log.defer(|| note(1)).unwrap();
    let path = file(directory.path());
    let mut other = OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut other, b"x").unwrap();
    assert!(log.append(&note(2)).is_err());
    assert!(log.append(&note(3)).is_err());
    let length = path.metadata().unwrap().len() - 1;
    other.set_len(length).unwrap();
    drop(log.append(&note(4)).unwrap());
    let records = entries(&path);
    assert_eq!(
        records[1..].iter().map(|e| e.record.clone()).collect::<Vec<_>>(),
        [note(1), note(4)]
    );
}

#[test]
fn a_start_names_calls_that_have_no_result() {
    use crate::line::tests::{call_of, result_of};
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), options()).unwrap();
    for record in [call_of("lost"), call_of("done"), result_of("done")] {
        drop(log.append(&record).unwrap());
    }
    drop(log);
    drop(Log::open(directory.path(), options()).unwrap());
    let found = good(directory.path());
    assert_eq!(found.chains[0].unfinished, ["lost"]);
    let records = entries(&file(directory.path()));
    let Record::Repair(repair) = &records[4].record else { panic!("{records:?}") };
    assert_eq!((repair.unfinished.as_slice(), &repair.torn), (&["lost".to_owned()][..], &None));
    // The repair was recorded once; the next start has nothing to report.
    drop(Log::open(directory.path(), options()).unwrap());
    assert_eq!(entries(&file(directory.path())).len(), records.len() + 1);
}

/// A power failure can leave any part of the last record, with or without the head that was written
/// after it.
#[test]
fn whatever_a_power_cut_leaves_is_repaired_and_told() {
    let whole = made(3);
    let bytes = fs::read(file(whole.path())).unwrap();
    let mut heads = vec![Head::NONE];
    let mut ends = vec![0];
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let seq = heads.len() as u64;
        heads.push(Head { seq, hash: Hash::of(line) });
        ends.push(ends.last().unwrap() + line.len());
    }
    for records in 0..ends.len() {
        let next = ends.get(records + 1).copied().unwrap_or(ends[records]);
        // Cuts at the start of the next record, after its first byte, in its middle, and before its
        // newline.
        let mut lengths =
            vec![ends[records], ends[records] + 1, ends[records].midpoint(next), next - 1];
        lengths.retain(|length| (ends[records]..next.max(ends[records] + 1)).contains(length));
        for length in lengths {
            for head in &heads {
                let directory = tempfile::tempdir().unwrap();
                fs::write(file(directory.path()), &bytes[..length]).unwrap();
                let stored = File::create(directory.path().join(Chain(0).head())).unwrap();
                head.store(&stored).unwrap();
                let log = Log::open(directory.path(), options()).unwrap();
                drop(log.append(&note(9)).unwrap());
                drop(log);
                let lines = entries(&file(directory.path()));
                let repaired = lines.iter().any(|entry| matches!(entry.record, Record::Repair(_)));
                let torn = length > ends[records];
                let (found, known) = (records as u64, head.seq);
                let agrees = known == found || known + 1 == found;
                let case = format!("{length} bytes, {found} records, the head knew {known}");
                assert_eq!(repaired, torn || !agrees, "{case}");
                assert_eq!(lines.last().unwrap().record, note(9), "{case}");
                let verified = verify(directory.path(), &[]).unwrap();
                assert_eq!(verified.chains[0].bad, None, "{case}");
                // A disagreement with the head, in either direction, is never ignored.
                assert_eq!(verified.is_good(), agrees, "{case}: {verified:?}");
            }
        }
    }
}

#[test]
fn a_rotation_that_was_cut_off_is_gone_on_with() {
    for cut in ["", "{\"seq\":4,"] {
        let directory = made(2);
        fs::write(directory.path().join(Chain(0).segment(4)), cut).unwrap();
        drop(Log::open(directory.path(), options()).unwrap());
        good(directory.path());
    }
}

/// The chain is made of hashes and numbers, so a clock that is set back or forward does not break
/// it.
#[test]
fn a_clock_that_jumps_leaves_the_chain_whole() {
    let directory = made(1);
    let path = file(directory.path());
    let last = entries(&path).pop().unwrap();
    let prev = Hash::of(&last.render().unwrap());
    for time in [4_070_908_800_000, 0] {
        let before = entries(&path).pop().unwrap();
        let entry = Entry {
            seq: before.seq + 1,
            time: crate::Timestamp::from_millis(time),
            prev: Hash::of(&before.render().unwrap()),
            record: note(time.unsigned_abs()),
        };
        let line = entry.render().unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(&line).unwrap();
        let stored = File::create(directory.path().join(Chain(0).head())).unwrap();
        Head { seq: entry.seq, hash: Hash::of(&line) }.store(&stored).unwrap();
        drop(Log::open(directory.path(), options()).unwrap());
        let found = good(directory.path());
        assert_eq!(found.chains[0].head.seq, entry.seq + 1);
    }
    assert_eq!(entries(&path)[2].prev, prev);
}
