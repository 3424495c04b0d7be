//! Finds the differences between the two layers from the contents of the upper one, so that what
//! the program did not touch is not read. Runs in the cell.

use super::{
    super::{
        spot::{Dir, EntryLocation},
        tree,
    },
    earlier::{UnchangedDirectory, changed_outside, has_committed},
    upper::UpperLayer,
};
use crate::tools::{LONGEST_PATH, Stop, failure, go_on, open_with, refused, shown};
use palisade_channel::Channel;
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
};
use palisade_workspace::{EntryMetadata, Layers, is_copy, is_opaque, look};
use rustix::{
    fs::{AtFlags, FileType, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    collections::HashSet,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
};

/// The maximum number of entries in the upper layer.
const MOST_ENTRIES: usize = 2_000_000;

/// The number of entries that are visited between two checks of the channel.
const BETWEEN_LOOKS: usize = 256;

/// Returns `true` if an entry of the upper layer counts as missing. It does if it is a whiteout,
/// which is a character device with number 0, or a socket, which nobody listens on any more.
pub(super) fn is_nothing(stat: &rustix::fs::Stat) -> bool {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => stat.st_rdev == 0,
        FileType::Socket => true,
        FileType::RegularFile
        | FileType::Directory
        | FileType::Symlink
        | FileType::Fifo
        | FileType::BlockDevice
        | FileType::Unknown => false,
    }
}

/// One change that the program made.
#[derive(Debug)]
pub(super) struct LayerChange {
    /// The place in the workspace.
    pub(super) spot: EntryLocation,
    /// The entry in the workspace.
    pub(super) lower: Option<EntryMetadata>,
    /// The entry that the program left there; `None` if it deleted it.
    pub(super) upper: Option<EntryMetadata>,
}

/// The result of a search.
pub(super) struct LayerDiff {
    /// All changes that the program made, each directory before its contents.
    pub(super) items: Vec<LayerChange>,
    /// The changed entries that were deleted from outside meanwhile.
    pub(super) vanished: Vec<VanishedEntry>,
    /// The directories with changes that were not changed from outside.
    pub(super) unchanged: Vec<UnchangedDirectory>,
}

/// An entry that the program left at a path that no longer exists in the workspace.
pub(super) type VanishedEntry = (Path, EntryMetadata);

/// The visibility of the lower layer: `Yes` if it shows through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LowerVisibility {
    Yes,
    No,
}

/// A directory that exists in both layers, with its path relative to the workspace.
struct SharedDirectory {
    way: Vec<u8>,
    shows: LowerVisibility,
}

/// A walk through the directories that exist in both layers.
pub(super) struct LayerSearch<'a> {
    channel: &'a Channel,
    layers: &'a Layers,
    upper: &'a UpperLayer,
    base: &'a Rc<Dir>,
    items: Vec<LayerChange>,
    /// The changed entries that were deleted from outside meanwhile.
    vanished: Vec<VanishedEntry>,
    unchanged: Vec<UnchangedDirectory>,
    waiting: Vec<SharedDirectory>,
    count: usize,
}

impl<'a> LayerSearch<'a> {
    pub(super) fn new(
        channel: &'a Channel,
        layers: &'a Layers,
        upper: &'a UpperLayer,
        base: &'a Rc<Dir>,
    ) -> Self {
        let waiting = vec![SharedDirectory { way: Vec::new(), shows: LowerVisibility::Yes }];
        let (items, vanished, unchanged) = (Vec::new(), Vec::new(), Vec::new());
        Self { channel, layers, upper, base, items, vanished, unchanged, waiting, count: 0 }
    }

    /// Finds all changes that the program made.
    pub(super) fn all(mut self) -> Result<LayerDiff, Stop> {
        while let Some(both) = self.waiting.pop() {
            self.directory(&both)?;
        }
        let Self { items, vanished, unchanged, .. } = self;
        Ok(LayerDiff { items, vanished, unchanged })
    }

    fn spot(&self, way: &[u8], name: &[u8]) -> EntryLocation {
        EntryLocation { base: Rc::clone(self.base), way: way.to_vec(), name: name.to_vec() }
    }

    fn directory(&mut self, both: &SharedDirectory) -> Result<(), Stop> {
        let here = match both.way.is_empty() {
            true => Path(self.base.real.clone()),
            false => Path([&self.base.real, b"/".as_slice(), &both.way].concat()),
        };
        let fail = |errno| refused("look at", &here, errno);
        let upper = self.upper.directory(&both.way).map_err(fail)?;
        let lower = directory_of(&self.layers.lower, &both.way).map_err(|e| vanished(&here, e))?;
        let mut shows = both.shows;
        if is_opaque(&upper).map_err(fail)? && !both.way.is_empty() {
            shows = LowerVisibility::No;
        }
        let parent = EntryMetadata::from(&rustix::fs::fstat(&lower).map_err(fail)?);
        let is_changed = changed_outside(self.layers, &here, &parent);
        if !is_changed && self.layers.committed.is_some() {
            let (path, way, whole) = (here.clone(), both.way.clone(), shows == LowerVisibility::No);
            self.unchanged.push(UnchangedDirectory { path, way, whole });
        }
        let mut names = tree::entries(&upper, MOST_ENTRIES).map_err(fail)?;
        names.sort_unstable();
        if shows == LowerVisibility::No {
            self.hidden(both, (&here, &lower), &names).map_err(fail)?;
        }
        let mut below = Vec::new();
        for name in &names {
            self.tick()?;
            if let Some(deeper) = self.entry(both, (&upper, &lower), is_changed, name)? {
                below.push(SharedDirectory { way: deeper, shows });
            }
        }
        self.waiting.extend(below.into_iter().rev());
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Stop> {
        self.count += 1;
        if self.count > MOST_ENTRIES {
            let message =
                format!("the program changed more than {MOST_ENTRIES} entries: nothing was done");
            return Err(failure(FileErrorKind::TooLarge, None, message).into());
        }
        if self.count.is_multiple_of(BETWEEN_LOOKS) {
            go_on(self.channel)?;
        }
        Ok(())
    }

    /// Adds the entries that are missing in a directory that was deleted and made again.
    ///
    /// If the directory was itself committed before, only entries that were committed count. All
    /// others came later, and the program never saw them.
    fn hidden(
        &mut self,
        both: &SharedDirectory,
        (here, lower): (&Path, &OwnedFd),
        names: &[Vec<u8>],
    ) -> Result<(), Errno> {
        let is_committed = has_committed(self.layers, here);
        let there: HashSet<&Vec<u8>> = names.iter().collect();
        let mut gone = tree::entries(lower, MOST_ENTRIES)?;
        gone.retain(|name| !there.contains(name));
        gone.sort_unstable();
        for name in gone {
            if let Some(seen) = look(lower, &name)? {
                let spot = self.spot(&both.way, &name);
                if is_committed && !has_committed(self.layers, &spot.path()) {
                    continue;
                }
                self.items.push(LayerChange { spot, lower: Some(seen), upper: None });
            }
        }
        Ok(())
    }

    /// Examines an entry of the upper layer. Returns the path of a directory that exists in both
    /// layers.
    fn entry(
        &mut self,
        both: &SharedDirectory,
        (upper, lower): (&OwnedFd, &OwnedFd),
        is_changed: bool,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>, Stop> {
        let spot = self.spot(&both.way, name);
        let path = spot.path();
        if path.0.len() > LONGEST_PATH {
            return Err(failure(FileErrorKind::TooLarge, None, deep(&path)).into());
        }
        let stat = rustix::fs::statat(upper, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| refused("look at", &path, e))?;
        let there = look(lower, name).map_err(|e| refused("look at", &path, e))?;
        if is_nothing(&stat) {
            if there.is_some() {
                self.items.push(LayerChange { spot, lower: there, upper: None });
            }
            return Ok(None);
        }
        let seen = self.upper.seen(upper, name, &path, &stat);
        let seen = seen.map_err(|e| refused("read", &path, e))?;
        match there {
            Some(old) if both_directories(&seen, &old) => {
                let way = if both.way.is_empty() {
                    name.to_vec()
                } else {
                    [both.way.as_slice(), b"/", name].concat()
                };
                self.items.push(LayerChange { spot, lower: there, upper: Some(seen) });
                return Ok(Some(way));
            }
            Some(_) => {}
            None => {
                if self.has_vanished(upper, is_changed, name, (&seen, &path))? {
                    self.vanished.push((path, seen));
                }
            }
        }
        self.items.push(LayerChange { spot, lower: there, upper: Some(seen) });
        Ok(None)
    }

    /// Returns `true` if the program changed an entry that was deleted from outside meanwhile.
    fn has_vanished(
        &self,
        upper: &OwnedFd,
        is_changed: bool,
        name: &[u8],
        (seen, path): (&EntryMetadata, &Path),
    ) -> Result<bool, FileError> {
        if has_committed(self.layers, path) {
            return Ok(true);
        }
        let copied = match seen.kind() {
            // Only a file can have been moved here. A directory that was copied up was here before.
            FileType::Directory => true,
            FileType::RegularFile => is_changed,
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => false,
        };
        if !copied {
            return Ok(false);
        }
        let fail = |errno| refused("look at", path, errno);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let open = open_with(upper, name, flags, ResolveFlags::BENEATH).map_err(fail)?;
        is_copy(&open).map_err(fail)
    }
}

fn both_directories(one: &EntryMetadata, other: &EntryMetadata) -> bool {
    (one.kind(), other.kind()) == (FileType::Directory, FileType::Directory)
}

/// Opens a directory of a layer by its relative path, on which no link may be.
pub(super) fn directory_of(layer: impl AsFd, way: &[u8]) -> Result<OwnedFd, Errno> {
    let way = if way.is_empty() { b".".as_slice() } else { way };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
    open_with(layer, way, flags, resolve.union(ResolveFlags::NO_XDEV))
}

/// Returns the error for a directory that no longer exists.
fn vanished(path: &Path, errno: Errno) -> FileError {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => {
            let message = format!(
                "{} was removed by somebody else while the program ran, and the program changed it \
                 or what is in it: nothing was done",
                shown(path)
            );
            failure(FileErrorKind::Conflict, Some(Errno::STALE), message)
        }
        errno => refused("look at", path, errno),
    }
}

pub(super) fn deep(path: &Path) -> String {
    let text: String = shown(path).chars().take(200).collect();
    format!("{text}… has a path that is longer than {LONGEST_PATH} bytes: nothing was done")
}

/// Returns `true` if an entry is not a file, directory or link. What it stands for is outside the
/// file system, so a commit does not create it.
pub(super) const fn is_special(kind: FileType) -> bool {
    match kind {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => false,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => true,
    }
}
