//! `delete_file`: an entry, or a tree with all that is in it. Room: the cell.

use super::{
    act::Below,
    keep::{Kept, changed},
    seen::Seen,
    spot::{Spot, link_target},
    stage::{Node, Stage},
    target::{self, Slash, Use, may_change, open_old, read_all, trimmed},
    tree::{Fingerprint, Met, Visitor, walk},
};
use crate::{
    channel::Channel,
    hidden::kind_of,
    tools::{LONGEST_PATH, Reach, Stop, failure, go_on, invalid, kind_name, refused, shown},
    view::View,
};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{EffectKind, Print, Version},
};
use rustix::{fs::FileType, io::Errno};
use std::{os::fd::AsFd as _, rc::Rc};

/// How many entries of a tree are looked at between two looks at the channel.
const BETWEEN_LOOKS: u64 = 64;

/// The most files of a tree that are told one by one.
const MOST_FILES: usize = 4096;

/// Plans to remove what the path names; a link itself, not its target.
pub(super) fn delete(
    stage: &mut Stage<'_>,
    channel: &Channel,
    path: &Path,
    reach: Reach,
) -> Result<(), Stop> {
    let (trimmed, slash) = trimmed(path)?;
    if stage.workspace.starts_with(trimmed.as_path()) {
        let why = "it is the workspace, or holds it, and that is never deleted or moved";
        return Err(invalid(path, why).into());
    }
    let (spot, node) = target::entry(stage, &trimmed)?;
    let seen = match node {
        Node::There(seen) => seen,
        Node::Absent | Node::Planned(_) => return Err(refused("delete", path, Errno::NOENT).into()),
    };
    if seen.kind() == FileType::Directory {
        stage.refuse_workspace(path, &seen)?;
        if reach == Reach::One {
            let message =
                format!("{} is a directory: set recursive to delete it whole", shown(path));
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
        match open_old(path, &spot, &seen, Use::Content) {
            Ok((file, _)) => {
                let old = read_all(path, &file, seen.size)?;
                stage.compare(Some((&spot.path(), &old)), None);
            }
            Err(_) => stage.diff_complete = false,
        }
    } else {
        stage.diff_complete &= stage.change.diff == 0;
    }
    stage.remove(&spot, node, Below::Nothing)?;
    gone(stage, &spot, &seen, 1);
    Ok(())
}

pub(super) fn gone(stage: &mut Stage<'_>, spot: &Spot, seen: &Seen, entries: u64) {
    let kind = EffectKind::Deleted { entries };
    stage.effect(spot.path(), kind, (seen.file_size(), 0), Print::Absent, Some(seen));
}

/// Plans to remove a directory with all that is in it.
pub(super) fn tree(
    stage: &mut Stage<'_>,
    channel: &Channel,
    spot: &Spot,
    node: Node,
) -> Result<(), Stop> {
    let path = spot.path();
    let Node::There(seen) = node else {
        return Err(refused("delete", &path, Errno::NOENT).into());
    };
    may_change(&path, "delete", spot)?;
    let gathered = gather(stage, channel, spot, |_, _| false)?;
    stage.remove(spot, node, Below::Tree(gathered.print))?;
    gone(stage, spot, &seen, gathered.entries);
    stage.below(gathered.files);
    Ok(())
}

/// What is known of a directory with all that is in it.
pub(super) struct Gathered {
    /// To know it again.
    pub(super) print: [u8; 32],
    /// How many entries.
    pub(super) entries: u64,
    /// Whether somebody else has changed an entry.
    pub(super) is_changed: bool,
    /// Every regular file, if they are not too many.
    pub(super) files: Option<Vec<Version>>,
}

/// Keeps a directory with all that is in it.
pub(super) fn gather(
    stage: &mut Stage<'_>,
    channel: &Channel,
    spot: &Spot,
    is_changed: impl Fn(&Path, &Seen) -> bool,
) -> Result<Gathered, Stop> {
    let path = spot.path();
    let dir = spot.dir().map_err(|e| refused("delete", &path, e))?;
    let mut gathering = Gathering {
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
    let Gathering { print, entries, is_changed, files, .. } = gathering;
    stage.diff_complete &= stage.change.diff == 0;
    Ok(Gathered { print: print.done(), entries, is_changed, files })
}

fn whole(path: &Path, errno: Errno) -> FileError {
    let mut error = match errno {
        Errno::TOOBIG => {
            let message = format!("{} has too many entries, or is too deep", shown(path));
            failure(FileErrorKind::TooLarge, Some(errno), message)
        }
        Errno::XDEV => {
            let message = format!("a part of {} is a mount, which is not deleted", shown(path));
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

/// Keeps what is in a tree.
struct Gathering<'a> {
    channel: &'a Channel,
    view: &'a View,
    top: &'a Spot,
    kept: &'a mut Kept,
    print: Fingerprint,
    entries: u64,
    /// Whether somebody else has changed something.
    outside: &'a dyn Fn(&Path, &Seen) -> bool,
    is_changed: bool,
    files: Option<Vec<Version>>,
}

impl Gathering<'_> {
    fn spot(&self, met: &Met<'_>) -> Spot {
        let mut way = self.top.way.clone();
        if !way.is_empty() && !met.above.is_empty() {
            way.push(b'/');
        }
        way.extend_from_slice(met.above);
        Spot { base: Rc::clone(&self.top.base), way, name: met.name.to_vec() }
    }
}

impl Visitor for Gathering<'_> {
    type Stop = Halt;

    fn entry(&mut self, met: &Met<'_>) -> Result<(), Halt> {
        self.entries += 1;
        if self.entries.is_multiple_of(BETWEEN_LOOKS) {
            go_on(self.channel).map_err(Halt::Stop)?;
        }
        self.print.take(met);
        if met.seen.kind() == FileType::RegularFile {
            self.files = self.files.take().filter(|files| files.len() < MOST_FILES);
            self.files.iter_mut().for_each(|files| files.push(met.seen.version()));
        }
        let spot = self.spot(met);
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
