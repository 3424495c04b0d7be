//! Tests of deletion: exactly what was named, never the target of a link or mount.

use crate::tools::testing::{Broker, Ends, deleted, failed};
use palisade_plan::{
    Path,
    cell::{FileErrorKind, FileReply},
};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags},
    io::Errno,
};
use std::{
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Makes nested directories, deeper than a path can name.
fn nest(broker: &Broker, name: &str, depth: usize) {
    fs::create_dir(broker.path(name).as_path()).unwrap();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = broker.path(name);
    let mut dir = rustix::fs::openat(CWD, top.as_path(), flags, Mode::empty()).unwrap();
    for _level in 0..depth {
        rustix::fs::mkdirat(&dir, "d", Mode::from_raw_mode(0o700)).unwrap();
        dir = rustix::fs::openat(&dir, "d", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn an_entry_of_any_kind_is_removed_and_nothing_else() {
    let broker = Broker::new();
    fs::write(broker.path("kept").as_path(), "kept").unwrap();
    fs::create_dir(broker.path("dir").as_path()).unwrap();
    fs::write(broker.path("dir/kept").as_path(), "kept").unwrap();
    fs::write(broker.path("file").as_path(), "").unwrap();
    symlink("kept", broker.path("link").as_path()).unwrap();
    symlink("dir", broker.path("to-dir").as_path()).unwrap();
    symlink("nowhere", broker.path("dangling").as_path()).unwrap();
    rustix::fs::mkfifoat(CWD, broker.path("fifo").as_path(), Mode::from_raw_mode(0o600)).unwrap();
    let _listener = UnixListener::bind(broker.path("socket").as_path()).unwrap();
    for name in ["file", "link", "to-dir", "dangling", "fifo", "socket"] {
        assert_eq!(deleted(broker.delete(&broker.path(name), name == "to-dir")), 1, "{name}");
    }
    assert_eq!(broker.names(), ["dir", "kept"]);
    assert_eq!(fs::read(broker.path("dir/kept").as_path()).unwrap(), b"kept");
}

#[test]
fn a_name_of_any_bytes_is_removed() {
    let broker = Broker::new();
    for name in [&b"new\nline"[..], b"\xff\xfe", b"\x1b[31m", b" ", b"*"] {
        let path = broker.path(std::ffi::OsStr::from_bytes(name));
        fs::write(path.as_path(), "").unwrap();
        assert_eq!(deleted(broker.delete(&path, false)), 1);
    }
    assert_eq!(broker.names(), Vec::<String>::new());
}

#[test]
fn a_directory_is_removed_only_when_asked_for() {
    let broker = Broker::new();
    fs::create_dir(broker.path("dir").as_path()).unwrap();
    let error = failed(broker.delete(&broker.path("dir"), false));
    assert_eq!((error.kind, error.errno), (FileErrorKind::NotRegular, Errno::ISDIR.raw_os_error()));
    assert!(error.message.contains("recursive"), "{}", error.message);
    assert_eq!(broker.names(), ["dir"]);
    assert_eq!(deleted(broker.delete(&broker.path("dir/"), true)), 1);
    assert_eq!(broker.names(), Vec::<String>::new());
}

#[test]
fn a_tree_goes_and_what_its_links_lead_to_stays() {
    let broker = Broker::new();
    fs::create_dir_all(broker.path("kept/deep").as_path()).unwrap();
    fs::write(broker.path("kept/deep/file").as_path(), "kept").unwrap();
    for name in ["tree/a/b/c", "tree/a/x", "tree/empty"] {
        fs::create_dir_all(broker.path(name).as_path()).unwrap();
    }
    for name in ["tree/1", "tree/a/2", "tree/a/b/3", "tree/a/b/c/4"] {
        fs::write(broker.path(name).as_path(), "").unwrap();
    }
    symlink("../kept", broker.path("tree/link").as_path()).unwrap();
    symlink(broker.path("kept").as_path(), broker.path("tree/a/b/absolute").as_path()).unwrap();
    symlink("/", broker.path("tree/a/root").as_path()).unwrap();
    fs::hard_link(broker.path("kept/deep/file").as_path(), broker.path("tree/hard").as_path())
        .unwrap();
    assert_eq!(deleted(broker.delete(&broker.path("tree"), true)), 6 + 4 + 3 + 1);
    assert_eq!(broker.names(), ["kept"]);
    assert_eq!(fs::read(broker.path("kept/deep/file").as_path()).unwrap(), b"kept");
}

#[test]
fn a_wide_tree_goes_and_is_counted() {
    let broker = Broker::new();
    for outer in 0..40 {
        for inner in 0..60 {
            let dir = broker.path(format!("tree/{outer}-{}/{inner}", "n".repeat(200)));
            fs::create_dir_all(dir.as_path()).unwrap();
        }
    }
    for file in 0..3000 {
        fs::write(broker.path(format!("tree/file{file}")).as_path(), "").unwrap();
    }
    assert_eq!(deleted(broker.delete(&broker.path("tree"), true)), 1 + 40 + 40 * 60 + 3000);
    assert_eq!(broker.names(), Vec::<String>::new());
}

#[test]
fn a_tree_ten_thousand_deep_goes() {
    let broker = Broker::new();
    nest(&broker, "deep", 10_000);
    // An undo record could not name where to put it back.
    let error = failed(broker.delete(&broker.path("deep"), true));
    assert_eq!((error.kind, error.errno), (FileErrorKind::TooLarge, Errno::TOOBIG.raw_os_error()));
    assert_eq!(deleted(broker.delete_for_good(&broker.path("deep"))), 10_001);
    assert_eq!(broker.names(), Vec::<String>::new());
}

#[test]
fn the_workspace_and_what_holds_it_stay() {
    let broker = Broker::new();
    fs::write(broker.path("kept").as_path(), "").unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(broker.dir.path().parent().unwrap(), outside.path().join("way")).unwrap();
    let name = broker.dir.path().file_name().unwrap();
    let workspace = broker.path("");
    let mut paths = vec![
        Path::from("/"),
        Path::from("//"),
        Path::from("/."),
        Path::from("/tmp/.."),
        broker.path("."),
        broker.path(".."),
        broker.path("kept/.."),
        workspace.clone(),
        Path([&workspace.0[..], b"/"].concat()),
        // The workspace through a link, and under another spelling.
        Path::from(outside.path().join("way").join(name)),
        Path([b"/.".as_slice(), &workspace.0].concat()),
    ];
    paths.extend(broker.dir.path().ancestors().map(Path::from));
    for path in paths {
        for recursive in [false, true] {
            let error = failed(broker.delete(&path, recursive));
            assert_eq!((error.kind, error.errno), (FileErrorKind::Invalid, 0), "{path:?}");
        }
    }
    assert_eq!(broker.names(), ["kept"]);
}

#[test]
fn a_slash_at_the_end_means_a_directory() {
    let broker = Broker::new();
    fs::write(broker.path("file").as_path(), "").unwrap();
    fs::create_dir(broker.path("dir").as_path()).unwrap();
    symlink("dir", broker.path("link").as_path()).unwrap();
    for name in ["file/", "link/"] {
        let error = failed(broker.delete(&broker.path(name), true));
        assert_eq!((error.kind, error.errno), (FileErrorKind::Invalid, 0));
    }
    assert_eq!(broker.names(), ["dir", "file", "link"]);
}

#[test]
fn what_is_missing_is_not_found() {
    let broker = Broker::new();
    fs::write(broker.path("file").as_path(), "").unwrap();
    for (name, errno) in
        [("none", Errno::NOENT), ("none/x", Errno::NOENT), ("file/x", Errno::NOTDIR)]
    {
        let error = failed(broker.delete(&broker.path(name), true));
        assert_eq!((error.kind, error.errno), (FileErrorKind::NotFound, errno.raw_os_error()));
    }
    assert_eq!(broker.names(), ["file"]);
}

#[test]
fn no_magic_link_is_gone_through() {
    let broker = Broker::new();
    let file = broker.path("file");
    fs::write(file.as_path(), "").unwrap();
    let path = Path([b"/proc/self/root".as_slice(), &file.0].concat());
    assert!(path.as_path().exists());
    let error = failed(broker.delete(&path, true));
    assert_eq!(
        (error.kind, error.errno),
        (FileErrorKind::OutsidePolicy, Errno::LOOP.raw_os_error())
    );
    assert_eq!(broker.names(), ["file"]);
}

#[test]
fn a_mount_is_not_removed_nor_entered() {
    let broker = Broker::new();
    let error = failed(broker.delete(&Path::from("/proc"), true));
    // A user without write permission on `/` is refused before it is read.
    let errno = if rustix::process::geteuid().is_root() { Errno::XDEV } else { Errno::ACCESS };
    let expected = (FileErrorKind::OutsidePolicy, errno.raw_os_error());
    assert_eq!((error.kind, error.errno), expected);
    if errno == Errno::XDEV {
        let told = "/proc contains a mount, which can not be deleted. Nothing was deleted";
        assert_eq!(error.message, told);
    }
    assert!(fs::exists("/proc/self").unwrap());
}

#[test]
fn a_tree_that_can_not_go_whole_stays_whole() {
    let broker = Broker::new();
    fs::create_dir_all(broker.path("tree/locked").as_path()).unwrap();
    fs::write(broker.path("tree/locked/file").as_path(), "").unwrap();
    fs::write(broker.path("tree/file").as_path(), "").unwrap();
    let locked = broker.path("tree/locked");
    fs::set_permissions(locked.as_path(), fs::Permissions::from_mode(0o555)).unwrap();
    let error = failed(broker.delete(&broker.path("tree"), true));
    let expected = (FileErrorKind::OutsidePolicy, Errno::ACCESS.raw_os_error());
    assert_eq!((error.kind, error.errno), expected);
    for name in ["tree/file", "tree/locked/file"] {
        assert!(broker.path(name).as_path().exists());
    }
    assert!(error.message.ends_with("Nothing was deleted"), "{}", error.message);
    fs::set_permissions(locked.as_path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(deleted(broker.delete(&broker.path("tree"), true)), 4);
}

#[test]
fn a_directory_swapped_for_a_link_is_not_followed() {
    let broker = Broker::new();
    let kept = broker.path("kept");
    fs::create_dir(kept.as_path()).unwrap();
    for file in 0..20 {
        fs::write(broker.path(format!("kept/{file}")).as_path(), "").unwrap();
    }
    let stop = AtomicBool::new(false);
    let swap = || {
        let (spot, aside) = (broker.path("tree/spot"), broker.path("aside"));
        while !stop.load(Ordering::Relaxed) {
            // Each of these may come too late or too early, which is the point.
            let made = fs::create_dir_all(spot.as_path()).is_ok()
                && fs::rename(spot.as_path(), aside.as_path()).is_ok();
            if made && symlink(kept.as_path(), spot.as_path()).is_ok() {
                fs::remove_file(spot.as_path()).ok();
            }
            rustix::fs::unlinkat(CWD, aside.as_path(), AtFlags::REMOVEDIR).ok();
        }
    };
    thread::scope(|scope| {
        scope.spawn(swap);
        // Also stops the other thread when an assertion fails; otherwise the test would wait
        // forever.
        let _ends = Ends(&stop);
        let mut gone = 0;
        for _round in 0..2000 {
            let reply = broker.delete(&broker.path("tree"), true);
            if matches!(reply, FileReply::Changed(_)) {
                gone += deleted(reply);
                continue;
            }
            let error = failed(reply);
            let allowed = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::STALE];
            let allowed = allowed.map(Errno::raw_os_error);
            assert!(allowed.contains(&error.errno), "{error:?}");
        }
        assert!(gone > 0);
    });
    assert_eq!(fs::read_dir(kept.as_path()).unwrap().count(), 20);
}
