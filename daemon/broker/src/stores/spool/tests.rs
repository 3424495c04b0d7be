//! Tests of the output store: who may read a spool, its size, and when it is deleted.

use super::*;
use std::os::unix::fs::MetadataExt as _;

fn spools() -> (tempfile::TempDir, Spools, CallId) {
    let directory = tempfile::tempdir().unwrap();
    let spools = Spools::new(Some(directory.path().to_owned()));
    (directory, spools, uuid::Uuid::now_v7().to_string().parse().unwrap())
}

fn query(call_id: &CallId, offset: u64, limit: Option<u64>) -> OutputQuery {
    OutputQuery { call_id: call_id.clone(), offset, limit }
}

#[tokio::test]
async fn pages_make_up_the_whole_up_to_the_limit() {
    let (directory, spools, call) = spools();
    let mut spool = spools.create(&call, 7, 8).await.unwrap();
    spool.write(b"01234").await.unwrap();
    spool.write(b"56789").await.unwrap();
    spool.finish(10).await.unwrap();
    let page = spools.page(query(&call, 3, Some(2)), 7).await.unwrap();
    assert_eq!((page.data.0.as_slice(), page.spooled, page.total), (&b"34"[..], 8, 10));
    let page = spools.page(query(&call, 0, None), 7).await.unwrap();
    assert_eq!(page.data.0, b"01234567");
    let page = spools.page(query(&call, u64::MAX, None), 7).await.unwrap();
    assert_eq!((page.data.0.len(), page.offset), (0, u64::MAX));
    for entry in fs::read_dir(directory.path()).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn anothers_spool_is_like_none() {
    let (_directory, spools, call) = spools();
    let spool = spools.create(&call, 7, 8).await.unwrap();
    spool.finish(0).await.unwrap();
    spools.page(query(&call, 0, None), 7).await.unwrap();
    let others = spools.page(query(&call, 0, None), 8).await.unwrap_err();
    assert_eq!(others.code, ErrorCode::NotFound);
    let unknown: CallId = uuid::Uuid::now_v7().to_string().parse().unwrap();
    let none = spools.page(query(&unknown, 0, None), 8).await.unwrap_err();
    assert_eq!(none.message.replace(unknown.as_str(), call.as_str()), others.message);
    assert_eq!((none.code, none.hint), (others.code, others.hint));
    for name in ["..", ".", &format!("{call}.meta")] {
        let error = spools.page(query(&name.parse().unwrap(), 0, None), 7).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::NotFound, "{name}");
    }
}

#[tokio::test]
async fn old_spools_are_swept_and_young_ones_are_not() {
    let (directory, spools, call) = spools();
    spools.create(&call, 7, 8).await.unwrap().finish(0).await.unwrap();
    let now = Moment::now();
    // Setting the clock does not make spools older.
    for clock in [now.clock, now.clock + MAX_AGE * 9, SystemTime::UNIX_EPOCH] {
        assert_eq!(spools.sweep(Moment { clock, ..now }).unwrap(), 0);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    assert_eq!(spools.sweep(now.later(MAX_AGE * 2)).unwrap(), 1);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(spools.users(), []);
}

#[test]
fn another_daemon_knows_when_the_stores_were_swept() {
    let state = tempfile::tempdir().unwrap();
    let directory = state.path().join("spool");
    fs::create_dir(&directory).unwrap();
    let spools = Spools::new(Some(directory.clone()));
    assert_eq!(spools.since_sweep(), None);
    spools.note_sweep().unwrap();
    let again = Spools::new(Some(directory.clone()));
    assert!(again.since_sweep().unwrap() < MAX_AGE);
    let file = fs::File::open(directory.join(SWEPT)).unwrap();
    for (at, known) in [(MAX_AGE, true), (Duration::ZERO, false)] {
        let time = SystemTime::now() + Duration::from_secs(600) - at * 2;
        file.set_modified(time).unwrap();
        assert_eq!(again.since_sweep().is_some_and(|since| since > MAX_AGE), known);
        assert_eq!(again.since_sweep().is_some(), known);
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    // Without a directory nothing is stored, so nothing is swept.
    assert_eq!(Spools::new(None).since_sweep(), None);
    Spools::new(None).note_sweep().unwrap();
}

#[tokio::test]
async fn what_an_earlier_daemon_left_is_counted_and_what_is_nobodys_goes_when_it_is_old() {
    let (directory, spools, call) = spools();
    let mut spool = spools.create(&call, 7, 100).await.unwrap();
    spool.write(&[1; 60]).await.unwrap();
    spool.finish(60).await.unwrap();
    let now = Moment::now();
    for (name, age) in [("old", MAX_AGE), ("old.meta", MAX_AGE), ("young", Duration::ZERO)] {
        let file = fs::File::create(directory.path().join(name)).unwrap();
        file.set_modified(now.clock - age).unwrap();
    }
    let again = Spools::new(Some(directory.path().to_owned()));
    assert_eq!(again.users(), [(7, OVERHEAD + 60)]);
    assert_eq!(again.sweep(now).unwrap(), 0);
    let mut left: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    let mut expected = [call.to_string(), format!("{call}.meta"), "young".to_owned()];
    expected.sort();
    assert_eq!(left, expected);
}

#[tokio::test]
async fn a_users_bound_holds_for_all_their_spools_and_no_others() {
    let (_directory, spools, call) = spools();
    let id = || uuid::Uuid::now_v7().to_string().parse::<CallId>().unwrap();
    let bytes = 2 * OVERHEAD + 100;
    spools.allow(ByteQuota { bytes, past: OverQuotaAction::Refused });
    spools.check(7, 100).await.unwrap();
    let mut first = spools.create(&call, 7, 80).await.unwrap();
    first.write(&[1; 90]).await.unwrap();
    first.finish(90).await.unwrap();
    // The remaining quota is used, and the end of the output is cut.
    let second = id();
    let mut spool = spools.create(&second, 7, 80).await.unwrap();
    spool.write(b"0123456789").await.unwrap();
    spool.write(b"abcdefghijklmn").await.unwrap();
    spool.write(b"x").await.unwrap();
    spool.finish(25).await.unwrap();
    let page = spools.page(query(&second, 0, None), 7).await.unwrap();
    assert_eq!((page.data.0.as_slice(), page.total), (&b"0123456789abcdefghij"[..], 25));
    let full = spools.check(7, 1).await.unwrap_err();
    let expected = (7, 2 * OVERHEAD + 100, 2 * OVERHEAD + 100, OVERHEAD + 1);
    assert_eq!((full.uid, full.used, full.most, full.more), expected);
    assert!(full.oldest.is_some_and(|left| left <= MAX_AGE && left > MAX_AGE / 2), "{full:?}");
    let error = spools.create(&id(), 7, 8).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
    // Another user has a quota of their own.
    spools.check(8, 100).await.unwrap();
    spools.create(&id(), 8, 8).await.unwrap().finish(0).await.unwrap();
    assert_eq!(spools.forget(Some(7), MAX_AGE).unwrap(), (0, 0));
    assert_eq!(spools.forget(Some(7), Duration::ZERO).unwrap(), (2, 2 * OVERHEAD + 100));
    assert_eq!(spools.users(), [(8, OVERHEAD)]);
    spools.check(7, 100).await.unwrap();
    assert_eq!(spools.page(query(&call, 0, None), 7).await.unwrap_err().code, ErrorCode::NotFound);
}

#[tokio::test]
async fn one_that_could_not_be_written_gives_its_room_back() {
    let (directory, spools, call) = spools();
    let mut spool = spools.create(&call, 7, 8).await.unwrap();
    spool.write_through(b"half").await.unwrap();
    assert_eq!(spools.used(7), OVERHEAD + 4);
    spools.remove(&call).await;
    assert_eq!((fs::read_dir(directory.path()).unwrap().count(), spools.used(7)), (0, 0));
    // Removing a spool that does not exist is not an error.
    spools.remove(&call).await;
    drop(spool);
    let error = spools.page(query(&call, 0, None), 7).await.unwrap_err();
    assert_eq!((error.code, spools.used(7)), (ErrorCode::NotFound, 0));
}

#[tokio::test]
async fn a_flood_makes_room_while_it_lasts() {
    let (directory, spools, call) = spools();
    for (name, age) in [("old", 200), ("young", 100)] {
        let file = fs::File::create(directory.path().join(name)).unwrap();
        file.set_len(MAX_TOTAL / 2 - OVERHEAD).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        fs::write(directory.path().join(format!("{name}.meta")), r#"{"uid":7,"total":1}"#).unwrap();
    }
    drop(spools.create(&call, 7, 1).await.unwrap_err());
    spools.allow(ByteQuota { bytes: MAX_TOTAL * 2, past: OverQuotaAction::Refused });
    drop(spools.create(&call, 7, 1).await.unwrap());
    assert!(!directory.path().join("old").exists());
    assert!(!directory.path().join("old.meta").exists());
    assert!(directory.path().join("young").exists());
    assert!(directory.path().join(call.as_str()).exists());
}

#[tokio::test]
async fn where_nobody_is_to_be_asked_a_users_oldest_go() {
    let (directory, spools, call) = spools();
    let bytes = 2 * OVERHEAD + 100;
    spools.allow(ByteQuota { bytes, past: OverQuotaAction::OldestGo });
    let mut spool = spools.create(&call, 7, 80).await.unwrap();
    spool.write(&[1; 80]).await.unwrap();
    spool.finish(80).await.unwrap();
    spools.check(7, 1000).await.unwrap();
    let next: CallId = uuid::Uuid::now_v7().to_string().parse().unwrap();
    let mut spool = spools.create(&next, 7, 80).await.unwrap();
    spool.write(&[1; 80]).await.unwrap();
    spool.finish(80).await.unwrap();
    assert!(!directory.path().join(call.as_str()).exists());
    assert_eq!(spools.page(query(&next, 0, None), 7).await.unwrap().spooled, 80);
    assert_eq!(spools.used(7), OVERHEAD + 80);
}
