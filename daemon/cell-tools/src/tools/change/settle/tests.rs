//! Tests of committing two directories that are made by hand: layers that no program could leave,
//! and commits that are interrupted after any of their steps.

use super::{super::stage::Stage, settle};
use crate::tools::{
    Stop,
    testing::{Broker, Draft, open_up, pair},
};
use palisade_channel::Channel;
use palisade_plan::{
    Durable, Path as PlanPath, Transactions, Upper,
    cell::{FileError, FileErrorKind, FileReply, FileRequest},
    change::{Act, Change, Conflicts, EffectKind, EvidenceDepth, Keep, Prepared, Print},
    evidence::Evidence,
    names::{NameList, Names},
};
use palisade_workspace::{LayerAccess, Layers, View};
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

mod append;
mod crash;
mod names;
mod outside;
mod shown;
mod strange;

/// Returns the change that commits everything that a program did, without an undo record.
fn settle_all() -> Change {
    let act = Act::Settle { leave: Vec::new(), conflicts: Conflicts::Refused };
    let (keep, evidence) = (Keep::Nothing, EvidenceDepth::Full);
    Change { act, most: 1 << 30, keep, diff: 0, evidence }
}

/// A workspace with a broker for its file tools, and an upper layer.
struct Two {
    broker: Broker,
    upper: tempfile::TempDir,
    names: Names,
}

impl Drop for Two {
    fn drop(&mut self) {
        open_up(self.upper.path());
    }
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

    /// Makes a whiteout for a name.
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

    /// Returns the layers, as if the program began after everything in the lower one was made.
    fn layers(&self) -> Layers {
        Layers {
            path: PlanPath::from(self.lower()),
            lower: dir(&self.lower()),
            upper: dir(self.upper.path()),
            since: (i64::MAX, 1),
            committed: None,
            bytes: 1 << 30,
            kept: Transactions { upper: Upper::Disk, durable: Durable::No },
            main: None,
            access: LayerAccess::ReadOnly,
        }
    }

    fn path(&self, name: &str) -> PlanPath {
        self.broker.path(name)
    }

    /// Plans the change, and takes as many steps as `cut` says, as if the process was killed there.
    /// `None` takes no step and writes no journal.
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
        let change =
            Change { act, most: 1 << 30, keep, diff: 1 << 20, evidence: EvidenceDepth::Full };
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
            evidence: Box::<Evidence>::default(),
        };
        let kept = stage.take_kept();
        let reader = std::thread::spawn(move || read(&ours));
        kept.send(&theirs, vec![FileReply::Prepared(prepared)]).unwrap();
        let draft = reader.join().unwrap();
        let steps = stage.steps.len();
        let Some(cut) = cut else { return Ok((draft, steps)) };
        let staging = stage.stagings.first().cloned();
        let journal = super::super::commit::prepare(&mut stage).unwrap();
        let mut rest = std::mem::take(&mut stage.steps);
        for step in rest.drain(..cut.min(steps)) {
            // A killed process does not roll back what it holds.
            std::mem::forget(step.take().unwrap());
        }
        rest.into_iter().for_each(std::mem::forget);
        if let Some(Ok(lock)) = staging.as_ref().map(|staging| staging.dir()) {
            rustix::fs::flock(lock, rustix::fs::FlockOperation::Unlock).unwrap();
        }
        std::mem::forget((stage, staging, journal));
        Ok((draft, steps))
    }

    /// Returns everything in the workspace, except what a killed process left.
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

/// Receives everything on a channel up to `Prepared`.
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

/// Makes one change of every kind.
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
    // Other content gives another digest.
    two.up("replaced", "yet another\n");
    assert_ne!(two.settle(None).unwrap().0.prepared.digest, draft.prepared.digest);
}
