//! Tests of listing: every entry once, in one order, in pages, without following links.

use crate::tools::testing::{Broker, deleted, failed};
use palisade_plan::{
    Path,
    cell::{Entry, EntryKind, FileErrorKind, FileReply},
};
use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
};

use EntryKind::{Directory, File, Other, Symlink};

const ALL: u64 = u64::MAX;

fn entry(path: impl AsRef<OsStr>, kind: EntryKind, size: u64) -> Entry {
    Entry { path: Path(path.as_ref().as_bytes().to_vec()), kind, size, target: None }
}

fn link(path: &str, target: &str) -> Entry {
    Entry { target: Some(Path(target.into())), ..entry(path, Symlink, 0) }
}

fn listed(reply: FileReply) -> (Vec<Entry>, u64, bool) {
    let FileReply::Listed { entries, total, more, .. } = reply else { panic!("{reply:?}") };
    (entries, total, more)
}

#[test]
fn a_directory_is_listed_with_kinds_and_sizes() {
    let broker = Broker::new();
    fs::write(broker.path("file").as_path(), "12345").unwrap();
    fs::create_dir_all(broker.path("dir/below").as_path()).unwrap();
    symlink("file", broker.path("link").as_path()).unwrap();
    symlink("nowhere", broker.path(".dangling").as_path()).unwrap();
    rustix::fs::mkfifoat(CWD, broker.path("fifo").as_path(), Mode::from_raw_mode(0o600)).unwrap();
    let expected = vec![
        link(".dangling", "nowhere"),
        entry("dir", Directory, 0),
        entry("fifo", Other, 0),
        entry("file", File, 5),
        link("link", "file"),
    ];
    for path in [broker.path(""), broker.path("dir/..")] {
        assert_eq!(listed(broker.list(&path, false, 0, ALL)), (expected.clone(), 5, false));
    }
    assert_eq!(listed(broker.list(&broker.path(""), false, 0, 0)), (vec![], 5, false));
    assert_eq!(listed(broker.list(&broker.path("dir/below"), true, 0, ALL)), (vec![], 0, false));
}

#[test]
fn a_tree_is_listed_in_the_order_of_whole_paths() {
    let broker = Broker::new();
    for name in ["a/x/deep", "a-b", "a.d/y", "b"] {
        fs::create_dir_all(broker.path(name).as_path()).unwrap();
    }
    for name in ["a/file", "a-b/file", "a0", "a/x/deep/er", "a.d/y/z"] {
        fs::write(broker.path(name).as_path(), name).unwrap();
    }
    symlink("..", broker.path("a/x/up").as_path()).unwrap();
    symlink("a", broker.path("c").as_path()).unwrap();
    let expected = vec![
        entry("a", Directory, 0),
        entry("a-b", Directory, 0),
        entry("a-b/file", File, 8),
        entry("a.d", Directory, 0),
        entry("a.d/y", Directory, 0),
        entry("a.d/y/z", File, 7),
        entry("a/file", File, 6),
        entry("a/x", Directory, 0),
        entry("a/x/deep", Directory, 0),
        entry("a/x/deep/er", File, 11),
        link("a/x/up", ".."),
        entry("a0", File, 2),
        entry("b", Directory, 0),
        link("c", "a"),
    ];
    let mut sorted = expected.clone();
    sorted.sort_by(|one, other| one.path.0.cmp(&other.path.0));
    assert_eq!(expected, sorted);
    let (entries, total, more) = listed(broker.list(&broker.path(""), true, 0, ALL));
    assert_eq!((entries, total, more), (expected.clone(), 14, false));
    for skip in 0..15 {
        for limit in [1, 3, 14] {
            let (entries, total, more) = listed(broker.list(&broker.path(""), true, skip, limit));
            let from = expected.iter().skip(skip as usize).take(limit as usize).cloned();
            assert_eq!((entries, total, more), (from.collect(), 14, false));
        }
    }
}

#[test]
fn names_of_any_bytes_are_listed_as_they_are() {
    let broker = Broker::new();
    let mut names = [&b"new\nline"[..], b"\xff\xfe", b"\x1b[31m", b" ", b"\xc3\xa9", &[b'n'; 255]];
    for name in names {
        fs::write(broker.path(OsStr::from_bytes(name)).as_path(), "").unwrap();
    }
    names.sort_unstable();
    let expected: Vec<Entry> =
        names.iter().map(|name| entry(OsStr::from_bytes(name), File, 0)).collect();
    for recursive in [false, true] {
        let (entries, total, more) = listed(broker.list(&broker.path(""), recursive, 0, ALL));
        assert_eq!((entries, total, more), (expected.clone(), 6, false));
    }
}

#[test]
fn what_is_no_directory_is_refused() {
    let broker = Broker::new();
    fs::write(broker.path("file").as_path(), "").unwrap();
    rustix::fs::mkfifoat(CWD, broker.path("fifo").as_path(), Mode::from_raw_mode(0o600)).unwrap();
    for path in [broker.path("file"), broker.path("fifo"), Path::from("/dev/zero")] {
        let error = failed(broker.list(&path, false, 0, 1));
        let expected = (FileErrorKind::Invalid, Errno::NOTDIR.raw_os_error());
        assert_eq!((error.kind, error.errno), expected);
    }
    let error = failed(broker.list(&broker.path("none"), true, 0, 1));
    let expected = (FileErrorKind::NotFound, Errno::NOENT.raw_os_error());
    assert_eq!((error.kind, error.errno), expected);
    for path in ["/proc/self/root", "/proc/self/cwd"] {
        assert!(fs::read_dir(path).is_ok());
        let error = failed(broker.list(&Path::from(path), false, 0, 1));
        let expected = (FileErrorKind::OutsidePolicy, Errno::LOOP.raw_os_error());
        assert_eq!((error.kind, error.errno), expected);
    }
}

#[test]
fn a_directory_that_is_closed_is_listed_and_not_entered() {
    let broker = Broker::new();
    fs::create_dir_all(broker.path("closed/below").as_path()).unwrap();
    fs::write(broker.path("open").as_path(), "1").unwrap();
    let closed = broker.path("closed");
    fs::set_permissions(closed.as_path(), fs::Permissions::from_mode(0o000)).unwrap();
    let expected = vec![entry("closed", Directory, 0), entry("open", File, 1)];
    let (entries, total, more) = listed(broker.list(&broker.path(""), true, 0, ALL));
    assert_eq!((entries, total, more), (expected, 2, false));
    let error = failed(broker.list(&closed, false, 0, 1));
    let expected = (FileErrorKind::Unreadable, Errno::ACCESS.raw_os_error());
    assert_eq!((error.kind, error.errno), expected);
    fs::set_permissions(closed.as_path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_tree_ten_thousand_deep_is_listed_as_far_as_paths_reach() {
    let broker = Broker::new();
    fs::create_dir(broker.path("deep").as_path()).unwrap();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir =
        rustix::fs::openat(CWD, broker.path("deep").as_path(), flags, Mode::empty()).unwrap();
    for _level in 0..10_000 {
        rustix::fs::mkdirat(&dir, "d", Mode::from_raw_mode(0o700)).unwrap();
        dir = rustix::fs::openat(&dir, "d", flags, Mode::empty()).unwrap();
    }
    fs::write(broker.path("deep/e").as_path(), "").unwrap();
    let path = broker.path("deep");
    let levels = (4095 - path.0.len()) as u64 / 2;
    let (entries, total, more) = listed(broker.list(&path, true, 0, 3));
    let expected =
        vec![entry("d", Directory, 0), entry("d/d", Directory, 0), entry("d/d/d", Directory, 0)];
    assert_eq!((entries, total, more), (expected, levels + 1, true));
    let (entries, _, _) = listed(broker.list(&path, true, levels - 1, ALL));
    let longest = entry("d/".repeat(levels as usize).trim_end_matches('/'), Directory, 0);
    assert_eq!(entries, [longest, entry("e", File, 0)]);
    // The harness could not delete a tree this deep.
    assert_eq!(deleted(broker.delete_for_good(&path)), 10_002);
}

#[test]
fn a_hundred_thousand_entries_come_in_pages() {
    let broker = Broker::new();
    let dir = broker.path("wide");
    fs::create_dir(dir.as_path()).unwrap();
    let name = |n: u64| format!("{n:06}-{}", "x".repeat(40));
    for n in 0..100_000 {
        let path = dir.as_path().join(name(n));
        rustix::fs::mknodat(
            CWD,
            path,
            rustix::fs::FileType::RegularFile,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
    }
    for recursive in [false, true] {
        for (skip, limit) in [(0, 3), (50_000, 1000), (99_999, 10), (100_000, 10)] {
            let (entries, total, more) = listed(broker.list(&dir, recursive, skip, limit));
            let last = (skip + limit).min(100_000);
            let expected: Vec<Entry> = (skip..last).map(|n| entry(name(n), File, 0)).collect();
            assert!(entries == expected, "{skip}");
            assert_eq!((total, more), (100_000, false));
        }
        // A reply that would be too large is shortened, and the next continues where it ended.
        let mut seen = 0;
        let mut answers = 0;
        while seen < 100_000 {
            let (entries, total, more) = listed(broker.list(&dir, recursive, seen, ALL));
            assert_eq!((total, more), (100_000, false));
            for entry in entries {
                assert_eq!(entry.path.0, name(seen).as_bytes());
                seen += 1;
            }
            answers += 1;
        }
        assert_eq!(answers, 3);
    }
}

#[test]
fn a_tree_over_the_limit_is_counted_to_it() {
    let broker = Broker::new();
    for dir in 0..3 {
        let dir = broker.path(format!("{dir}"));
        fs::create_dir(dir.as_path()).unwrap();
        for n in 0..80_000 {
            let path = dir.as_path().join(format!("{n:05}"));
            rustix::fs::mknodat(
                CWD,
                path,
                rustix::fs::FileType::RegularFile,
                Mode::from_raw_mode(0o600),
                0,
            )
            .unwrap();
        }
    }
    let (entries, total, more) = listed(broker.list(&broker.path(""), true, 199_999, 10));
    // Two directories with everything in them, the third, and the rest of its entries.
    let last = format!("2/{:05}", 200_000 - 2 * 80_001 - 2);
    assert_eq!((entries, total, more), (vec![entry(last, File, 0)], 200_000, true));
}
