//! Tests of what no call shows: file systems with fewer features, and what killed processes leave.

use super::{
    act::replace_by_link,
    fresh::{FileAttributes, TemporaryFile},
    names::{is_ours, rename_checked},
    spot::{Dir, EntryLocation, LinkHandling},
    step::Step,
};
use palisade_workspace::{EntryMetadata, look};
use rustix::io::Errno;
use std::{
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::Path,
    rc::Rc,
};

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn open(dir: &Path) -> Rc<Dir> {
    Rc::new(Dir::open(dir.as_os_str().as_bytes(), LinkHandling::ThroughLinks).unwrap())
}

#[test]
fn a_file_system_that_knows_no_nameless_files_has_it_named() {
    let temp = tempfile::tempdir().unwrap();
    let dir = open(temp.path());
    let mut fresh = TemporaryFile::named(&dir, FileAttributes::New).unwrap();
    fresh.write(b"one").unwrap();
    let [name] = names(temp.path()).try_into().unwrap();
    assert!(is_ours(name.as_bytes()), "{name}");
    drop(fresh);
    assert_eq!(names(temp.path()), Vec::<String>::new());
    // One that is closed meanwhile has a name too, and keeps its content and mode.
    let path = temp.path().join("file");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
    let old = look(dir.as_ref(), b"file").unwrap().unwrap();
    for begin in [TemporaryFile::new, TemporaryFile::named] {
        let mut fresh = begin(&dir, FileAttributes::Old(old)).unwrap();
        fresh.write(b"new").unwrap();
        fresh.complete(FileAttributes::Old(old)).unwrap();
        fresh.close().unwrap();
        assert_eq!(names(temp.path()).len(), 2);
        let spot = EntryLocation { base: Rc::clone(&dir), way: Vec::new(), name: b"new".to_vec() };
        let done = Step::Put { spot, fresh }.take().unwrap();
        assert_eq!(names(temp.path()), ["file", "new"]);
        assert_eq!(fs::read(temp.path().join("new")).unwrap(), b"new");
        assert_eq!(fs::metadata(temp.path().join("new")).unwrap().mode() & 0o7777, 0o604);
        done.undo().unwrap();
        assert_eq!(names(temp.path()), ["file"]);
    }
}

#[test]
fn a_file_system_that_can_not_exchange_replaces_by_a_second_name() {
    let temp = tempfile::tempdir().unwrap();
    let dir = open(temp.path());
    fs::write(temp.path().join("file"), "old").unwrap();
    fs::write(temp.path().join("fresh"), "new").unwrap();
    let spot = EntryLocation { base: Rc::clone(&dir), way: Vec::new(), name: b"file".to_vec() };
    let second = replace_by_link(&spot.dir().unwrap(), b"file", "fresh").unwrap();
    assert!(is_ours(second.as_bytes()));
    assert_eq!(fs::read(temp.path().join("file")).unwrap(), b"new");
    assert_eq!(fs::read(temp.path().join(&second)).unwrap(), b"old");
    let taken = rename_checked((dir.as_ref(), second.as_bytes()), (dir.as_ref(), b"file"));
    assert_eq!(taken, Err(Errno::EXIST));
    rename_checked((dir.as_ref(), second.as_bytes()), (dir.as_ref(), b"free")).unwrap();
    assert_eq!(names(temp.path()), ["file", "free"]);
}

#[test]
fn only_names_of_our_own_form_are_ours() {
    assert!(is_ours(b".palisade-0123abcd.tmp"));
    for name in [
        ".palisade-0123abcd.kept",
        ".palisade-0123abc.tmp",
        ".palisade-0123abcde.tmp",
        ".palisade-0123ABCD.tmp",
        ".palisade-.tmp",
        "palisade-0123abcd.tmp",
        ".palisade-0123abcd.tmp~",
    ] {
        assert!(!is_ours(name.as_bytes()), "{name}");
    }
}

#[test]
fn a_version_is_told_from_another() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("file");
    fs::write(&path, "one").unwrap();
    let see = || EntryMetadata::from(&rustix::fs::stat(&path).unwrap());
    let one = see();
    assert_eq!(one, see());
    fs::rename(&path, temp.path().join("other")).unwrap();
    fs::rename(temp.path().join("other"), &path).unwrap();
    assert!(one.is_moved(&see()));
    fs::write(&path, "three").unwrap();
    assert!(!one.is_moved(&see()));
    assert_ne!(one.bytes(), see().bytes());
}
