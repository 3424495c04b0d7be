//! Tests of changes from outside while a program ran.

use super::*;

#[test]
fn what_changed_outside_since_the_start_is_a_conflict_only_where_the_program_was() {
    type Acts = [(&'static str, fn(&Two)); 6];
    let changes: Acts = [
        ("a file was written", |two| two.low("file", "theirs\n")),
        ("a file to be removed was written", |two| two.low("gone", "theirs\n")),
        ("something is in a directory to be removed", |two| two.low("dir/new", "theirs\n")),
        ("a file is where a new one is", |two| two.low("made", "theirs\n")),
        ("a directory is where a new file is", |two| two.low("made/in", "theirs\n")),
        ("a file became a link", |two| {
            fs::remove_file(two.lower().join("file")).unwrap();
            symlink("elsewhere", two.lower().join("file")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let two = Two::new();
        for name in ["file", "gone", "dir/a", "other"] {
            two.low(name, "old\n");
        }
        two.up("file", "new\n");
        two.up("made", "made\n");
        two.white("gone");
        two.white("dir");
        let since = crate::change_time::now(dir(&two.lower()));
        let layers = || Layers { since, ..two.layers() };
        two.low("other", "theirs, and nobody's business\n");
        assert_eq!(two.settle_with(&layers(), &[], None).unwrap().0.prepared.effects.len(), 4);
        change(&two);
        let before = two.picture();
        let error = two.settle_with(&layers(), &[], Some(9)).unwrap_err();
        assert_eq!(error.kind, FileErrorKind::Conflict, "{what}: {}", error.message);
        assert_eq!(two.picture(), before, "{what}");
        // Reported as a conflict, the change is made all the same, and the outside change is in the
        // undo record.
        let over = |cut| two.settle_over(&layers(), &[], Conflicts::Told, cut).unwrap().0;
        let told = over(None).prepared;
        let [conflict] = told.conflicts.as_slice() else { panic!("{what}: {:?}", told.conflicts) };
        assert!(conflict.theirs != conflict.ours || what.contains("file was"), "{conflict:?}");
        // A path that is left out is not a conflict.
        let leave = [conflict.path.clone()];
        let (draft, _) = two.settle_with(&layers(), &leave, None).unwrap();
        assert_eq!(
            (draft.prepared.conflicts.len(), draft.prepared.effects.len()),
            (0, 3),
            "{what}"
        );
        let draft = over(Some(9));
        assert_eq!(draft.prepared.digest, told.digest, "{what}");
        assert_eq!(two.settle(None).unwrap().0.prepared.effects, [], "{what}");
        two.broker.undo(&draft, true).unwrap();
        assert_eq!(two.picture(), before, "{what}");
    }
    // Equal content is not a conflict, because there is nothing to do.
    let two = Two::new();
    two.up("made", "same\n");
    let since = crate::change_time::now(dir(&two.lower()));
    two.low("made", "same\n");
    let made = two.lower().join("made");
    let time = fs::metadata(two.upper.path().join("made")).unwrap().modified().unwrap();
    fs::File::options().write(true).open(made).unwrap().set_modified(time).unwrap();
    let (draft, _) = two.settle_with(&Layers { since, ..two.layers() }, &[], None).unwrap();
    assert_eq!(draft.prepared.effects, []);
}

#[test]
fn what_was_removed_outside_and_changed_inside_is_a_conflict() {
    let two = Two::new();
    two.low("keep", "keep\n");
    two.up("dir/file", "new\n");
    let origin = two.upper.path().join("dir");
    rustix::fs::setxattr(origin, "user.overlay.origin", b"", XattrFlags::empty()).unwrap();
    let error = two.settle(None).unwrap_err();
    assert_eq!(error.kind, FileErrorKind::Conflict, "{}", error.message);
    let (draft, _) = two.settle_over(&two.layers(), &[], Conflicts::Told, Some(9)).unwrap();
    let [conflict] = draft.prepared.conflicts.as_slice() else { panic!("{draft:?}") };
    assert_eq!((conflict.theirs.as_str(), conflict.ours.as_str()), ("nothing", "a directory"));
    assert_eq!(fs::read(two.lower().join("dir/file")).unwrap(), b"new\n");
}

/// A build that makes existing files again: the same contents, at another time, under both names of
/// one file.
#[test]
fn several_names_of_a_file_are_not_taken_for_somebody_elses_change() {
    let two = Two::new();
    for name in ["binary", "other"] {
        two.low(name, "built\n");
        fs::hard_link(two.lower().join(name), two.lower().join(format!("{name}-1"))).unwrap();
    }
    two.up("binary", "built\n");
    two.up("binary-1", "built\n");
    two.up("other", "built\n");
    two.up("other-1", "new\n");
    let (draft, steps) = two.settle(None).unwrap();
    assert_eq!((draft.prepared.effects.len(), steps), (4, 3));
    two.settle(Some(steps)).unwrap();
    assert_eq!(fs::read(two.lower().join("other-1")).unwrap(), b"new\n");
    for (name, like) in [("binary", "binary-1"), ("binary-1", "binary-1"), ("other", "other")] {
        let time = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(two.lower().join(name)), time(two.upper.path().join(like)), "{name}");
    }
}
