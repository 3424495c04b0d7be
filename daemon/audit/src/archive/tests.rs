use super::*;
use crate::{
    Log, LogVolume, Options, Reader, RetentionPolicy, RetentionReport, TamperKind, Timestamp,
    VerifyOptions,
    chain::Chain,
    files::Head,
    hash::Hash,
    key::{PublicKey, SignatureFault, SigningKey, tests::key},
    log::tests::{good, note, options},
    record::{ArchiveAct, ArchiveEvent, Record},
    verify::{ArchiveFault, ChainReport, verify, verify_with},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

fn small(key: Option<SigningKey>) -> Options {
    Options { rotate_at: 1000, key, ..options() }
}

/// Creates a log of `count` notes in files of 1000 bytes.
fn log(count: u64, key: Option<SigningKey>) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), small(key)).unwrap();
    (1..=count).for_each(|n| drop(log.append(&note(n)).unwrap()));
    drop(log);
    directory
}

fn beside(log: &Path) -> PathBuf {
    log.join(ARCHIVE_DIRECTORY)
}

fn archive_all(log: &Path, key: Option<SigningKey>) -> Vec<Manifest> {
    let archiver = Archiver::open(log, &beside(log), key).unwrap();
    let files = archiver.complete().unwrap();
    files.iter().map(|file| archiver.archive(file).unwrap()).collect()
}

/// Returns the lines of the log and its archives, as a reader passes them.
fn lines(log: &Path) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut reader = Reader::with_archives(log, Vec::new());
    let read = reader.read(|found| -> Result<(), crate::ReadError> {
        lines.push(found?.line);
        Ok(())
    });
    read.unwrap();
    lines
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
    let mut names: Vec<_> = entries.map(|entry| name(entry).unwrap()).collect();
    names.sort();
    names
}

fn report(log: &Path, options: &VerifyOptions) -> ChainReport {
    verify_with(log, options).unwrap().chains.remove(0)
}

fn faults(log: &Path) -> Vec<ArchiveFault> {
    assert!(!verify(log, &[]).unwrap().is_good());
    report(log, &VerifyOptions::default()).faults
}

fn defect(file: &str, defect: ArchiveDefect) -> ArchiveFault {
    ArchiveFault::Defect { file: file.to_owned(), defect }
}

#[test]
fn an_archived_log_has_the_same_records_and_verifies_across_the_cut() {
    let log = log(50, None);
    let (whole, before) = (lines(log.path()), good(log.path()));
    let made = archive_all(log.path(), None);
    assert!(made.len() > 4, "{made:?}");
    assert_eq!(lines(log.path()), whole);
    let after = good(log.path());
    assert_eq!(after.chains[0].head, before.chains[0].head);
    assert_eq!((after.chains[0].files, after.chains[0].archives), (1, made.len()));
    // Both ends of each archive are in the chain, and the log continues the last one.
    let mut end = Head { seq: 0, hash: Hash::ZERO };
    for manifest in &made {
        assert_eq!((manifest.first, manifest.prev), (end.seq + 1, end.hash));
        assert_eq!(manifest.records, manifest.last.seq - end.seq);
        end = manifest.last;
    }
    let hashes: Vec<_> = whole.iter().map(|line| Hash::of(line)).collect();
    assert_eq!(end.hash, hashes[usize::try_from(end.seq).unwrap() - 1]);
    assert!(verify(log.path(), &[end]).unwrap().is_good(), "an anchor in an archive is found");
    assert_eq!(archive_all(log.path(), None).len(), 0, "the current file is not archived");
    // The daemon goes on with the chain.
    drop(Log::open(log.path(), small(None)).unwrap());
    good(log.path());
}

#[test]
fn a_reader_of_the_log_goes_on_in_the_archive_of_a_file_that_it_began() {
    let log = log(30, None);
    let mut reader = Reader::new(log.path());
    let mut seqs = Vec::new();
    let mut read = |reader: &mut Reader| {
        let each = |found: Result<crate::LocatedRecord, crate::ReadError>| {
            seqs.push(found?.entry.seq);
            Ok::<_, crate::ReadError>(())
        };
        reader.read(each).unwrap();
    };
    read(&mut reader);
    drop(Log::open(log.path(), small(None)).unwrap());
    archive_all(log.path(), None);
    read(&mut reader);
    let last = *seqs.last().unwrap();
    assert_eq!(seqs, (1..=last).collect::<Vec<_>>(), "each once, in order");
    assert!(last > 31);
}

#[test]
fn a_missing_archive_is_named_and_from_allows_it() {
    let log = log(50, None);
    let made = archive_all(log.path(), None);
    let delete = |number: usize| {
        let segment = Chain(0).segment(made[number].first);
        fs::remove_file(beside(log.path()).join(format!("{segment}.gz"))).unwrap();
        let manifest = segment.replace(".jsonl", ".manifest.json");
        fs::remove_file(beside(log.path()).join(manifest)).unwrap();
    };
    delete(2);
    let missing = |first, last| ArchiveFault::Missing { first, last };
    assert_eq!(faults(log.path()), [missing(made[2].first, made[2].last)]);
    delete(0);
    delete(1);
    assert_eq!(faults(log.path()), [missing(1, made[2].last)]);
    let from = |head| VerifyOptions { from: Some(head), ..VerifyOptions::default() };
    let found = verify_with(log.path(), &from(made[2].last)).unwrap();
    assert!(found.is_good(), "{found:?}");
    assert_eq!(found.chains[0].begin, made[2].last);
    // A later head leaves the archives before it out; one of another log is missing.
    let found = verify_with(log.path(), &from(made[3].last)).unwrap();
    assert!(found.is_good(), "{found:?}");
    assert_eq!(found.chains[0].archives, made.len() - 4);
    let other = Head { hash: Hash::of(b"other"), ..made[2].last };
    let found = verify_with(log.path(), &from(other)).unwrap();
    assert_eq!((found.is_good(), found.missing), (false, vec![other]));
}

#[test]
fn archives_in_another_directory_are_named_by_it() {
    let log = log(50, None);
    let whole = lines(log.path());
    archive_all(log.path(), None);
    let elsewhere = tempfile::tempdir().unwrap();
    let to = elsewhere.path().join("2026");
    fs::rename(beside(log.path()), &to).unwrap();
    assert!(!verify(log.path(), &[]).unwrap().is_good());
    let options = VerifyOptions { archives: vec![to.clone()], ..VerifyOptions::default() };
    assert!(verify_with(log.path(), &options).unwrap().is_good());
    let mut read = Vec::new();
    Reader::with_archives(log.path(), vec![to])
        .read(|found| {
            read.push(found?.line);
            Ok::<_, crate::ReadError>(())
        })
        .unwrap();
    assert_eq!(read, whole);
}

#[test]
fn an_altered_archive_is_named_and_the_rest_is_still_checked() {
    let log = log(50, None);
    let made = archive_all(log.path(), None);
    let path = beside(log.path()).join(&made[1].file);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(faults(log.path()), [defect(&made[1].file, ArchiveDefect::Altered)]);
    fs::remove_file(&path).unwrap();
    assert_eq!(faults(log.path()), [defect(&made[1].file, ArchiveDefect::FileMissing)]);
    assert_eq!(report(log.path(), &VerifyOptions::default()).bad, None, "no other complaint");
}

/// Somebody who can compute hashes writes a manifest that fits an altered archive.
#[test]
fn an_archive_that_was_remade_from_other_records_does_not_fit_the_chain() {
    let log = log(50, None);
    let other = self::log(50, None);
    let made = archive_all(log.path(), None);
    let foreign = archive_all(other.path(), None);
    let copy = |from: &str, to: &str| {
        for end in [".jsonl.gz", ".manifest.json"] {
            let from = beside(other.path()).join(from.replace(".jsonl.gz", end));
            fs::copy(from, beside(log.path()).join(to.replace(".jsonl.gz", end))).unwrap();
        }
    };
    assert_eq!(made[1].file, foreign[1].file, "control: the same records but for their times");
    copy(&foreign[1].file, &made[1].file);
    assert_eq!(faults(log.path()), [defect(&made[1].file, ArchiveDefect::Foreign)]);
    // Reordered: the third in the place of the second.
    copy(&foreign[2].file, &made[1].file);
    let renamed = ArchiveDefect::Renamed(made[2].file.clone());
    assert_eq!(faults(log.path()), [defect(&made[1].file, renamed)]);
    fs::write(beside(log.path()).join("c0000-000000000001.manifest.json"), "{}\n").unwrap();
    let found = faults(log.path());
    let why = "missing field `format` at line 1 column 2".to_owned();
    assert_eq!(found[0], defect(&made[0].file, ArchiveDefect::Manifest(why)));
}

#[test]
fn signatures_are_of_the_expected_key() {
    let log = log(50, Some(key()));
    let made = archive_all(log.path(), Some(key()));
    let with = |key| VerifyOptions { key, ..VerifyOptions::default() };
    let found = verify_with(log.path(), &with(Some(key().public()))).unwrap();
    assert!(found.is_good(), "{found:?}");
    let head = found.chains[0].head;
    assert_eq!(found.chains[0].signed.unwrap().seq, head.seq - 1, "at an orderly end all is");
    assert!(verify_with(log.path(), &with(None)).unwrap().is_good());
    // Another key.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.pem");
    let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n-----END PUBLIC KEY-----\n";
    fs::write(&path, pem).unwrap();
    let other = PublicKey::load(&path).unwrap();
    let report = report(log.path(), &with(Some(other)));
    let signature = ArchiveDefect::Signature(SignatureFault::OtherKey);
    assert_eq!(report.faults[0], defect(&made[0].file, signature));
    assert_eq!(report.bad.unwrap().what, TamperKind::Signature(SignatureFault::OtherKey));
    // A manifest that was changed.
    let path = beside(log.path()).join(made[0].file.replace(".jsonl.gz", ".manifest.json"));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"records\":", "\"records\":1", 1)).unwrap();
    let invalid = ArchiveDefect::Signature(SignatureFault::Invalid);
    assert_eq!(faults(log.path()), [defect(&made[0].file, invalid)]);
    // One whose signature was taken off is accepted only where none is expected.
    fs::write(&path, text.split_inclusive('\n').next().unwrap()).unwrap();
    good(log.path());
    let report = self::report(log.path(), &with(Some(key().public())));
    let missing = ArchiveDefect::Signature(SignatureFault::Missing);
    assert_eq!(report.faults, [defect(&made[0].file, missing)]);
}

#[test]
fn a_chain_without_signatures_fails_where_a_key_is_expected() {
    let log = log(5, None);
    let options = VerifyOptions { key: Some(key().public()), ..VerifyOptions::default() };
    let found = verify_with(log.path(), &options).unwrap();
    assert_eq!((found.is_good(), found.unsigned), (false, vec![Chain(0)]));
}

/// A chain that somebody rewrote, hashes and head file included, has signatures that do not fit.
#[test]
fn a_rewritten_chain_has_no_valid_signature() {
    let log = log(3, Some(key()));
    let path = log.path().join(Chain(0).segment(1));
    let mut before = (0, Hash::ZERO);
    let mut text = Vec::new();
    for mut entry in crate::log::tests::entries(&path) {
        if entry.record == note(1) {
            entry.record = note(7);
        }
        entry.prev = before.1;
        let line = entry.render().unwrap();
        before = (entry.seq, Hash::of(&line));
        text.extend(line);
    }
    fs::write(&path, text).unwrap();
    let head = format!("{{\"seq\":{},\"hash\":\"{}\"}}", before.0, before.1);
    fs::write(log.path().join(Chain(0).head()), head).unwrap();
    let bad = report(log.path(), &VerifyOptions::default()).bad.unwrap();
    assert_eq!(bad.what, TamperKind::Signature(SignatureFault::Invalid));
}

#[test]
fn a_file_that_is_not_intact_is_not_archived() {
    let log = log(50, None);
    let path = log.path().join(Chain(0).segment(1));
    let text = fs::read_to_string(&path).unwrap();
    let archiver = Archiver::open(log.path(), &beside(log.path()), None).unwrap();
    let first = archiver.complete().unwrap().remove(0);
    let refused = |text: String| {
        fs::write(&path, &text).unwrap();
        let refused = archiver.archive(&first).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "nothing was deleted");
        refused.to_string()
    };
    let edited = text.replacen("\"calls\":1}", "\"calls\":9}", 1);
    let said = refused(edited);
    assert!(said.contains("000000000001.jsonl:3 does not follow the record before it"), "{said}");
    // An edit of the last line shows in the next file.
    let last = text.lines().last().unwrap();
    let said = refused(text.replace(last, &last.replace("\"calls\":", "\"calls\":1")));
    assert!(said.contains(".jsonl:1 does not follow"), "{said}");
    fs::write(&path, text).unwrap();
    archiver.archive(&first).unwrap();
    good(log.path());
}

#[test]
fn an_archive_of_the_same_name_with_other_records_is_not_replaced() {
    let log = log(50, None);
    let other = self::log(50, None);
    archive_all(other.path(), None);
    fs::create_dir(beside(log.path())).unwrap();
    for name in names(&beside(other.path())) {
        fs::copy(beside(other.path()).join(&name), beside(log.path()).join(&name)).unwrap();
    }
    let archiver = Archiver::open(log.path(), &beside(log.path()), None).unwrap();
    let before = names(log.path());
    let file = archiver.complete().unwrap().remove(0);
    let refused = archiver.archive(&file).unwrap_err();
    assert!(matches!(refused, ArchiveError::Conflict { .. }), "{refused}");
    assert_eq!(names(log.path()), before);
}

#[test]
fn two_archivers_do_not_work_at_once() {
    let log = log(5, None);
    let first = Archiver::open(log.path(), &beside(log.path()), None).unwrap();
    let refused = Archiver::open(log.path(), &beside(log.path()), None);
    assert!(matches!(refused, Err(ArchiveError::Busy(_))), "{refused:?}");
    drop(first);
    Archiver::open(log.path(), &beside(log.path()), None).unwrap();
}

/// Every state that an interruption can leave, in the order in which they come to be: each record is
/// there once for readers and for `verify`, and the next run ends in the same state.
#[test]
fn an_interruption_at_any_moment_loses_nothing() {
    let log = log(50, Some(key()));
    let whole = lines(log.path());
    let archiver = Archiver::open(log.path(), &beside(log.path()), Some(key())).unwrap();
    let first = archiver.complete().unwrap().remove(0);
    let manifest = archiver.write(&first).unwrap();
    drop(archiver);
    let files = |directory: &Path| -> BTreeMap<String, Vec<u8>> {
        names(directory)
            .into_iter()
            .filter(|name| name.starts_with("c0000"))
            .map(|name| {
                let bytes = fs::read(directory.join(&name)).unwrap();
                (name, bytes)
            })
            .collect()
    };
    let made = files(&beside(log.path()));
    let (gz, json) = (&manifest.file, manifest.file.replace(".jsonl.gz", ".manifest.json"));
    assert_eq!(made.keys().collect::<Vec<_>>(), [gz, &json]);
    let part = |name: &str, to: &str, length: usize| {
        (format!("{name}{to}"), made[name][..length].to_vec())
    };
    let (gz_length, json_length) = (made[gz].len(), made[&json].len());
    let all = (part(gz, "", gz_length), part(&json, "", json_length));
    let states: Vec<Vec<(String, Vec<u8>)>> = vec![
        vec![],
        vec![part(gz, ".new", 0)],
        vec![part(gz, ".new", gz_length / 2)],
        vec![part(gz, ".new", gz_length)],
        vec![all.0.clone()],
        vec![all.0.clone(), part(&json, ".new", json_length / 2)],
        vec![all.0.clone(), part(&json, ".new", json_length)],
        vec![all.0.clone(), all.1.clone()],
    ];
    for (number, state) in states.into_iter().enumerate() {
        fs::remove_dir_all(beside(log.path())).unwrap();
        fs::create_dir(beside(log.path())).unwrap();
        for (name, bytes) in &state {
            fs::write(beside(log.path()).join(name), bytes).unwrap();
        }
        assert_eq!(lines(log.path()), whole, "state {number}");
        good(log.path());
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir(beside(copy.path())).unwrap();
        for from in [log.path().to_owned(), beside(log.path())] {
            let to = if from == log.path() { copy.path().to_owned() } else { beside(copy.path()) };
            for (name, bytes) in files(&from) {
                fs::write(to.join(name), bytes).unwrap();
            }
        }
        let archiver = Archiver::open(copy.path(), &beside(copy.path()), Some(key())).unwrap();
        let file = archiver.complete().unwrap().remove(0);
        assert_eq!(archiver.archive(&file).unwrap(), manifest, "state {number}");
        assert_eq!(files(&beside(copy.path())), made, "state {number}: nothing is left over");
        assert!(!copy.path().join(&file.name).exists());
        assert_eq!(lines(copy.path()), whole, "state {number}");
        good(copy.path());
    }
}

#[test]
fn a_deletion_that_the_log_records_is_no_loss() {
    let log = log(50, None);
    let made = archive_all(log.path(), None);
    let writer = Log::open(log.path(), small(None)).unwrap();
    let event = ArchiveEvent {
        act: ArchiveAct::Deleted,
        file: made[0].file.clone(),
        last: made[0].last,
        sha256: made[0].sha256,
    };
    drop(writer.append(&Record::Archive(event)).unwrap());
    good(log.path());
    for end in [".jsonl.gz", ".manifest.json"] {
        let name = made[0].file.replace(".jsonl.gz", end);
        fs::remove_file(beside(log.path()).join(name)).unwrap();
    }
    let found = good(log.path());
    assert_eq!(found.chains[0].begin, made[0].last);
}

#[test]
fn a_file_is_complete_after_its_time_too() {
    let directory = tempfile::tempdir().unwrap();
    let daily = Options { rotate_after: Duration::ZERO, ..options() };
    let log = Log::open(directory.path(), daily).unwrap();
    drop(log.append(&note(1)).unwrap());
    drop(log);
    assert!(!archive_all(directory.path(), None).is_empty());
    good(directory.path());
}

#[test]
fn a_record_of_an_unknown_kind_is_refused_and_not_cut_off() {
    let directory = crate::log::tests::made(2);
    let path = crate::log::tests::file(directory.path());
    let text = fs::read(&path).unwrap();
    let last = text.split_inclusive(|byte| *byte == b'\n').next_back().unwrap();
    let line = format!(
        "{{\"seq\":4,\"time\":\"2026-01-31T12:34:56.789Z\",\"prev\":\"{}\",\"kind\":\"later\"}}\n",
        Hash::of(last)
    );
    fs::write(&path, [&text, line.as_bytes()].concat()).unwrap();
    let refused = Log::open(directory.path(), options()).unwrap_err().to_string();
    assert!(refused.contains("record 4 of c0000-000000000001.jsonl"), "{refused}");
    assert!(refused.contains("unknown variant `later`"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), [&text, line.as_bytes()].concat());
    assert!(names(directory.path()).iter().all(|name| !name.contains("torn")));
    good(directory.path());
}

#[test]
fn retention_archives_by_age_and_size_and_deletes_archives_in_order() {
    let directory = log(50, None);
    let whole = lines(directory.path());
    let writer = Log::open(directory.path(), small(None)).unwrap();
    let apply = |policy: RetentionPolicy, later: i64| {
        let now = Timestamp::from_millis(Timestamp::now().millis() + later);
        policy.apply(&writer, directory.path(), None, now).unwrap()
    };
    let none = RetentionPolicy::default();
    let hour = Some(Duration::from_secs(3600));
    let unchanged = RetentionReport::default();
    assert_eq!(apply(RetentionPolicy { keep: hour, ..none }, 0), unchanged);
    let size = LogVolume::of(directory.path()).unwrap().log_bytes;
    let done = apply(RetentionPolicy { keep_size: Some(size - 1), ..none }, 0);
    assert_eq!(done, RetentionReport { archived: 1, deleted: 0 });
    assert!(LogVolume::of(directory.path()).unwrap().archive_bytes > 0);
    let done = apply(RetentionPolicy { keep: hour, ..none }, 7_200_000);
    assert!(done.archived > 3 && done.deleted == 0, "{done:?}");
    assert_eq!(lines(directory.path())[..whole.len()], whole);
    good(directory.path());
    // Archives go from the beginning on, and the log says which.
    let archive_bytes = LogVolume::of(directory.path()).unwrap().archive_bytes;
    let most = Some(archive_bytes - 1);
    let done = apply(RetentionPolicy { keep_archives_size: most, ..none }, 0);
    assert_eq!(done, RetentionReport { archived: 0, deleted: 1 });
    let begin = good(directory.path()).chains[0].begin;
    assert!(begin.seq > 0);
    let done = apply(RetentionPolicy { keep_archives: hour, ..none }, 7_200_000);
    assert!(done.deleted > 3, "{done:?}");
    assert_eq!(LogVolume::of(directory.path()).unwrap().archive_bytes, 0);
    let found = good(directory.path());
    assert!(found.chains[0].begin.seq > begin.seq);
    drop(writer);
    let events: Vec<_> = lines(directory.path())
        .iter()
        .filter_map(|line| {
            let record = crate::Entry::parse(line).unwrap().record;
            if let Record::Archive(event) = record { Some(event.act) } else { None }
        })
        .collect();
    assert!(events.contains(&ArchiveAct::Deleted), "{events:?}");
}

#[test]
fn what_can_not_be_archived_is_not_deleted() {
    let directory = log(50, None);
    let writer = Log::open(directory.path(), small(None)).unwrap();
    // A file in the place of the directory.
    fs::write(beside(directory.path()), "").unwrap();
    let files = || {
        let mut names = names(directory.path());
        names.retain(|name| name.ends_with(".jsonl"));
        names
    };
    let before = files();
    let policy = RetentionPolicy { keep_size: Some(0), ..RetentionPolicy::default() };
    policy.apply(&writer, directory.path(), None, Timestamp::now()).unwrap_err();
    assert!(before.len() > 5, "{before:?}");
    assert_eq!(files(), before);
}

#[test]
fn a_deletion_that_was_interrupted_is_no_loss_and_is_gone_on_with() {
    let directory = log(50, None);
    let made = archive_all(directory.path(), None);
    let writer = Log::open(directory.path(), small(None)).unwrap();
    let event = ArchiveEvent {
        act: ArchiveAct::Deleted,
        file: made[0].file.clone(),
        last: made[0].last,
        sha256: made[0].sha256,
    };
    drop(writer.append(&Record::Archive(event)).unwrap());
    fs::remove_file(beside(directory.path()).join(&made[0].file)).unwrap();
    good(directory.path());
    let policy = RetentionPolicy { keep_archives_size: Some(1), ..RetentionPolicy::default() };
    let done = policy.apply(&writer, directory.path(), None, Timestamp::now()).unwrap();
    assert_eq!(done.deleted, made.len());
    good(directory.path());
}

#[test]
fn a_damaged_archive_is_told_and_the_rest_is_read() {
    let log = log(50, None);
    let whole = lines(log.path());
    let made = archive_all(log.path(), None);
    let path = beside(log.path()).join(&made[1].file);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let (mut read, mut told) = (Vec::new(), Vec::new());
    Reader::with_archives(log.path(), Vec::new())
        .read(|found| {
            match found {
                Ok(found) => read.push(found.line),
                Err(error) => told.push(error.to_string()),
            }
            Ok::<_, crate::ReadError>(())
        })
        .unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(&format!("archive {} can not be read", made[1].file)), "{told:?}");
    let records = usize::try_from(made[1].records).unwrap();
    assert!(read.len() >= whole.len() - records && read.len() < whole.len(), "{}", read.len());
    assert_eq!(read.last(), whole.last());
}
