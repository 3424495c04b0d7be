//! Tests of layers with contents that are no ordinary change.

use super::*;

#[test]
fn what_a_layer_can_not_have_by_itself_is_told_of_and_left_out() {
    let two = Two::new();
    let make = |name: &str| {
        let path = two.upper.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    };
    two.low("was-a-file", "old\n");
    ["fifo", "tree/in/fifo", "was-a-file"].into_iter().for_each(make);
    two.up("tree/file", "new\n");
    let (draft, steps) = two.settle(None).unwrap();
    let expected = ["created tree 3", "special fifo", "special tree/in/fifo", "special was-a-file"];
    assert_eq!((words(&draft, &two).as_slice(), steps), (&expected.map(str::to_owned)[..], 1));
    let changed = two.settle_whole();
    assert_eq!(changed.notes.len(), 3);
    assert!(changed.notes[0].contains("/fifo is a FIFO or device"), "{:?}", changed.notes);
    assert_eq!(
        two.picture().values().map(|what| &what[4..]).collect::<Vec<_>>(),
        ["directory", "new\n", "directory", "old\n"]
    );
    // What is left out is not reported, and can be named by whoever saw the report.
    let two = Two::new();
    let fifo = two.upper.path().join("tree/fifo");
    fs::create_dir(fifo.parent().unwrap()).unwrap();
    rustix::fs::mknodat(CWD, fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let leave = |name: &str| two.settle_with(&two.layers(), &[two.path(name)], None);
    assert_eq!(leave("tree").unwrap().0.prepared.effects, []);
    assert_eq!(leave("tree/fifo").unwrap().0.prepared.effects.len(), 2);
    assert_eq!(leave("none").unwrap_err().kind, FileErrorKind::Invalid);
    two.up(".palisade-01234567.tmp", "ours");
    assert_eq!(leave("tree").unwrap_err().kind, FileErrorKind::Invalid);
}

#[test]
fn a_socket_at_which_nobody_listens_is_nothing() {
    let two = Two::new();
    two.low("file", "file\n");
    two.up("tree/file", "new\n");
    for name in ["tree/socket", "socket", "file"] {
        drop(UnixListener::bind(two.upper.path().join(name)).unwrap());
    }
    let (draft, steps) = two.settle(None).unwrap();
    assert_eq!(words(&draft, &two), ["created tree 2", "deleted file 1"]);
    two.settle(Some(steps)).unwrap();
    assert_eq!(two.picture().len(), 2);
}

#[test]
fn no_link_of_either_layer_is_followed() {
    let (two, outside) = (Two::new(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret"), "secret\n").unwrap();
    // A link where the other layer has a directory, both ways round.
    symlink(outside.path(), two.lower().join("low-link")).unwrap();
    two.up("low-link/secret", "written\n");
    two.low("up-link/secret", "mine\n");
    symlink(outside.path(), two.upper.path().join("up-link")).unwrap();
    symlink(outside.path().join("secret"), two.upper.path().join("file-link")).unwrap();
    let (draft, steps) = two.settle(None).unwrap();
    assert_eq!(
        words(&draft, &two),
        [
            "created file-link",
            "created low-link 2",
            "created up-link",
            "deleted low-link 1",
            "deleted up-link 2"
        ]
    );
    let all = format!("{:?}{}", draft.befores, draft.prepared.diff);
    assert!(
        !all.contains("secret\\n") || !all.contains("115, 101, 99, 114, 101, 116, 10"),
        "{all}"
    );
    two.settle(Some(steps)).unwrap();
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret\n");
    assert_eq!(fs::read(two.lower().join("low-link/secret")).unwrap(), b"written\n");
    assert!(!two.lower().join("low-link").is_symlink());
    assert!(two.lower().join("up-link").is_symlink());
}

#[test]
fn a_path_that_is_too_long_to_be_named_is_refused() {
    let two = Two::new();
    let name = "d".repeat(250);
    let mut at = dir(two.upper.path());
    for _level in 0..20 {
        rustix::fs::mkdirat(&at, name.as_str(), Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, name.as_str(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let error = two.settle(Some(1)).unwrap_err();
    assert_eq!(error.kind, FileErrorKind::TooLarge);
    assert_eq!(two.picture(), BTreeMap::new());
}

#[test]
fn marks_that_a_program_made_up_mean_nothing() {
    let two = Two::new();
    two.low("dir/kept", "kept\n");
    two.up("dir/new", "new\n");
    let mark = two.upper.path().join("dir");
    for (name, value) in [
        ("user.overlay.opaque", b"x".as_slice()),
        ("user.overlay.redirect", b"/etc"),
        ("user.overlay.metacopy", b""),
        ("user.other", b"y"),
    ] {
        rustix::fs::setxattr(&mark, name, value, XattrFlags::empty()).unwrap();
    }
    let file = two.upper.path().join("dir/new");
    rustix::fs::setxattr(&file, "user.overlay.redirect", b"/etc", XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(&file, "user.mine", b"1", XattrFlags::empty()).unwrap();
    let (draft, steps) = two.settle(None).unwrap();
    assert_eq!(words(&draft, &two), ["created dir/new"]);
    two.settle(Some(steps)).unwrap();
    let made = two.lower().join("dir/new");
    let mut value = [0; 8];
    assert_eq!(rustix::fs::getxattr(&made, "user.mine", &mut value), Ok(1));
    let redirect = rustix::fs::getxattr(&made, "user.overlay.redirect", &mut value);
    assert_eq!(redirect, Err(Errno::NODATA));
}
