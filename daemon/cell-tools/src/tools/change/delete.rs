//! `delete_file`: deletes one entry, or a directory with everything in it. Runs in the cell.

use super::{
    act::DeletedContents,
    evidence::LostEntry,
    keep::{UndoRecord, changed},
    spot::{EntryLocation, link_target},
    stage::{PlannedState, Stage},
    target::{self, FilePurpose, Slash, may_change, open_old, read_all, trimmed},
    tree::Fingerprint,
};
use crate::tools::{
    LONGEST_PATH, Stop, WalkDepth, failure, go_on, invalid, kind_name, refused, shown,
};
use palisade_channel::Channel;
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{EffectKind, Print},
};
use palisade_workspace::{
    EntryMetadata, View, kind_of,
    tree::{TreeVisitor, VisitedEntry, walk},
};
use rustix::{fs::FileType, io::Errno};
use std::{os::fd::AsFd as _, rc::Rc};

/// The number of entries of a tree that are visited between two checks of the channel.
const BETWEEN_LOOKS: u64 = 64;

/// The maximum number of files of a tree that are reported one by one.
const MOST_FILES: usize = 4096;

/// Plans to delete the entry at `path`. For a symbolic link this is the link itself, not its
/// target.
pub(super) fn delete(
    stage: &mut Stage<'_>,
    channel: &Channel,
    path: &Path,
    reach: WalkDepth,
) -> Result<(), Stop> {
    let (trimmed, slash) = trimmed(path)?;
    if stage.workspace.starts_with(trimmed.as_path()) {
        let why = "it is or contains the workspace, which can not be deleted or moved";
        return Err(invalid(path, why).into());
    }
    let (spot, node) = target::entry(stage, &trimmed)?;
    let seen = match node {
        PlannedState::There(seen) => seen,
        PlannedState::Absent | PlannedState::Planned(_) => {
            return Err(refused("delete", path, Errno::NOENT).into());
        }
    };
    if seen.kind() == FileType::Directory {
        stage.refuse_workspace(path, &seen)?;
        if reach == WalkDepth::One {
            let message = format!(
                "{} is a directory: set recursive to delete it with its contents",
                shown(path)
            );
            return Err(failure(FileErrorKind::NotRegular, Some(Errno::ISDIR), message).into());
        }
        return tree(stage, channel, &spot, node);
    }
    if slash == Slash::AtEnd {
        return Err(invalid(
            path,
            &format!("it ends in a slash, and is {}", kind_name(seen.kind())),
        )
        .into());
    }
    may_change(path, "delete", &spot)?;
    if seen.kind() == FileType::RegularFile && stage.comparable().is_some_and(|m| seen.size <= m) {
        match open_old(path, &spot, &seen, FilePurpose::Content) {
            Ok((file, _)) => {
                let old = read_all(path, &file, seen.size)?;
                stage.compare(Some((&spot.path(), &old)), None);
            }
            Err(_) => stage.diff_complete = false,
        }
    } else {
        stage.diff_complete &= stage.change.diff == 0;
    }
    stage.remove(&spot, node, DeletedContents::Nothing)?;
    gone(stage, &spot, &seen, 1);
    Ok(())
}

pub(super) fn gone(
    stage: &mut Stage<'_>,
    spot: &EntryLocation,
    seen: &EntryMetadata,
    entries: u64,
) {
    let kind = EffectKind::Deleted { entries };
    stage.effect(spot.path(), kind, (seen.file_size(), 0), Print::Absent, Some(seen));
}

/// Plans to delete a directory with everything in it.
pub(super) fn tree(
    stage: &mut Stage<'_>,
    channel: &Channel,
    spot: &EntryLocation,
    node: PlannedState,
) -> Result<(), Stop> {
    let path = spot.path();
    let PlannedState::There(seen) = node else {
        return Err(refused("delete", &path, Errno::NOENT).into());
    };
    may_change(&path, "delete", spot)?;
    let mut gathered = gather(stage, channel, spot, |_, _| false)?;
    stage.remove(spot, node, DeletedContents::Tree(gathered.print))?;
    gone(stage, spot, &seen, gathered.entries);
    stage.lose_tree(spot, &seen, &mut gathered);
    Ok(())
}

/// The result of reading a directory with everything in it.
pub(super) struct TreeSummary {
    /// The fingerprint that identifies the tree.
    pub(super) print: [u8; 32],
    /// The number of entries.
    pub(super) entries: u64,
    /// True if an entry was changed from outside the transaction.
    pub(super) is_changed: bool,
    /// All entries except directories; `None` if there are too many.
    pub(super) files: Option<Vec<LostEntry>>,
}

/// Reads a directory with everything in it, and adds its contents to the undo record.
pub(super) fn gather(
    stage: &mut Stage<'_>,
    channel: &Channel,
    spot: &EntryLocation,
    is_changed: impl Fn(&Path, &EntryMetadata) -> bool,
) -> Result<TreeSummary, Stop> {
    let path = spot.path();
    let dir = spot.dir().map_err(|e| refused("delete", &path, e))?;
    let mut gathering = TreeCollector {
        channel,
        view: stage.view,
        top: spot,
        kept: &mut stage.kept,
        print: Fingerprint::default(),
        entries: 0,
        outside: &is_changed,
        is_changed: false,
        files: Some(Vec::new()),
    };
    walk(dir.as_fd(), &spot.name, &mut gathering).map_err(|halt| match halt {
        Halt::Stop(stop) => stop,
        Halt::Kernel(errno) => whole(&path, errno).into(),
    })?;
    let TreeCollector { print, entries, is_changed, files, .. } = gathering;
    stage.diff_complete &= stage.change.diff == 0;
    Ok(TreeSummary { print: print.done(), entries, is_changed, files })
}

fn whole(path: &Path, errno: Errno) -> FileError {
    let mut error = match errno {
        Errno::TOOBIG => {
            let message = format!("{} has too many entries, or is too deep", shown(path));
            failure(FileErrorKind::TooLarge, Some(errno), message)
        }
        Errno::XDEV => {
            let message = format!("{} contains a mount, which can not be deleted", shown(path));
            failure(FileErrorKind::OutsidePolicy, Some(errno), message)
        }
        Errno::STALE => changed(path),
        errno => refused("delete all of", path, errno),
    };
    error.message += ". Nothing was deleted";
    error
}

enum Halt {
    Stop(Stop),
    Kernel(Errno),
}

impl From<Errno> for Halt {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno)
    }
}

/// The visitor that adds the contents of a tree to the undo record.
struct TreeCollector<'a> {
    channel: &'a Channel,
    view: &'a View,
    top: &'a EntryLocation,
    kept: &'a mut UndoRecord,
    print: Fingerprint,
    entries: u64,
    /// Tells whether an entry was changed from outside the transaction.
    outside: &'a dyn Fn(&Path, &EntryMetadata) -> bool,
    is_changed: bool,
    files: Option<Vec<LostEntry>>,
}

impl TreeCollector<'_> {
    fn spot(&self, met: &VisitedEntry<'_>) -> EntryLocation {
        let mut way = self.top.way.clone();
        if !way.is_empty() && !met.above.is_empty() {
            way.push(b'/');
        }
        way.extend_from_slice(met.above);
        EntryLocation { base: Rc::clone(&self.top.base), way, name: met.name.to_vec() }
    }
}

impl TreeVisitor for TreeCollector<'_> {
    type Stop = Halt;

    fn entry(&mut self, met: &VisitedEntry<'_>) -> Result<(), Halt> {
        self.entries += 1;
        if self.entries.is_multiple_of(BETWEEN_LOOKS) {
            go_on(self.channel).map_err(Halt::Stop)?;
        }
        self.print.take(met);
        let spot = self.spot(met);
        if met.seen.kind() != FileType::Directory {
            self.files = self.files.take().filter(|files| files.len() < MOST_FILES);
            self.files.iter_mut().for_each(|files| files.push(LostEntry::new(&spot, met.seen)));
        }
        let path = spot.path();
        self.is_changed |= (self.outside)(&path, met.seen);
        if !self.kept.wants() && self.view.names.is_empty() {
            return Ok(());
        }
        if path.0.len() > LONGEST_PATH {
            return Err(Errno::TOOBIG.into());
        }
        let refused = self.view.refuse(&path, kind_of(met.seen.kind()));
        refused.map_err(|error| Halt::Stop(error.into()))?;
        if !self.kept.wants() {
            return Ok(());
        }
        let link = match met.seen.kind() {
            FileType::Symlink => Some(link_target(met.dir, met.name)?),
            FileType::RegularFile
            | FileType::Directory
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => None,
        };
        self.kept.spot(&spot, met.seen, link).map_err(|error| Halt::Stop(error.into()))
    }
}
