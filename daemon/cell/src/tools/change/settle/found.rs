//! Finds what is different between the two layers by what is in the upper one: what the program
//! did not touch is not looked at. Room: the cell.

use super::{
    super::{
        seen::Seen,
        spot::{Dir, Spot, look},
        tree,
    },
    earlier::{Unchanged, changed_outside, has_committed},
    upper::UpperLayer,
};
use crate::{
    channel::Channel,
    overlay::{Layers, is_copy, is_opaque},
    tools::{LONGEST_PATH, Stop, failure, go_on, open_with, refused, shown},
};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
};
use rustix::{
    fs::{AtFlags, FileType, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    collections::HashSet,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
};

/// The most entries of the upper layer.
const MOST_ENTRIES: usize = 2_000_000;

/// How many entries are looked at between two looks at the channel.
const BETWEEN_LOOKS: usize = 256;

/// Whether an entry of the upper layer stands for nothing: a mark, which is a device with no
/// number, or a socket, at which nobody listens any more.
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

/// Something that the program did.
#[derive(Debug)]
pub(super) struct Item {
    /// Where, in the workspace.
    pub(super) spot: Spot,
    /// What is there in the workspace.
    pub(super) lower: Option<Seen>,
    /// What the program left there; none if nothing.
    pub(super) upper: Option<Seen>,
}

/// What a search found.
pub(super) struct Found {
    /// All that the program did, what is nearer to the top before what is in it.
    pub(super) items: Vec<Item>,
    /// What of it somebody else has removed meanwhile.
    pub(super) vanished: Vec<Vanished>,
    /// The directories in which it did it that nobody else has changed.
    pub(super) unchanged: Vec<Unchanged>,
}

/// What the program left at a path at which nothing is any more.
pub(super) type Vanished = (Path, Seen);

/// Whether what the lower layer has shows through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    Yes,
    No,
}

/// A directory that both layers have, from the top.
struct Both {
    way: Vec<u8>,
    shows: Shows,
}

/// A walk through the directories that both layers have.
pub(super) struct Search<'a> {
    channel: &'a Channel,
    layers: &'a Layers,
    upper: &'a UpperLayer,
    base: &'a Rc<Dir>,
    items: Vec<Item>,
    /// What the program changed and somebody else has removed meanwhile.
    vanished: Vec<Vanished>,
    unchanged: Vec<Unchanged>,
    waiting: Vec<Both>,
    count: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        channel: &'a Channel,
        layers: &'a Layers,
        upper: &'a UpperLayer,
        base: &'a Rc<Dir>,
    ) -> Self {
        let waiting = vec![Both { way: Vec::new(), shows: Shows::Yes }];
        let (items, vanished, unchanged) = (Vec::new(), Vec::new(), Vec::new());
        Self { channel, layers, upper, base, items, vanished, unchanged, waiting, count: 0 }
    }

    /// All that the program did.
    pub(super) fn all(mut self) -> Result<Found, Stop> {
        while let Some(both) = self.waiting.pop() {
            self.directory(&both)?;
        }
        let Self { items, vanished, unchanged, .. } = self;
        Ok(Found { items, vanished, unchanged })
    }

    fn spot(&self, way: &[u8], name: &[u8]) -> Spot {
        Spot { base: Rc::clone(self.base), way: way.to_vec(), name: name.to_vec() }
    }

    fn directory(&mut self, both: &Both) -> Result<(), Stop> {
        let here = match both.way.is_empty() {
            true => Path(self.base.real.clone()),
            false => Path([&self.base.real, b"/".as_slice(), &both.way].concat()),
        };
        let fail = |errno| refused("look at", &here, errno);
        let upper = self.upper.directory(&both.way).map_err(fail)?;
        let lower = directory_of(&self.layers.lower, &both.way).map_err(|e| vanished(&here, e))?;
        let mut shows = both.shows;
        if is_opaque(&upper).map_err(fail)? && !both.way.is_empty() {
            shows = Shows::No;
        }
        let parent = Seen::from(&rustix::fs::fstat(&lower).map_err(fail)?);
        let is_changed = changed_outside(self.layers, &here, &parent);
        if !is_changed && self.layers.committed.is_some() {
            let (path, way, whole) = (here.clone(), both.way.clone(), shows == Shows::No);
            self.unchanged.push(Unchanged { path, way, whole });
        }
        let mut names = tree::entries(&upper, MOST_ENTRIES).map_err(fail)?;
        names.sort_unstable();
        if shows == Shows::No {
            self.hidden(both, (&here, &lower), &names).map_err(fail)?;
        }
        let mut below = Vec::new();
        for name in &names {
            self.tick()?;
            if let Some(deeper) = self.entry(both, (&upper, &lower), is_changed, name)? {
                below.push(Both { way: deeper, shows });
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

    /// What a directory that was removed and made again does not have any more.
    ///
    /// Of one that was committed itself, only what was: all else came later, and the program never
    /// saw it.
    fn hidden(
        &mut self,
        both: &Both,
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
                self.items.push(Item { spot, lower: Some(seen), upper: None });
            }
        }
        Ok(())
    }

    /// Looks at an entry of the upper layer; gives the way to a directory that both have.
    fn entry(
        &mut self,
        both: &Both,
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
                self.items.push(Item { spot, lower: there, upper: None });
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
                self.items.push(Item { spot, lower: there, upper: Some(seen) });
                return Ok(Some(way));
            }
            Some(_) => {}
            None => {
                if self.has_vanished(upper, is_changed, name, (&seen, &path))? {
                    self.vanished.push((path, seen));
                }
            }
        }
        self.items.push(Item { spot, lower: there, upper: Some(seen) });
        Ok(None)
    }

    /// Whether the program changed it and somebody else has removed it meanwhile.
    fn has_vanished(
        &self,
        upper: &OwnedFd,
        is_changed: bool,
        name: &[u8],
        (seen, path): (&Seen, &Path),
    ) -> Result<bool, FileError> {
        if has_committed(self.layers, path) {
            return Ok(true);
        }
        let copied = match seen.kind() {
            // Only a file can have been moved here from where it was: a directory was here.
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

fn both_directories(one: &Seen, other: &Seen) -> bool {
    (one.kind(), other.kind()) == (FileType::Directory, FileType::Directory)
}

/// Opens a directory of a layer by its way from the top, without a link on it.
pub(super) fn directory_of(layer: impl AsFd, way: &[u8]) -> Result<OwnedFd, Errno> {
    let way = if way.is_empty() { b".".as_slice() } else { way };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
    open_with(layer, way, flags, resolve.union(ResolveFlags::NO_XDEV))
}

/// The error for what is not there any more.
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

/// Whether something is no file, directory or link: what it is lies outside of it, so it is not for a
/// change to make.
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
