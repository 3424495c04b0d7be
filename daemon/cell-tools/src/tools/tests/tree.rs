//! A snapshot of everything in a workspace, to check that nothing changed.

use crate::tools::testing::Broker;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

/// The contents of the snapshot. A change that is rolled back changes the times of directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Everything,
    NotTimes,
}

/// One entry: mode, kind and content, time of a directory, time of a file.
type Entry = (u32, String, Option<(i64, i64)>, Option<(i64, i64)>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture(BTreeMap<PathBuf, Entry>);

impl Picture {
    /// Returns the snapshot without the times of directories.
    pub(super) fn without_times(mut self) -> Self {
        self.0.values_mut().for_each(|entry| entry.2 = None);
        self
    }
}

pub(super) fn snapshot(broker: &Broker, kept: Kept) -> Picture {
    let mut picture = Picture(BTreeMap::new());
    add(broker.dir.path(), &mut picture);
    match kept {
        Kept::Everything => picture,
        Kept::NotTimes => picture.without_times(),
    }
}

fn add(dir: &Path, picture: &mut Picture) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        let time = Some((found.mtime(), found.mtime_nsec()));
        let kind = found.file_type();
        let (what, of_dir, of_file) = if kind.is_dir() {
            ("directory".to_owned(), time, None)
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            (format!("link {}", target.display()), None, None)
        } else if kind.is_fifo() {
            ("FIFO".to_owned(), None, None)
        } else {
            let bytes = fs::read(&path).unwrap();
            (format!("file {:?}", String::from_utf8_lossy(&bytes)), None, time)
        };
        assert!(!path.as_os_str().as_bytes().ends_with(b".tmp"), "left over: {path:?}");
        picture.0.insert(path.clone(), (found.mode() & 0o7777, what, of_dir, of_file));
        if kind.is_dir() {
            add(&path, picture);
        }
    }
}
