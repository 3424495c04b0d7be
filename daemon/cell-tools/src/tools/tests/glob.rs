//! Tests of finding files by name: the newest first, and only those that match.

use crate::tools::testing::{Broker, failed};
use palisade_plan::{
    cell::{FileErrorKind, FileReply, FileRequest},
    search::{Choice, Glob, GlobResult},
};
use rustix::fs::{CWD, Mode};
use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, SystemTime},
};

fn asked(broker: &Broker, glob: &str) -> Glob {
    let choice = Choice { glob: Some(glob.to_owned()), hidden: true, ignored: false };
    Glob { path: broker.path(""), choice, limit: 100 }
}

fn glob(broker: &Broker, request: Glob) -> GlobResult {
    let reply = broker.answer(&FileRequest::Glob(Box::new(request)));
    let FileReply::Globbed(found) = reply else { panic!("{reply:?}") };
    *found
}

fn names(found: &GlobResult) -> Vec<String> {
    found.files.iter().map(|file| String::from_utf8_lossy(&file.path.0).into_owned()).collect()
}

/// Writes a file that was modified this many seconds after the epoch.
fn write(broker: &Broker, name: &str, age: u64) {
    let path = broker.path(name);
    fs::create_dir_all(path.as_path().parent().unwrap()).unwrap();
    fs::write(path.as_path(), name).unwrap();
    let file = fs::File::options().write(true).open(path.as_path()).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(age)).unwrap();
}

#[test]
fn the_newest_come_first_and_the_rest_is_counted() {
    let broker = Broker::new();
    for (name, age) in [("a.rs", 5), ("src/b.rs", 9), ("src/c.rs", 5), (".d.rs", 1), ("e.txt", 7)] {
        write(&broker, name, age);
    }
    let found = glob(&broker, asked(&broker, "**/*.rs"));
    assert_eq!(names(&found), ["src/b.rs", "a.rs", "src/c.rs", ".d.rs"]);
    assert_eq!((found.total, found.more), (4, false));
    assert_eq!((found.files[0].mtime, found.files[0].size), ((9, 0), 8));
    for limit in 0..4 {
        let some = glob(&broker, Glob { limit, ..asked(&broker, "*.rs") });
        assert_eq!((names(&some), some.total), (names(&found)[..limit as usize].to_vec(), 4));
    }
}

#[test]
fn links_are_found_and_not_followed_and_nothing_special_is() {
    let broker = Broker::new();
    write(&broker, "dir/file", 3);
    symlink("file", broker.path("dir/link").as_path()).unwrap();
    symlink("..", broker.path("dir/up").as_path()).unwrap();
    rustix::fs::mkfifoat(CWD, broker.path("dir/fifo").as_path(), Mode::from_raw_mode(0o600))
        .unwrap();
    let mut found = names(&glob(&broker, asked(&broker, "*")));
    found.sort();
    assert_eq!(found, ["dir/file", "dir/link", "dir/up"]);
}

#[test]
fn only_a_directory_can_be_searched() {
    let broker = Broker::new();
    write(&broker, "file", 1);
    for (name, kind) in [("file", FileErrorKind::Invalid), ("none", FileErrorKind::NotFound)] {
        let request = Glob { path: broker.path(name), ..asked(&broker, "*") };
        let error = failed(broker.answer(&FileRequest::Glob(Box::new(request))));
        assert_eq!(error.kind, kind);
    }
}

#[test]
fn many_files_make_an_answer_that_fits() {
    let broker = Broker::new();
    let long = "n".repeat(200);
    for n in 0..20_000 {
        fs::write(broker.path(format!("{n:05}{long}")).as_path(), "").unwrap();
    }
    let found = glob(&broker, Glob { limit: u64::MAX, ..asked(&broker, "*") });
    assert_eq!(found.total, 20_000);
    assert!((3000..6000).contains(&found.files.len()), "{}", found.files.len());
}
