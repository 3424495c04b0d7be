//! Tests of the undo store: owners, limits, and torn records.

use super::*;
use crate::{
    base::quotas::UNDO_KEEP as KEEP,
    stores::undo::{Force, NewUndoRecord, RecordLifetime, assemble, holds::MARK},
};
use palisade_plan::{
    Path as CellPath,
    change::{Before, Print, Restoration, State},
};
use palisade_protocol::{ErrorCode, RawPath, WireError};
use std::{os::unix::fs::MetadataExt as _, time::Duration};

const ROOM: u64 = 1 << 20;

struct Place {
    directory: tempfile::TempDir,
    undos: Undos,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let undos = Undos::new(Some(directory.path().to_owned()));
    Place { directory, undos }
}

impl Place {
    /// Returns the store as a newly started daemon finds it.
    fn again(&self) -> Undos {
        Undos::new(Some(self.directory.path().to_owned()))
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn owner(uid: u32, workspace: &str) -> Owner {
    Owner { uid, workspace: RawPath::from(workspace) }
}

fn call() -> CallId {
    uuid::Uuid::now_v7().to_string().parse().unwrap()
}

fn begun(call: &CallId, session: &str, room: u64) -> NewUndoRecord {
    NewUndoRecord {
        owner: owner(7, "/w"),
        session: session.parse().unwrap(),
        call_id: call.clone(),
        tool: "edit".parse().unwrap(),
        undoes: Vec::new(),
        term: RecordLifetime::ForUndo { room },
    }
}

fn file(size: u64) -> Before {
    let state = State::File { mode: 0o640, size, mtime: (1, 2) };
    Before::State { path: CellPath(b"/w/f".to_vec()), state }
}

fn left() -> Vec<(CellPath, Print)> {
    vec![(CellPath(b"/w/f".to_vec()), Print::File { mode: 0o640, digest: [3; 32] })]
}

/// Writes the record of a call that replaces a file with these contents, which its session did not
/// make.
async fn keep(
    undos: &Undos,
    session: &str,
    contents: &[u8],
    room: u64,
) -> Result<CallId, UndoError> {
    keep_as(undos, session, contents, (room, DeletionLoss::Loss)).await
}

/// Writes the record of a call that replaces a file with these contents, which its session made.
async fn keep_own(
    undos: &Undos,
    session: &str,
    contents: &[u8],
    room: u64,
) -> Result<CallId, UndoError> {
    keep_as(undos, session, contents, (room, DeletionLoss::OwnWork)).await
}

async fn keep_as(
    undos: &Undos,
    session: &str,
    contents: &[u8],
    (room, loses): (u64, DeletionLoss),
) -> Result<CallId, UndoError> {
    let call = call();
    let mut writing = undos.begin(begun(&call, session, room)).await?;
    writing.before(&file(contents.len() as u64)).await?;
    for piece in contents.chunks(256 * 1024) {
        writing.content(piece).await?;
    }
    writing.ready(&[7; 32], loses).await?;
    writing.keep();
    writing.complete(&left()).await?;
    Ok(call)
}

fn contents(record: StoredUndoRecord) -> Vec<u8> {
    let restore = assemble(&[record], Force::Careful).unwrap();
    restore.pieces.iter().flat_map(|piece| piece.read().unwrap()).collect()
}

#[tokio::test]
async fn what_is_kept_outlives_the_daemon_and_is_private() {
    let place = place();
    let bytes: Vec<u8> = (0..=255).cycle().take(600_000).collect();
    let call = keep(&place.undos, "s1", &bytes, ROOM).await.unwrap();
    assert_eq!(place.files(), [call.to_string()]);
    let found = fs::metadata(place.directory.path().join(call.as_str())).unwrap();
    assert_eq!(found.mode() & 0o7777, 0o600);
    for undos in [&place.undos, &place.again()] {
        let record = undos.one(&owner(7, "/w"), &call).await.unwrap();
        assert_eq!(record.head.tool.as_str(), "edit");
        assert_eq!(record.entries.len(), 1);
        assert_eq!(record.entries[0].before, file(600_000));
        assert_eq!(record.left, Some(left()));
        assert!(contents(record) == bytes);
    }
}

#[tokio::test]
async fn what_was_not_begun_leaves_nothing() {
    let place = place();
    let (small, large) = (call(), call());
    let mut writing = place.undos.begin(begun(&small, "s1", 8 * ROOM)).await.unwrap();
    writing.before(&file(3)).await.unwrap();
    writing.content(b"abc").await.unwrap();
    writing.ready(&[7; 32], DeletionLoss::Loss).await.unwrap();
    assert_eq!(place.files(), [small.to_string()]);
    drop(writing);
    assert_eq!(place.files(), [""; 0]);
    let mut writing = place.undos.begin(begun(&large, "s1", 8 * ROOM)).await.unwrap();
    writing.before(&file(4 << 20)).await.unwrap();
    for _ in 0..16 {
        writing.content(&[7; 256 * 1024]).await.unwrap();
    }
    assert_eq!(place.files(), [large.to_string()], "more than memory holds is on disk");
    // A cell that sends more than it announced is refused.
    writing.content(b"x").await.unwrap_err();
    drop(writing);
    assert_eq!(place.files(), [""; 0]);
    let (session, all) = place.undos.index(|index| Ok(index.sums(&"s1".parse().unwrap()))).unwrap();
    assert_eq!((session.bytes, session.records, all.bytes, all.records), (0, 0, 0, 0));
    let error = place.undos.one(&owner(7, "/w"), &small).await.unwrap_err();
    assert!(matches!(error, UndoError::None(_)), "{error}");
}

#[tokio::test]
async fn anothers_call_is_like_none_and_another_workspaces_says_so() {
    let place = place();
    let call = keep(&place.undos, "s1", b"secret", ROOM).await.unwrap();
    place.undos.one(&owner(7, "/w"), &call).await.unwrap();
    let unknown = self::call();
    let told = |error: UndoError, id: &CallId| {
        let WireError { code, message, hint, .. } = error.into();
        (code, message.replace(id.as_str(), "ID"), hint)
    };
    let others = place.undos.one(&owner(8, "/w"), &call).await.unwrap_err();
    let none = place.undos.one(&owner(8, "/w"), &unknown).await.unwrap_err();
    assert_eq!(told(others, &call), told(none, &unknown));
    let others = place.undos.since(&owner(0, "/w"), &call).await.unwrap_err();
    assert!(matches!(others, UndoError::None(_)), "{others}");
    let elsewhere = place.undos.one(&owner(7, "/v"), &call).await.unwrap_err();
    assert_eq!(WireError::from(elsewhere).code, ErrorCode::NotFound);
    for name in ["..", ".", "x/y", "c1"] {
        let Ok(name) = name.parse() else { continue };
        let error = place.undos.one(&owner(7, "/w"), &name).await.unwrap_err();
        assert!(matches!(error, UndoError::None(_)), "{name}: {error}");
    }
}

#[tokio::test]
async fn what_another_daemon_kept_is_found() {
    let place = place();
    let early = place.again();
    keep(&early, "s0", b"x", ROOM).await.unwrap();
    let call = keep(&place.undos, "s1", b"abc", ROOM).await.unwrap();
    assert_eq!(contents(early.one(&owner(7, "/w"), &call).await.unwrap()), b"abc");
}

#[tokio::test]
async fn torn_anywhere_it_is_never_taken_for_whole() {
    let place = place();
    let call = keep(&place.undos, "s1", b"0123456789", ROOM).await.unwrap();
    let path = place.directory.path().join(call.as_str());
    let whole = fs::read(&path).unwrap();
    let record = record::read(&path, &record::read_summary(&path).unwrap().head).unwrap();
    let head = record.head.clone();
    let mut ends = [0; 3];
    // The end of the file only says whether the record may be deleted.
    let end = whole.len() - MARK;
    for length in 0..end {
        fs::write(&path, &whole[..length]).unwrap();
        match record::read(&path, &head) {
            // Cut before the change could begin: nothing was done.
            Err(UndoError::None(_)) => ends[0] += 1,
            Err(UndoError::Damaged(..)) => ends[1] += 1,
            Err(error) => panic!("{length}: {error}"),
            Ok(record) => {
                ends[2] += 1;
                assert_eq!(record.left, None, "{length}");
                let error = assemble(&[record], Force::Careful).unwrap_err();
                assert!(matches!(error, UndoError::Unfinished(_)), "{error}");
                assert_eq!(WireError::from(error).code, ErrorCode::Conflict);
            }
        }
    }
    assert_eq!(ends.iter().sum::<i32>(), i32::try_from(end).unwrap());
    assert!(ends.iter().all(|count| *count > 0), "{ends:?}");
    for at in 0..end {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x40;
        fs::write(&path, &flipped).unwrap();
        if let Ok(record) = record::read(&path, &head) {
            assert_eq!(record.left, None, "a flipped byte at {at} was not noticed");
        }
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(contents(record::read(&path, &head).unwrap()), b"0123456789");
}

#[tokio::test]
async fn without_its_end_it_can_be_forced() {
    let place = place();
    let call = call();
    let mut writing = place.undos.begin(begun(&call, "s1", ROOM)).await.unwrap();
    writing.before(&file(0)).await.unwrap();
    writing.ready(&[7; 32], DeletionLoss::Loss).await.unwrap();
    writing.keep();
    drop(writing);
    let record = place.again().one(&owner(7, "/w"), &call).await.unwrap();
    let restore = assemble(&[record], Force::Forced).unwrap();
    assert!(matches!(&restore.entries[..], [Restoration::Put { expect: Print::Absent, .. }]));
    assert_eq!(restore.pieces.len(), 1, "an empty file has its end");
    assert!(restore.pieces[0].end && restore.pieces[0].read().unwrap().is_empty());
}

#[tokio::test]
async fn the_oldest_own_work_of_a_session_goes_first_and_others_stay() {
    let place = place();
    let other = keep_own(&place.undos, "s2", &[1; 90_000], 300_000).await.unwrap();
    let mut calls = Vec::new();
    for _ in 0..4 {
        calls.push(keep_own(&place.undos, "s1", &[1; 90_000], 300_000).await.unwrap());
    }
    let mut expected = vec![other.to_string()];
    expected.extend(calls[1..].iter().map(CallId::to_string));
    expected.sort();
    assert_eq!(place.files(), expected);
    let gone = place.undos.one(&owner(7, "/w"), &calls[0]).await.unwrap_err();
    assert!(matches!(gone, UndoError::None(_)), "{gone}");
    place.undos.one(&owner(7, "/w"), &calls[1]).await.unwrap();
    // A record that is too large by itself is refused, and no other is deleted for it.
    let error = keep(&place.undos, "s3", &[1; 400_000], 300_000).await.unwrap_err();
    assert_eq!(WireError::from(error).code, ErrorCode::TooLarge);
    assert_eq!(place.files(), expected);
}

#[tokio::test]
async fn many_small_writes_do_not_push_out_a_loss() {
    let place = place();
    let lost = keep(&place.undos, "s1", b"precious", 300_000).await.unwrap();
    let first = keep_own(&place.undos, "s1", b"x", 300_000).await.unwrap();
    for _ in 0..1_100 {
        keep_own(&place.undos, "s1", b"x", 300_000).await.unwrap();
    }
    // 300,000 bytes are 73 files of one block each.
    assert_eq!(place.files().len(), 1 + 73);
    for undos in [&place.undos, &place.again()] {
        let record = undos.one(&owner(7, "/w"), &lost).await.unwrap();
        assert_eq!(contents(record), b"precious");
        let gone = undos.one(&owner(7, "/w"), &first).await.unwrap_err();
        assert!(matches!(gone, UndoError::None(_)), "{gone}");
    }
}

#[tokio::test]
async fn records_of_own_work_are_counted_and_losses_are_not() {
    let place = place();
    for _ in 0..1030 {
        keep_own(&place.undos, "s1", b"x", 1 << 30).await.unwrap();
    }
    assert_eq!(place.files().len(), 1024);
    for _ in 0..1030 {
        keep(&place.undos, "s1", b"x", 1 << 30).await.unwrap();
    }
    // One record of own work was deleted for the record that was being written.
    assert_eq!(place.files().len(), 1023 + 1030);
}

#[tokio::test]
async fn a_new_file_is_own_work_and_a_record_without_its_end_is_a_loss() {
    let place = place();
    let glance = |call: &CallId| {
        record::read_summary(&place.directory.path().join(call.as_str())).unwrap().holds
    };
    let own = keep_own(&place.undos, "s1", b"x", ROOM).await.unwrap();
    let lost = keep(&place.undos, "s1", b"x", ROOM).await.unwrap();
    assert_eq!((glance(&own), glance(&lost)), (DeletionLoss::OwnWork, DeletionLoss::Loss));
    // The path did not exist, so this is own work whatever the caller says.
    let created = call();
    let mut writing = place.undos.begin(begun(&created, "s1", ROOM)).await.unwrap();
    let path = CellPath(b"/w/new".to_vec());
    writing.before(&Before::State { path, state: State::Absent }).await.unwrap();
    writing.ready(&[7; 32], DeletionLoss::Loss).await.unwrap();
    writing.keep();
    assert_eq!(glance(&created), DeletionLoss::Loss, "its end is not written yet");
    writing.complete(&left()).await.unwrap();
    drop(writing);
    assert_eq!(glance(&created), DeletionLoss::OwnWork);
}

#[tokio::test]
async fn the_old_are_swept_and_what_is_no_record() {
    let place = place();
    keep(&place.undos, "s1", b"x", ROOM).await.unwrap();
    keep_own(&place.undos, "s1", b"x", ROOM).await.unwrap();
    let now = Moment::now();
    let junk = |name: &str, age: Duration| {
        let file = fs::File::create(place.directory.path().join(name)).unwrap();
        file.set_modified(now.clock - age).unwrap();
    };
    junk("old", KEEP * 2);
    junk("young", Duration::ZERO);
    let again = place.again();
    assert_eq!(again.sweep(now).unwrap(), 0);
    // Setting the clock does not make existing records older.
    for clock in [SystemTime::UNIX_EPOCH, now.clock + KEEP * 2] {
        assert_eq!(again.sweep(Moment { clock, ..now }).unwrap(), 0);
    }
    assert_eq!(place.files().len(), 3);
    let almost = KEEP - Duration::from_secs(60);
    assert_eq!(again.sweep(now.later(almost)).unwrap(), 0);
    assert_eq!(again.sweep(now.later(KEEP * 2)).unwrap(), 2);
    assert_eq!(place.files(), ["young"]);
    assert_eq!(Undos::new(None).sweep(now).unwrap(), 0);
}

/// Returns how many bytes the store holds for two users.
fn held(undos: &Undos) -> (u64, u64) {
    (undos.used(7), undos.used(8))
}

#[tokio::test]
async fn a_users_bound_refuses_what_is_new_and_loses_nothing() {
    let place = place();
    place.undos.allow(UndoBounds { bytes: 32 * 4096, keep: KEEP });
    let others = || NewUndoRecord { owner: owner(8, "/w"), ..begun(&call(), "other", ROOM) };
    let mut calls = Vec::new();
    let error = loop {
        // Each record is in its own session; they count together.
        let session = format!("s{}", calls.len());
        match keep(&place.undos, &session, &[1; 20_000], ROOM).await {
            Ok(call) => calls.push(call),
            Err(error) => break error,
        }
    };
    let (used, none) = held(&place.undos);
    assert_eq!((used, none, calls.len()), (6 * 5 * 4096, 0, 6));
    let told = error.to_string();
    let start = "the undo store of uid 7 is full: 6 records that hold a loss take 122880 of 131072 bytes, \
                 and this call needs at least 24576 more; the oldest is ";
    assert!(told.starts_with(start), "{told}");
    let error = WireError::from(error);
    assert_eq!(error.code, ErrorCode::UndoStoreFull);
    let (wait, most) = (error.retry_after_ms.unwrap(), KEEP.as_millis().try_into().unwrap());
    assert!(wait <= most && wait > most / 2, "{wait}");
    // No stored record is lost, and nothing of the refused one is left.
    assert_eq!(place.files().len(), calls.len());
    for call in &calls {
        place.undos.one(&owner(7, "/w"), call).await.unwrap();
    }
    // A permanent change needs no room: its journal is deleted when it is done.
    let begun = NewUndoRecord { term: RecordLifetime::WhileDone, ..begun(&call(), "s0", 0) };
    let mut writing = place.undos.begin(begun).await.unwrap();
    writing.before(&file(0)).await.unwrap();
    writing.ready(&[7; 32], DeletionLoss::Loss).await.unwrap();
    drop(writing);
    // Another user has a quota of their own.
    let mut writing = place.undos.begin(others()).await.unwrap();
    writing.before(&file(0)).await.unwrap();
    writing.ready(&[7; 32], DeletionLoss::Loss).await.unwrap();
    writing.keep();
    writing.complete(&left()).await.unwrap();
    drop(writing);
    assert_eq!(held(&place.undos), (used, 4096));
    // The next daemon counts the same size.
    assert_eq!(held(&place.again()), (used, 4096));
    // Deleted records make room.
    assert_eq!(place.undos.release(Some(7), KEEP).unwrap(), (0, 0));
    assert_eq!(place.undos.release(Some(7), Duration::ZERO).unwrap(), (calls.len() as u64, used));
    assert_eq!(held(&place.undos), (0, 4096));
    assert_eq!(place.files().len(), 1);
    keep(&place.undos, "s0", &[1; 20_000], ROOM).await.unwrap();
}

#[tokio::test]
async fn own_work_of_a_user_goes_for_their_bound_before_anything_is_refused() {
    let place = place();
    place.undos.allow(UndoBounds { bytes: 32 * 4096, keep: KEEP });
    let lost = keep(&place.undos, "s0", &[1; 20_000], ROOM).await.unwrap();
    let mut own = Vec::new();
    for n in 0..9 {
        own.push(keep_own(&place.undos, &format!("s{n}"), &[1; 20_000], ROOM).await.unwrap());
    }
    assert_eq!(held(&place.undos), (6 * 5 * 4096, 0));
    for (n, call) in own.iter().enumerate() {
        assert_eq!(place.undos.one(&owner(7, "/w"), call).await.is_ok(), n >= 4, "{n}");
    }
    // A newly started daemon knows which records may be deleted.
    let again = place.again();
    again.allow(UndoBounds { bytes: 32 * 4096, keep: KEEP });
    for n in 0..5 {
        keep(&again, &format!("t{n}"), &[1; 20_000], ROOM).await.unwrap();
    }
    assert_eq!(place.files().len(), 6, "all own work went");
    let error = keep_own(&again, "s9", b"x", ROOM).await.map(drop);
    assert!(error.is_ok(), "there is room for a small one: {error:?}");
    let error = keep_own(&again, "s9", &[1; 20_000], ROOM).await.unwrap_err();
    assert_eq!(WireError::from(error).code, ErrorCode::UndoStoreFull);
    again.one(&owner(7, "/w"), &lost).await.unwrap();
    assert_eq!(place.files().len(), 7, "nothing goes for what is refused");
}

#[tokio::test]
async fn a_loss_goes_for_another_once_it_was_kept_long_enough() {
    let place = place();
    let bounds = UndoBounds { bytes: 10 * 4096, keep: KEEP };
    place.undos.allow(bounds);
    let lost = keep(&place.undos, "s0", &[1; 20_000], ROOM).await.unwrap();
    keep(&place.undos, "s0", &[1; 20_000], ROOM).await.unwrap_err();
    place.undos.allow(UndoBounds { keep: Duration::ZERO, ..bounds });
    keep(&place.undos, "s0", &[1; 20_000], ROOM).await.unwrap();
    let gone = place.undos.one(&owner(7, "/w"), &lost).await.unwrap_err();
    assert!(matches!(gone, UndoError::None(_)), "{gone}");
}

#[tokio::test]
async fn what_will_not_fit_is_refused_before_anything_goes_for_it() {
    let place = place();
    let small = keep(&place.undos, "s1", &[1; 90_000], 8 * ROOM).await.unwrap();
    let mut writing = place.undos.begin(begun(&call(), "s1", 8 * ROOM)).await.unwrap();
    let error = writing.before(&file(9 << 20)).await.unwrap_err();
    assert_eq!(WireError::from(error).code, ErrorCode::TooLarge);
    drop(writing);
    place.undos.allow(UndoBounds { bytes: 4 << 20, keep: KEEP });
    let mut writing = place.undos.begin(begun(&call(), "s2", 8 * ROOM)).await.unwrap();
    let error = writing.before(&file(5 << 20)).await.unwrap_err();
    assert_eq!(WireError::from(error).code, ErrorCode::UndoStoreFull);
    drop(writing);
    assert_eq!(place.files(), [small.to_string()]);
}

#[tokio::test]
async fn those_after_a_call_are_its_sessions_newest_first() {
    let place = place();
    let mut calls = Vec::new();
    for session in ["s1", "s1", "s2", "s1"] {
        calls.push(keep(&place.undos, session, b"x", ROOM).await.unwrap());
    }
    for undos in [&place.undos, &place.again()] {
        let since = undos.since(&owner(7, "/w"), &calls[0]).await.unwrap();
        let found: Vec<_> = since.iter().map(|record| record.head.call_id.clone()).collect();
        assert_eq!(found, [calls[3].clone(), calls[1].clone()]);
        let error = undos.since(&owner(7, "/w"), &calls[3]).await.unwrap_err();
        assert!(matches!(error, UndoError::NothingSince(_)), "{error}");
    }
}

#[tokio::test]
async fn too_many_names_are_refused() {
    let place = place();
    let mut writing = place.undos.begin(begun(&call(), "s1", 1 << 30)).await.unwrap();
    let path = CellPath(vec![b'n'; 4000]);
    let before = Before::State { path, state: State::Absent };
    let refused = loop {
        if let Err(error) = writing.before(&before).await {
            break error;
        }
    };
    assert!(matches!(refused, UndoError::TooLarge(_)), "{refused}");
    drop(writing);
    assert_eq!(place.files(), [""; 0]);
}

#[tokio::test]
async fn without_a_directory_nothing_is_kept_and_so_nothing_changed() {
    let error = keep(&Undos::new(None), "s1", b"x", ROOM).await.unwrap_err();
    assert_eq!(WireError::from(error).code, ErrorCode::FileSystem);
}

/// Records of an earlier build can still be undone after an upgrade.
#[test]
fn what_an_earlier_build_kept_is_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/earlier/undo");
    let path = fs::read_dir(directory).unwrap().next().unwrap().unwrap().path();
    let RecordSummary { head, bytes, holds } = record::read_summary(&path).unwrap();
    assert_eq!(holds, DeletionLoss::Loss, "it says nothing of itself");
    assert_eq!((head.uid, head.tool.as_str(), bytes), (4242, "write_file", 4096));
    assert_eq!(head.workspace, RawPath::from("/tmp/palisade-earlier/workspace"));
    let record = record::read(&path, &head).unwrap();
    assert_eq!(record.left.as_ref().map(Vec::len), Some(1));
    assert_eq!(contents(record), b"the first\n");
}

#[test]
fn what_another_daemon_has_deleted_is_deleted() {
    let place = place();
    let old = call();
    place.undos.unlink(std::slice::from_ref(&old)).unwrap();
    assert_eq!(place.undos.sweep(Moment::now()).unwrap(), 0);
    // With the directory, all of its records are gone.
    fs::remove_dir(place.directory.path()).unwrap();
    assert_eq!(place.undos.sweep(Moment::now()).unwrap(), 0);
    assert_eq!(place.again().sweep(Moment::now()).unwrap(), 0);
    place.undos.unlink(&[old]).unwrap();
}
