//! Tests of reading: what is read, what never is, and what it costs.

use crate::tools::testing::Broker;
use palisade_plan::{
    Path,
    cell::{CHUNK, Conversion, FileErrorKind, FileReply, Part},
};
use rustix::{fs::Mode, io::Errno};
use std::{
    fs,
    io::Write,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt, fs::symlink, net::UnixListener},
    path::Path as StdPath,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

const MOST: u64 = 1 << 20;

fn lines(broker: &Broker, path: &Path, first: u64, count: u64, most: u64) -> (Vec<u8>, bool) {
    let (data, reply) = broker.read(path, Part::Lines { first, count }, most).unwrap();
    let FileReply::Read { bytes, complete, .. } = reply else { panic!("{reply:?}") };
    assert_eq!(bytes, data.len() as u64);
    (data, complete)
}

#[test]
fn a_file_is_read_whole_with_its_mode() {
    let broker = Broker::new();
    let path = broker.path("file");
    let sizes = [1, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK];
    for size in sizes {
        let data: Vec<u8> = (0..size).map(|n| n.to_le_bytes()[n % 3]).collect();
        fs::write(path.as_path(), &data).unwrap();
        fs::set_permissions(path.as_path(), fs::Permissions::from_mode(0o640)).unwrap();
        let (read, reply) = broker.read(&path, Part::All, size as u64).unwrap();
        assert!(read == data, "{size}");
        let size = size as u64;
        assert_eq!(
            reply,
            FileReply::Read {
                bytes: size,
                size,
                complete: true,
                mode: 0o640,
                made: Conversion::AsIs
            }
        );
    }
}

#[test]
fn an_empty_file_is_empty() {
    let broker = Broker::new();
    let path = broker.path("empty");
    fs::write(path.as_path(), "").unwrap();
    fs::set_permissions(path.as_path(), fs::Permissions::from_mode(0o600)).unwrap();
    let (data, reply) = broker.read(&path, Part::All, MOST).unwrap();
    assert_eq!(data, b"");
    assert_eq!(
        reply,
        FileReply::Read { bytes: 0, size: 0, complete: true, mode: 0o600, made: Conversion::AsIs }
    );
}

#[test]
fn a_file_of_proc_says_no_size_and_is_read() {
    let broker = Broker::new();
    let path = Path::from("/proc/cpuinfo");
    let (data, reply) = broker.read(&path, Part::All, MOST).unwrap();
    assert!(data.ends_with(b"\n"));
    let FileReply::Read { size, complete, .. } = reply else { panic!("{reply:?}") };
    assert_eq!((size, complete), (0, true));
    let (data, reply) = broker.read(&path, Part::All, 10).unwrap();
    assert_eq!(data.len(), 10);
    let FileReply::Read { complete, .. } = reply else { panic!("{reply:?}") };
    assert!(!complete);
}

#[test]
fn what_proc_says_about_the_tools_own_process_is_refused() {
    let broker = Broker::new();
    let own = format!("/proc/{}/maps", std::process::id());
    for path in ["/proc/self/maps", "/proc/thread-self/status", "/proc/mounts", own.as_str()] {
        let error = broker.read(&Path::from(path), Part::All, MOST).unwrap_err();
        let told = (error.kind, error.errno);
        let expected = (FileErrorKind::OutsidePolicy, Errno::SRCH.raw_os_error());
        assert_eq!(told, expected, "{path}: {}", error.message);
    }
}

#[test]
fn a_file_of_any_name_is_read() {
    let broker = Broker::new();
    for name in [&b"new\nline"[..], b"\xff\xfe", b"\x1b[31m", b" ", b"-rf"] {
        let path = broker.path(std::ffi::OsStr::from_bytes(name));
        fs::write(path.as_path(), name).unwrap();
        assert_eq!(broker.read(&path, Part::All, MOST).unwrap().0, name);
    }
}

#[test]
fn what_is_not_a_regular_file_is_refused_by_its_kind() {
    let broker = Broker::new();
    let fifo = broker.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, fifo.as_path(), Mode::from_raw_mode(0o600)).unwrap();
    let socket = broker.path("socket");
    let _listener = UnixListener::bind(socket.as_path()).unwrap();
    let link = broker.path("link");
    symlink(fifo.as_path(), link.as_path()).unwrap();
    let cases = [
        (fifo, 0, "a FIFO"),
        (link, 0, "a FIFO"),
        (Path::from("/dev/zero"), 0, "a character device"),
        (broker.path(""), 0, "a directory"),
        (socket, Errno::NXIO.raw_os_error(), "a socket or a device"),
    ];
    for part in [Part::All, Part::Lines { first: 1, count: 1 }] {
        for (path, errno, kind) in &cases {
            let error = broker.read(path, part, MOST).unwrap_err();
            assert_eq!((error.kind, error.errno), (FileErrorKind::NotRegular, *errno));
            assert!(error.message.contains(&format!(" is {kind}")), "{}", error.message);
        }
    }
}

#[test]
fn what_is_missing_is_not_found() {
    let broker = Broker::new();
    fs::write(broker.path("file").as_path(), "").unwrap();
    symlink("nowhere", broker.path("dangling").as_path()).unwrap();
    let cases = [("none", Errno::NOENT), ("dangling", Errno::NOENT), ("file/x", Errno::NOTDIR)];
    for (name, errno) in cases {
        let error = broker.read(&broker.path(name), Part::All, MOST).unwrap_err();
        assert_eq!((error.kind, error.errno), (FileErrorKind::NotFound, errno.raw_os_error()));
    }
}

#[test]
fn what_the_mode_forbids_is_told_from_what_is_outside() {
    let broker = Broker::new();
    let path = broker.path("secret");
    fs::write(path.as_path(), "secret").unwrap();
    fs::set_permissions(path.as_path(), fs::Permissions::from_mode(0o000)).unwrap();
    let error = broker.read(&path, Part::All, MOST).unwrap_err();
    let expected = (FileErrorKind::Unreadable, Errno::ACCESS.raw_os_error());
    assert_eq!((error.kind, error.errno), expected);
    fs::set_permissions(path.as_path(), fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(broker.read(&path, Part::All, MOST).unwrap().0, b"secret");
}

#[test]
fn no_magic_link_is_followed() {
    let broker = Broker::new();
    let file = broker.path("file");
    fs::write(file.as_path(), "plain").unwrap();
    let open = fs::File::open(file.as_path()).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
    let cwd = std::env::current_dir().unwrap();
    assert!(cwd.join("Cargo.toml").exists());
    let through_root = [b"/proc/self/root".as_slice(), &file.0].concat();
    let to_root = broker.path("to-root");
    symlink("/proc/self/root", to_root.as_path()).unwrap();
    let magic = [
        Path::from(format!("/proc/self/fd/{fd}")),
        Path::from(format!("/proc/thread-self/fd/{fd}")),
        Path::from(format!("/dev/fd/{fd}")),
        Path::from("/proc/self/cwd/Cargo.toml"),
        Path::from("/proc/self/exe"),
        Path([&to_root.0, file.0.as_slice()].concat()),
        Path(through_root),
    ];
    for path in magic {
        // The positive control: the path leads to a file.
        assert!(fs::read(path.as_path()).is_ok(), "{path:?}");
        let error = broker.read(&path, Part::All, u64::MAX).unwrap_err();
        let expected = (FileErrorKind::OutsidePolicy, Errno::LOOP.raw_os_error());
        assert_eq!((error.kind, error.errno), expected, "{path:?}");
    }
    let plain = broker.path("plain");
    symlink("file", plain.as_path()).unwrap();
    assert_eq!(broker.read(&plain, Part::All, MOST).unwrap().0, b"plain");
}

#[test]
fn a_file_over_the_limit_is_refused_and_both_sizes_said() {
    let broker = Broker::new();
    let path = broker.path("sparse");
    fs::File::create(path.as_path()).unwrap().set_len(1 << 40).unwrap();
    let error = broker.read(&path, Part::All, MOST).unwrap_err();
    assert_eq!((error.kind, error.errno), (FileErrorKind::TooLarge, 0));
    assert!(
        error.message.contains("has 1099511627776 bytes, and at most 1048576 can be read"),
        "{error:?}"
    );
}

#[test]
fn lines_of_a_sparse_file_are_not_searched_for_ever() {
    let broker = Broker::new();
    let path = broker.path("sparse");
    let mut file = fs::File::create(path.as_path()).unwrap();
    file.write_all(b"first\nsecond\n").unwrap();
    file.set_len(1 << 40).unwrap();
    assert_eq!(lines(&broker, &path, 2, 1, MOST), (b"second\n".to_vec(), true));
    let (data, complete) = lines(&broker, &path, 3, 1, 1000);
    assert_eq!((data, complete), (vec![0; 1000], false));
    let error = broker.read(&path, Part::Lines { first: 4, count: 1 }, MOST).unwrap_err();
    assert_eq!((error.kind, error.errno), (FileErrorKind::TooLarge, 0));
    assert!(error.message.contains("line 4 of "), "{}", error.message);
}

#[test]
fn lines_keep_their_ends() {
    let broker = Broker::new();
    let path = broker.path("lines");
    fs::write(path.as_path(), "one\r\ntwo\n\nfour").unwrap();
    let cases: [(u64, u64, &[u8]); 9] = [
        (1, 1, b"one\r\n"),
        (2, 1, b"two\n"),
        (3, 1, b"\n"),
        (4, 1, b"four"),
        (2, 2, b"two\n\n"),
        (1, u64::MAX, b"one\r\ntwo\n\nfour"),
        (4, u64::MAX, b"four"),
        (5, 1, b""),
        (1, 0, b""),
    ];
    for (first, count, expected) in cases {
        assert_eq!(lines(&broker, &path, first, count, MOST), (expected.to_vec(), true));
    }
    assert_eq!(lines(&broker, &path, 2, 2, 4), (b"two\n".to_vec(), false));
    assert_eq!(lines(&broker, &path, 2, 2, 5), (b"two\n\n".to_vec(), true));
    assert_eq!(lines(&broker, &path, 2, 2, 0), (b"".to_vec(), false));
    let error = broker.read(&path, Part::Lines { first: 0, count: 1 }, MOST).unwrap_err();
    assert_eq!((error.kind, error.errno), (FileErrorKind::Invalid, 0));
}

#[test]
fn lines_are_found_across_pieces() {
    let broker = Broker::new();
    let path = broker.path("many");
    let line = |n: usize| format!("{n:06}{}\n", "x".repeat(n % 97));
    let all: String = (1..=20_000).map(line).collect();
    assert!(all.len() > 4 * CHUNK);
    fs::write(path.as_path(), &all).unwrap();
    for (first, count) in [(1, 20_000), (9_999, 3), (20_000, 1), (5_000, 12_000)] {
        let expected: String = (first..first + count).map(line).collect();
        let (data, complete) = lines(&broker, &path, first as u64, count as u64, u64::MAX);
        assert!(data == expected.as_bytes() && complete, "{first} {count}");
    }
}

#[test]
fn a_file_that_grows_is_read_to_the_size_it_had() {
    let broker = Broker::new();
    let path = broker.path("log");
    fs::write(path.as_path(), "start").unwrap();
    let stop = AtomicBool::new(false);
    let grow = |path: &StdPath| {
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        let mut size = 5;
        while !stop.load(Ordering::Relaxed) && size < 8 << 20 {
            file.write_all(&[b'x'; 1000]).unwrap();
            size += 1000;
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| grow(path.as_path()));
        for _round in 0..100 {
            let (data, reply) = broker.read(&path, Part::All, 1 << 30).unwrap();
            let FileReply::Read { bytes, size, .. } = reply else { panic!("{reply:?}") };
            assert_eq!((data.len() as u64, bytes), (size, size));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn bytes_are_read_from_an_offset() {
    let broker = Broker::new();
    let path = broker.path("file");
    let data: Vec<u8> = (0..3 * CHUNK).map(|n| n.to_le_bytes()[n % 3]).collect();
    fs::write(path.as_path(), &data).unwrap();
    let bytes = |first: u64, count: u64, most: u64| {
        let (read, reply) = broker.read(&path, Part::Bytes { first, count }, most).unwrap();
        let FileReply::Read { complete, .. } = reply else { panic!("{reply:?}") };
        (read, complete)
    };
    let size = data.len() as u64;
    assert_eq!(bytes(7, 3, MOST), (data[7..10].to_vec(), true));
    assert_eq!(bytes(1, u64::MAX, MOST), (data[1..].to_vec(), true));
    assert_eq!(bytes(1, 100, 10), (data[1..11].to_vec(), false));
    assert_eq!(bytes(size - 1, 100, MOST), (data[data.len() - 1..].to_vec(), true));
    assert_eq!(bytes(size + 5, 100, MOST), (vec![], true));
    assert_eq!(bytes(0, 0, MOST), (vec![], true));
}
