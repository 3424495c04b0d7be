//! Tests of writing: completely or not at all, and which attributes of the old file are kept.

use crate::tools::testing::{Broker, Ends, content, failed, writing, written};
use palisade_plan::{
    Path,
    cell::{CHUNK, FileError, FileErrorKind, FileReply, FileRequest},
    change::WriteMode,
};
use rustix::{
    fs::{CWD, Mode},
    io::Errno,
};
use std::{
    fs,
    io::Write,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use WriteMode::{Append, Create, Overwrite};

fn text(path: &Path) -> String {
    fs::read_to_string(path.as_path()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path.as_path()).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path.as_path(), fs::Permissions::from_mode(mode)).unwrap();
}

fn kind(error: &FileError) -> (FileErrorKind, i32) {
    (error.kind, error.errno)
}

#[test]
fn a_new_file_has_the_mode_that_any_program_would_give_it() {
    let broker = Broker::new();
    let control = broker.path("control");
    fs::write(control.as_path(), "").unwrap();
    for (name, how) in [("a", Overwrite), ("b", Append), ("c", Create)] {
        let path = broker.path(name);
        let reply = broker.write(&path, how, b"new");
        assert_eq!(written(reply), (3, true));
        assert_eq!((text(&path), mode(&path)), ("new".into(), mode(&control)));
    }
    assert_eq!(broker.names(), ["a", "b", "c", "control"]);
}

#[test]
fn a_file_is_replaced_and_keeps_its_mode_without_the_special_bits() {
    let broker = Broker::new();
    let path = broker.path("file");
    for (before, after) in [(0o600, 0o600), (0o755, 0o755), (0o6755, 0o755), (0o1666, 0o666)] {
        fs::write(path.as_path(), "something longer").unwrap();
        chmod(&path, before);
        let reply = broker.write(&path, Overwrite, b"short");
        assert_eq!(written(reply), (5, false));
        assert_eq!((text(&path), mode(&path)), ("short".into(), after));
    }
    assert_eq!(written(broker.write(&path, Overwrite, b"")), (0, false));
    assert_eq!(text(&path), "");
    assert_eq!(broker.names(), ["file"]);
}

#[test]
fn append_adds_to_the_end() {
    let broker = Broker::new();
    let path = broker.path("file");
    let old = vec![b'o'; 3 * CHUNK + 5];
    fs::write(path.as_path(), &old).unwrap();
    chmod(&path, 0o640);
    let reply = broker.write(&path, Append, b"new");
    assert_eq!(written(reply), (old.len() as u64 + 3, false));
    assert!(fs::read(path.as_path()).unwrap() == [&old[..], b"new"].concat());
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn append_to_what_changed_meanwhile_writes_nothing() {
    let broker = Broker::new();
    let path = broker.path("file");
    fs::write(path.as_path(), "old").unwrap();
    broker.send(&writing(&path, Append, 1 << 30));
    // More than the socket holds, so the copy is made before the rest is sent.
    for _piece in 0..4 {
        broker.send(&content(&[b'x'; CHUNK], false));
    }
    fs::OpenOptions::new().append(true).open(path.as_path()).unwrap().write_all(b"theirs").unwrap();
    let error = failed(broker.end(b"ours"));
    assert_eq!(kind(&error), (FileErrorKind::Conflict, Errno::STALE.raw_os_error()));
    assert_eq!(text(&path), "oldtheirs");
    assert_eq!(broker.names(), ["file"]);
}

#[test]
fn create_refuses_whatever_is_there() {
    let broker = Broker::new();
    fs::write(broker.path("file").as_path(), "old").unwrap();
    fs::create_dir(broker.path("dir").as_path()).unwrap();
    symlink("nowhere", broker.path("dangling").as_path()).unwrap();
    for name in ["file", "dir", "dangling"] {
        let error = failed(broker.write(&broker.path(name), Create, b"new"));
        assert_eq!(kind(&error), (FileErrorKind::AlreadyExists, Errno::EXIST.raw_os_error()));
    }
    assert_eq!(text(&broker.path("file")), "old");
    assert_eq!(broker.names(), ["dangling", "dir", "file"]);
}

#[test]
fn what_came_meanwhile_is_not_replaced() {
    let broker = Broker::new();
    let path = broker.path("file");
    for how in [Create, Overwrite, Append] {
        broker.send(&writing(&path, how, 100));
        broker.send(&content(b"ours", true));
        broker.prepared().unwrap();
        fs::write(path.as_path(), "theirs").unwrap();
        let error = failed(broker.ask(&FileRequest::Commit));
        assert_eq!(kind(&error), (FileErrorKind::Conflict, Errno::STALE.raw_os_error()));
        assert_eq!(text(&path), "theirs");
        assert_eq!(broker.names(), ["file"]);
        fs::remove_file(path.as_path()).unwrap();
    }
}

#[test]
fn directories_are_made_and_are_a_new_directory_s() {
    let broker = Broker::new();
    fs::create_dir(broker.path("control").as_path()).unwrap();
    let path = broker.path("a/b//c/file");
    let reply = broker.write(&path, Create, b"deep");
    assert_eq!(written(reply), (4, true));
    assert_eq!(text(&path), "deep");
    assert_eq!(mode(&broker.path("a/b/c")), mode(&broker.path("control")));
}

#[test]
fn directories_are_not_made_from_a_path_that_goes_back() {
    let broker = Broker::new();
    let error = failed(broker.write(&broker.path("a/../b/file"), Create, b""));
    assert_eq!(kind(&error), (FileErrorKind::NotFound, Errno::NOENT.raw_os_error()));
    assert_eq!(broker.names(), Vec::<String>::new());
}

#[test]
fn an_abandoned_or_failed_write_leaves_everything_as_it_was() {
    let broker = Broker::new();
    let file = broker.path("file");
    fs::write(file.as_path(), "old").unwrap();
    for name in ["file", "new", "a/b/c/new"] {
        for how in [Overwrite, Append] {
            let path = broker.path(name);
            broker.send(&writing(&path, how, 10));
            broker.send(&content(b"half", false));
            assert_eq!(broker.ask(&FileRequest::Abandon), FileReply::Abandoned);
            broker.send(&writing(&path, how, 10));
            broker.send(&content(b"half", false));
            let error = failed(broker.end(b"the other half"));
            assert_eq!(kind(&error), (FileErrorKind::TooLarge, 0));
            assert_eq!(broker.names(), ["file"]);
            assert_eq!(text(&file), "old");
        }
    }
}

#[test]
fn nothing_is_seen_of_a_change_before_it_is_done() {
    let broker = Broker::new();
    let path = broker.path("a/b/new");
    broker.send(&writing(&path, Create, 10));
    broker.send(&content(b"new", true));
    broker.prepared().unwrap();
    assert_eq!(broker.names(), Vec::<String>::new());
    fs::create_dir(broker.path("a").as_path()).unwrap();
    let error = failed(broker.ask(&FileRequest::Commit));
    assert_eq!(kind(&error), (FileErrorKind::Conflict, Errno::STALE.raw_os_error()));
    assert_eq!(fs::read_dir(broker.path("a").as_path()).unwrap().count(), 0);
    broker.send(&writing(&path, Create, 10));
    assert_eq!(written(broker.end(b"new")), (3, true));
}

#[test]
fn the_limit_is_on_the_whole_file() {
    let broker = Broker::new();
    let path = broker.path("file");
    fs::write(path.as_path(), "12345").unwrap();
    let write = |most, how, data: &[u8]| {
        broker.send(&writing(&path, how, most));
        broker.end(data)
    };
    assert_eq!(failed(write(7, Append, b"678")).kind, FileErrorKind::TooLarge);
    let error = failed(write(4, Append, b""));
    assert_eq!(kind(&error), (FileErrorKind::TooLarge, 0));
    assert!(error.message.contains("would have 5 bytes or more, and at most 4"), "{error:?}");
    assert_eq!(text(&path), "12345");
    assert_eq!(written(write(8, Append, b"678")), (8, false));
    assert_eq!(written(write(0, Overwrite, b"")), (0, false));
}

#[test]
fn what_is_not_a_regular_file_is_refused_by_its_kind() {
    let broker = Broker::new();
    let fifo = broker.path("fifo");
    rustix::fs::mkfifoat(CWD, fifo.as_path(), Mode::from_raw_mode(0o600)).unwrap();
    let socket = broker.path("socket");
    let _listener = UnixListener::bind(socket.as_path()).unwrap();
    let dir = broker.path("dir");
    fs::create_dir(dir.as_path()).unwrap();
    symlink("fifo", broker.path("link").as_path()).unwrap();
    symlink("dir/.", broker.path("dot").as_path()).unwrap();
    let cases = [
        (fifo, "a FIFO"),
        (broker.path("link"), "a FIFO"),
        (Path::from("/dev/null"), "a character device"),
        (dir, "a directory"),
        (broker.path("dot"), "a directory"),
        (socket, "a socket"),
    ];
    for how in [Overwrite, Append] {
        for (path, name) in &cases {
            let error = failed(broker.write(path, how, b"x"));
            assert_eq!(kind(&error), (FileErrorKind::NotRegular, 0));
            assert!(error.message.contains(&format!(" is {name}")), "{}", error.message);
        }
    }
    for name in ["dir/", "dir/.", "dir/.."] {
        let error = failed(broker.write(&broker.path(name), Overwrite, b"x"));
        assert_eq!(kind(&error), (FileErrorKind::Invalid, 0));
    }
    assert_eq!(broker.names(), ["dir", "dot", "fifo", "link", "socket"]);
}

#[test]
fn a_link_stays_a_link_and_its_target_is_written() {
    let broker = Broker::new();
    fs::create_dir_all(broker.path("real/deep").as_path()).unwrap();
    let target = broker.path("real/deep/file");
    fs::write(target.as_path(), "old").unwrap();
    chmod(&target, 0o604);
    symlink("real/deep", broker.path("dir").as_path()).unwrap();
    symlink("dir/file", broker.path("relative").as_path()).unwrap();
    symlink(target.as_path(), broker.path("absolute").as_path()).unwrap();
    symlink("relative", broker.path("second").as_path()).unwrap();
    for name in ["dir/file", "relative", "absolute", "second"] {
        let reply = broker.write(&broker.path(name), Overwrite, name.as_bytes());
        assert_eq!(written(reply), (name.len() as u64, false));
        assert_eq!((text(&target), mode(&target)), (name.into(), 0o604));
        let inode = fs::metadata(target.as_path()).unwrap().ino();
        let reply = broker.write(&broker.path(name), Append, b"+");
        assert_eq!(written(reply), (name.len() as u64 + 1, false));
        assert_ne!(fs::metadata(target.as_path()).unwrap().ino(), inode);
    }
    for name in ["dir", "relative", "absolute", "second"] {
        assert!(broker.path(name).as_path().is_symlink(), "{name}");
    }
    let names: Vec<_> = fs::read_dir(broker.path("real/deep").as_path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["file"]);
}

#[test]
fn a_link_to_nothing_gets_its_target() {
    let broker = Broker::new();
    symlink("target", broker.path("link").as_path()).unwrap();
    let reply = broker.write(&broker.path("link"), Overwrite, b"new");
    assert_eq!(written(reply), (3, true));
    assert_eq!(text(&broker.path("target")), "new");
    assert!(broker.path("link").as_path().is_symlink());
    symlink("no/where", broker.path("far").as_path()).unwrap();
    let error = failed(broker.write(&broker.path("far"), Overwrite, b"new"));
    assert_eq!(kind(&error), (FileErrorKind::NotFound, Errno::NOENT.raw_os_error()));
}

#[test]
fn links_in_a_circle_or_too_many_are_refused() {
    let broker = Broker::new();
    symlink("b", broker.path("a").as_path()).unwrap();
    symlink("a", broker.path("b").as_path()).unwrap();
    fs::write(broker.path("link0").as_path(), "end").unwrap();
    for n in 1..=9 {
        let name = format!("link{n}");
        symlink(format!("link{}", n - 1), broker.path(name).as_path()).unwrap();
    }
    for name in ["a", "link9"] {
        let error = failed(broker.write(&broker.path(name), Overwrite, b"x"));
        assert_eq!(kind(&error), (FileErrorKind::OutsidePolicy, Errno::LOOP.raw_os_error()));
    }
    assert_eq!(text(&broker.path("link0")), "end");
    let reply = broker.write(&broker.path("link8"), Overwrite, b"x");
    assert_eq!(written(reply), (1, false));
}

#[test]
fn no_magic_link_is_written_through() {
    let broker = Broker::new();
    let file = broker.path("file");
    fs::write(file.as_path(), "old").unwrap();
    let open = fs::OpenOptions::new().write(true).open(file.as_path()).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
    symlink(format!("/proc/self/fd/{fd}"), broker.path("link").as_path()).unwrap();
    // A directory of /proc that is about a process is refused before anything in it.
    let magic = [
        (Path::from(format!("/proc/self/fd/{fd}")), Errno::SRCH),
        (Path::from(format!("/dev/fd/{fd}")), Errno::SRCH),
        (Path([b"/proc/self/root".as_slice(), &file.0].concat()), Errno::LOOP),
        (broker.path("link"), Errno::LOOP),
    ];
    for (path, errno) in magic {
        assert!(fs::OpenOptions::new().write(true).open(path.as_path()).is_ok(), "{path:?}");
        let error = failed(broker.write(&path, Overwrite, b"new"));
        let expected = (FileErrorKind::OutsidePolicy, errno.raw_os_error());
        assert_eq!(kind(&error), expected, "{path:?}");
    }
    assert_eq!(text(&file), "old");
}

#[test]
fn another_name_of_the_file_keeps_the_old_content() {
    let broker = Broker::new();
    let (path, other) = (broker.path("name"), broker.path("other"));
    for how in [Overwrite, Append] {
        fs::write(path.as_path(), "old").unwrap();
        fs::hard_link(path.as_path(), other.as_path()).unwrap();
        assert!(matches!(broker.write(&path, how, b"new"), FileReply::Changed(_)));
        assert_eq!(text(&other), "old");
        assert_eq!(fs::metadata(other.as_path()).unwrap().nlink(), 1);
        assert!(text(&path).ends_with("new"));
        fs::remove_file(other.as_path()).unwrap();
    }
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    let broker = Broker::new();
    let path = broker.path("file");
    fs::write(path.as_path(), "old").unwrap();
    chmod(&path, 0o444);
    let denied = (FileErrorKind::Unreadable, Errno::ACCESS.raw_os_error());
    for how in [Overwrite, Append] {
        assert_eq!(kind(&failed(broker.write(&path, how, b"new"))), denied);
    }
    let outside = (FileErrorKind::OutsidePolicy, Errno::ACCESS.raw_os_error());
    let dir = broker.path("dir");
    fs::create_dir(dir.as_path()).unwrap();
    chmod(&dir, 0o555);
    assert_eq!(kind(&failed(broker.write(&broker.path("dir/new"), Create, b"new"))), outside);
    assert_eq!(kind(&failed(broker.write(&broker.path("dir/a/b"), Create, b"new"))), outside);
    assert_eq!(text(&path), "old");
    assert_eq!(fs::read_dir(dir.as_path()).unwrap().count(), 0);
    chmod(&dir, 0o755);
    chmod(&path, 0o644);
    assert!(matches!(broker.write(&path, Append, b"new"), FileReply::Changed(_)));
}

#[test]
fn a_program_that_runs_is_replaced() {
    let broker = Broker::new();
    let path = broker.path("sleep");
    fs::copy("/bin/sleep", path.as_path()).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a program must run for this")]
    let mut child = std::process::Command::new(path.as_path()).arg("60").spawn().unwrap();
    assert_eq!(
        fs::OpenOptions::new().write(true).open(path.as_path()).unwrap_err().raw_os_error(),
        Some(Errno::TXTBSY.raw_os_error())
    );
    let reply = broker.write(&path, Overwrite, b"new");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(written(reply), (3, false));
    assert_eq!(text(&path), "new");
}

#[test]
fn a_file_of_any_name_is_written() {
    let broker = Broker::new();
    for name in [&b"new\nline"[..], b"\xff\xfe", b"\x1b[31m", b" ", &[b'n'; 255]] {
        let path = broker.path(std::ffi::OsStr::from_bytes(name));
        assert!(matches!(broker.write(&path, Create, name), FileReply::Changed(_)));
        assert_eq!(fs::read(path.as_path()).unwrap(), name);
    }
}

#[test]
fn readers_see_the_old_or_the_new_and_nothing_else_while_names_are_swapped() {
    let broker = Broker::new();
    let old = vec![b'o'; 10_000];
    for dir in ["one", "two"] {
        fs::create_dir(broker.path(dir).as_path()).unwrap();
        fs::write(broker.path(format!("{dir}/file")).as_path(), &old).unwrap();
    }
    symlink("one", broker.path("way").as_path()).unwrap();
    let new = vec![b'n'; 20_000];
    let stop = AtomicBool::new(false);
    let swap = || {
        let (way, spare) = (broker.path("way"), broker.path("spare"));
        let mut targets = ["two", "one"].iter().cycle();
        while !stop.load(Ordering::Relaxed) {
            symlink(targets.next().unwrap(), spare.as_path()).unwrap();
            fs::rename(spare.as_path(), way.as_path()).unwrap();
            fs::rename(broker.path("two").as_path(), broker.path("moved").as_path()).unwrap();
            fs::rename(broker.path("moved").as_path(), broker.path("two").as_path()).unwrap();
        }
    };
    thread::scope(|scope| {
        scope.spawn(swap);
        // Also stops the other thread when an assertion fails; otherwise the test would wait
        // forever.
        let _ends = Ends(&stop);
        let mut written = 0;
        for round in 0..3000 {
            let data = if round % 2 == 0 { &new } else { &old };
            let reply = broker.write(&broker.path("way/file"), Overwrite, data);
            if matches!(reply, FileReply::Changed(_)) {
                assert_eq!(self::written(reply).0, data.len() as u64);
                written += 1;
            } else {
                let error = failed(reply);
                let allowed = [FileErrorKind::NotFound, FileErrorKind::Conflict];
                assert!(allowed.contains(&error.kind), "{error:?}");
            }
            if let Ok(seen) = fs::read(broker.path("one/file").as_path()) {
                assert!(seen == old || seen == new, "{}", seen.len());
            }
        }
        assert!(written > 0);
    });
    assert_eq!(broker.names(), ["one", "two", "way"]);
    for dir in ["one", "two"] {
        let entries = fs::read_dir(broker.path(dir).as_path()).unwrap();
        let names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["file"]);
        let seen = fs::read(broker.path(format!("{dir}/file")).as_path()).unwrap();
        assert!(seen == old || seen == new);
    }
}
