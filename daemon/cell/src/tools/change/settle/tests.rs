//! Settling two directories that are made by hand: what no program could leave, and what is left of
//! a commit that is cut off after any of its steps.

use super::{super::stage::Stage, settle};
use crate::{
    channel::Channel,
    overlay::Layers,
    tools::{
        Stop,
        testing::{Broker, Draft, pair},
    },
    view::View,
};
use palisade_plan::{
    Durable, Path as PlanPath, Transactions, Upper,
    cell::{FileError, FileErrorKind, FileReply, FileRequest},
    change::{Act, Change, Conflicts, EffectKind, Keep, Prepared, Print},
    names::{NameList, Names},
};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, XattrFlags},
    io::Errno,
};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

mod crash;

/// A workspace, with a broker of its file tools, and an upper layer beside it.
struct Two {
    broker: Broker,
    upper: tempfile::TempDir,
    names: Names,
}

impl Two {
    fn new() -> Self {
        let names = Names::default();
        Self { broker: Broker::new(), upper: tempfile::tempdir().unwrap(), names }
    }

    fn lower(&self) -> PathBuf {
        self.broker.dir.path().to_owned()
    }

    fn low(&self, name: &str, content: &str) {
        put(self.lower().join(name), content);
    }

    fn up(&self, name: &str, content: &str) {
        put(self.upper.path().join(name), content);
    }

    /// Marks a name as gone.
    fn white(&self, name: &str) {
        let path = self.upper.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }

    fn opaque(&self, name: &str) {
        let path = self.upper.path().join(name);
        fs::create_dir_all(&path).unwrap();
        rustix::fs::setxattr(path, "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    }

    /// The layers, after a program that began when all of the lower one was there.
    fn layers(&self) -> Layers {
        Layers {
            lower: dir(&self.lower()),
            upper: dir(self.upper.path()),
            since: (i64::MAX, 1),
            bytes: 1 << 30,
            kept: Transactions { upper: Upper::Disk, durable: Durable::No },
        }
    }

    fn path(&self, name: &str) -> PlanPath {
        self.broker.path(name)
    }

    /// What the change would be; and its steps go as far as `steps` says, and no further, as if the
    /// process was killed there. None: not at all.
    fn settle(&self, cut: Option<usize>) -> Result<(Draft, usize), FileError> {
        self.settle_with(&self.layers(), &[], cut)
    }

    fn settle_with(
        &self,
        layers: &Layers,
        leave: &[PlanPath],
        cut: Option<usize>,
    ) -> Result<(Draft, usize), FileError> {
        self.settle_over(layers, leave, Conflicts::Refused, cut)
    }

    fn settle_over(
        &self,
        layers: &Layers,
        leave: &[PlanPath],
        conflicts: Conflicts,
        cut: Option<usize>,
    ) -> Result<(Draft, usize), FileError> {
        let (ours, theirs) = pair();
        let keep = Keep::Sent { bytes: 1 << 30, entries: 1_000_000 };
        let act = Act::Settle { leave: leave.to_vec(), conflicts };
        let change = Change { act, most: 1 << 30, keep, diff: 1 << 20 };
        let lower = self.lower();
        let view = View::new(lower, self.names.clone()).unwrap();
        let mut stage = Stage::new(&change, &view);
        settle(&mut stage, &theirs, layers, leave).map_err(|stop| {
            let Stop::Failed(error) = stop else { panic!("{stop:?}") };
            error
        })?;
        let prepared = Prepared {
            effects: stage.effects.clone(),
            digest: stage.digest(),
            diff: stage.diff.clone(),
            diff_complete: stage.diff_complete,
            conflicts: stage.conflicts.clone(),
        };
        let kept = stage.take_kept();
        let reader = std::thread::spawn(move || read(&ours));
        kept.send(&theirs, FileReply::Prepared(prepared)).unwrap();
        let draft = reader.join().unwrap();
        let steps = stage.steps.len();
        let Some(cut) = cut else { return Ok((draft, steps)) };
        let staging = stage.staging.clone();
        let journal = super::super::commit::prepare(&mut stage).unwrap();
        let mut rest = std::mem::take(&mut stage.steps);
        for step in rest.drain(..cut.min(steps)) {
            // What a killed process has in hand it does not take back.
            std::mem::forget(step.take().unwrap());
        }
        rest.into_iter().for_each(std::mem::forget);
        if let Some(Ok(lock)) = staging.as_ref().map(|staging| staging.dir()) {
            rustix::fs::flock(lock, rustix::fs::FlockOperation::Unlock).unwrap();
        }
        std::mem::forget((stage, staging, journal));
        Ok((draft, steps))
    }

    /// All that is in the workspace, but what a killed process leaves beside.
    fn picture(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        add(&self.lower(), &mut found);
        found
    }
}

fn put(path: PathBuf, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn dir(path: &Path) -> std::os::fd::OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).unwrap()
}

/// What comes on a channel up to `Prepared`.
fn read(channel: &Channel) -> Draft {
    let mut befores = Vec::new();
    loop {
        let reply = channel.receive::<FileReply>().unwrap().unwrap().0;
        if let FileReply::Before(before) = reply {
            befores.push((before, Vec::new()));
        } else if let FileReply::Content(piece) = reply {
            befores.last_mut().unwrap().1.extend(piece);
        } else if let FileReply::Prepared(prepared) = reply {
            return Draft { befores, prepared };
        }
    }
}

fn add(dir: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().as_bytes().starts_with(b".palisade-") {
            continue;
        }
        let meta = fs::symlink_metadata(&path).unwrap();
        let what = if meta.is_symlink() {
            format!("link {}", fs::read_link(&path).unwrap().display())
        } else if meta.is_dir() {
            add(&path, found);
            "directory".to_owned()
        } else {
            fs::read_to_string(&path).unwrap()
        };
        found.insert(path, format!("{:o} {what}", meta.mode() & 0o7777));
    }
}

/// One of every kind of change.
fn everything() -> Two {
    let two = Two::new();
    for name in
        ["replaced", "appended", "gone", "old name", "dir/a", "dir/sub/b", "kind", "again/x"]
    {
        two.low(name, &format!("{name}\n"));
    }
    two.low("mode", "mode\n");
    two.low("again/y", "y\n");
    two.low("tree-was/z", "z\n");
    symlink("here", two.lower().join("link")).unwrap();
    two.up("replaced", "other\n");
    two.up("appended", "appended\nmore\n");
    two.white("gone");
    two.white("old name");
    two.white("dir");
    two.up("new name", "old name\n");
    let old = fs::metadata(two.lower().join("old name")).unwrap();
    let file = fs::File::options().write(true).open(two.upper.path().join("new name")).unwrap();
    file.set_modified(old.modified().unwrap()).unwrap();
    two.up("kind/of/tree", "tree\n");
    two.up("tree-was", "a file now\n");
    two.up("mode", "mode\n");
    fs::set_permissions(two.upper.path().join("mode"), fs::Permissions::from_mode(0o711)).unwrap();
    two.opaque("again");
    two.up("again/x", "again/x\n");
    symlink("there", two.upper.path().join("link")).unwrap();
    two.up("new/deep/file", "new\n");
    symlink("../out", two.upper.path().join("new/link")).unwrap();
    two
}

fn words(draft: &Draft, two: &Two) -> Vec<String> {
    let below =
        |path: &PlanPath| path.as_path().strip_prefix(two.lower()).unwrap().display().to_string();
    let effects = draft.prepared.effects.iter();
    let mut words: Vec<_> = effects
        .map(|effect| {
            let path = below(&effect.path);
            match &effect.kind {
                EffectKind::Created => match &effect.print {
                    Print::Tree { entries, .. } => format!("created {path} {entries}"),
                    Print::Absent
                    | Print::File { .. }
                    | Print::Directory
                    | Print::Symlink { .. }
                    | Print::Node { .. } => format!("created {path}"),
                },
                EffectKind::Deleted { entries } => format!("deleted {path} {entries}"),
                EffectKind::Moved { from } => format!("moved {} {path}", below(from)),
                kind @ (EffectKind::Replaced
                | EffectKind::Appended
                | EffectKind::Edited
                | EffectKind::Mode
                | EffectKind::Touched
                | EffectKind::Special) => format!("{kind:?} {path}").to_lowercase(),
            }
        })
        .collect();
    words.sort();
    words
}

#[test]
fn every_kind_of_change_is_told_once() {
    let two = everything();
    let (draft, _) = two.settle(None).unwrap();
    let words = words(&draft, &two);
    let touched = ["touched again/x", "touched mode"];
    let words: Vec<_> = words.iter().filter(|word| !touched.contains(&word.as_str())).collect();
    assert_eq!(
        words,
        [
            "appended appended",
            "created kind 3",
            "created new 4",
            "created tree-was",
            "deleted again/y 1",
            "deleted dir 4",
            "deleted gone 1",
            "deleted kind 1",
            "deleted tree-was 2",
            "mode mode",
            "moved old name new name",
            "replaced link",
            "replaced replaced",
        ]
    );
    assert!(draft.prepared.diff.contains("-replaced\n+other\n"), "{}", draft.prepared.diff);
    // Another content is another change.
    two.up("replaced", "yet another\n");
    assert_ne!(two.settle(None).unwrap().0.prepared.digest, draft.prepared.digest);
}

#[test]
fn a_commit_that_is_cut_off_leaves_each_path_old_or_new_and_is_undone() {
    let (whole, steps) = {
        let two = everything();
        let before = two.picture();
        let steps = two.settle(None).unwrap().1;
        two.settle(Some(steps)).unwrap();
        let after: BTreeMap<_, _> = two
            .picture()
            .into_iter()
            .map(|(path, what)| (path.strip_prefix(two.lower()).unwrap().to_owned(), what))
            .collect();
        let before: BTreeMap<_, _> = before
            .into_iter()
            .map(|(path, what)| (path.strip_prefix(two.lower()).unwrap().to_owned(), what))
            .collect();
        ((before, after), steps)
    };
    assert!(steps > 12, "{steps}");
    for cut in 0..=steps {
        let two = everything();
        let before = two.picture();
        let (draft, _) = two.settle(Some(cut)).unwrap();
        for (path, what) in two.picture() {
            let name = path.strip_prefix(two.lower()).unwrap().to_owned();
            let known = [whole.0.get(&name), whole.1.get(&name)];
            assert!(known.contains(&Some(&what)), "after {cut} steps {name:?} is {what:?}");
        }
        two.broker.undo(&draft, true).unwrap();
        assert_eq!(two.picture(), before, "undone after {cut} steps");
    }
}

#[test]
fn the_next_commit_takes_away_what_a_killed_one_left_and_not_what_is_in_use() {
    let two = Two::new();
    two.low(".palisade-01234567.tmp/0/old", "old\n");
    two.low(".palisade-89abcdef.tmp/0", "in use\n");
    two.low(".palisade-89abcdef.kept/0", "kept\n");
    let used = dir(&two.lower().join(".palisade-89abcdef.tmp"));
    rustix::fs::flock(&used, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    two.up("file", "new\n");
    let keep = Keep::Nothing;
    let act = Act::Settle { leave: Vec::new(), conflicts: Conflicts::Refused };
    let change = Change { act, most: 1 << 30, keep, diff: 0 };
    let (lower, (_ours, theirs)) = (two.lower(), pair());
    let view = View::new(lower, Default::default()).unwrap();
    let mut stage = Stage::new(&change, &view);
    settle(&mut stage, &theirs, &two.layers(), &[]).unwrap();
    super::super::commit::commit(stage).unwrap();
    assert_eq!(two.broker.names(), [".palisade-89abcdef.kept", ".palisade-89abcdef.tmp", "file"]);
}

#[test]
fn a_commit_that_fails_half_way_is_taken_back() {
    let two = everything();
    // The last directory can not be written, by a mode that both layers have.
    two.low("zz/file", "zz\n");
    two.up("zz/file", "other\n");
    two.up("zz/new", "new\n");
    for layer in [two.lower(), two.upper.path().to_owned()] {
        fs::set_permissions(layer.join("zz"), fs::Permissions::from_mode(0o555)).unwrap();
    }
    let before = two.picture();
    let error = std::thread::scope(|scope| {
        let committed = scope.spawn(|| {
            caps::clear(None, caps::CapSet::Effective).unwrap();
            let act = Act::Settle { leave: Vec::new(), conflicts: Conflicts::Refused };
            let change = Change { act, most: 1 << 30, keep: Keep::Nothing, diff: 0 };
            let (lower, (_ours, theirs)) = (two.lower(), pair());
            let view = View::new(lower, Default::default()).unwrap();
            let mut stage = Stage::new(&change, &view);
            settle(&mut stage, &theirs, &two.layers(), &[]).unwrap();
            super::super::commit::commit(stage).unwrap_err()
        });
        committed.join().unwrap()
    });
    assert_eq!(error.errno, Errno::ACCESS.raw_os_error(), "{}", error.message);
    assert!(!error.message.contains("could not be put back"), "{}", error.message);
    assert_eq!(two.picture(), before);
    assert!(!two.broker.names().iter().any(|name| name.starts_with(".palisade-")));
    // Or an ordinary user could not take them away.
    for layer in [two.lower(), two.upper.path().to_owned()] {
        fs::set_permissions(layer.join("zz"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

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
    // What is left out is not told of, and can be named by who was told.
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
        let since = crate::moment::now(dir(&two.lower()));
        let layers = || Layers { since, ..two.layers() };
        two.low("other", "theirs, and nobody's business\n");
        assert_eq!(two.settle_with(&layers(), &[], None).unwrap().0.prepared.effects.len(), 4);
        change(&two);
        let before = two.picture();
        let error = two.settle_with(&layers(), &[], Some(9)).unwrap_err();
        assert_eq!(error.kind, FileErrorKind::Conflict, "{what}: {}", error.message);
        assert_eq!(two.picture(), before, "{what}");
        // Told, it is done all the same, and what was theirs is kept.
        let over = |cut| two.settle_over(&layers(), &[], Conflicts::Told, cut).unwrap().0;
        let told = over(None).prepared;
        let [conflict] = told.conflicts.as_slice() else { panic!("{what}: {:?}", told.conflicts) };
        assert!(conflict.theirs != conflict.ours || what.contains("file was"), "{conflict:?}");
        // Left out, it is nobody's business.
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
    // The same content is no conflict: there is nothing to be done.
    let two = Two::new();
    two.up("made", "same\n");
    let since = crate::moment::now(dir(&two.lower()));
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

/// A build that makes again what was there: the same contents, at another time, under both names of
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

/// What the program did is refused whole, and the workspace is as it was.
fn refused_by_name(two: &Two, kind: FileErrorKind, path: &str) {
    let before = two.picture();
    let error = two.settle(None).unwrap_err();
    assert_eq!((error.kind, error.about), (kind, Some(two.broker.path(path))), "{}", error.message);
    assert_eq!(two.picture(), before);
}

fn named() -> Two {
    let list = |text: &[&str]| vec![NameList(text.iter().map(|one| (*one).to_owned()).collect())];
    let names = Names { hide: list(&[".env", "*.pem"]), protect: list(&["**/.git/hooks/"]) };
    Two { names, ..Two::new() }
}

#[test]
fn names_that_are_hidden_or_protected_are_not_committed() {
    let (hidden, protected) = (FileErrorKind::Hidden, FileErrorKind::Protected);
    let two = named();
    two.up("a/b/.env", "mine");
    refused_by_name(&two, hidden, "a/b/.env");
    let two = named();
    two.low(".env", "secret");
    two.up(".env", "mine");
    two.up("fine", "x");
    refused_by_name(&two, hidden, ".env");
    let two = named();
    two.low(".git/hooks/pre-commit", "old");
    two.up(".git/hooks/pre-commit", "new");
    refused_by_name(&two, protected, ".git/hooks/pre-commit");
    let two = named();
    two.up("sub/.git/hooks/x", "new");
    refused_by_name(&two, protected, "sub/.git/hooks");
    // The directory above is gone, and with it what the program did not see.
    let two = named();
    two.low("conf/deep/a.pem", "secret");
    two.white("conf");
    refused_by_name(&two, hidden, "conf/deep/a.pem");
    // What has no such name is.
    let two = named();
    two.low(".git/hooks/pre-commit", "old");
    two.up(".git/index", "new");
    two.settle(None).unwrap();
}
