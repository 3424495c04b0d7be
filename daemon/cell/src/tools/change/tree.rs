//! Trees: walked without following a link or leaving the mount, with a few descriptors however
//! deep they are; known again; removed from below. Room: the cell.

use super::{act::set_mode, names::is_ours, seen::Seen, spot::look};
use crate::tools::open_with;
use rustix::{
    fs::{Access, AtFlags, FileType, OFlags, RawDir, ResolveFlags, StatxAttributes, StatxFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The deepest tree, which bounds memory.
const DEEPEST: usize = 65_536;

/// The most bytes of names that wait for their turn.
const MOST_WAITING: usize = 32 * 1024 * 1024;

/// The most entries, so that somebody who keeps making them does not keep this busy for ever.
const MOST_ENTRIES: u64 = 10_000_000;

/// How often a directory may turn out to have been filled again.
const MOST_REFILLS: u32 = 1000;

/// How many names are looked at to see whether they are all our own.
const MOST_ASIDE: usize = 1_000_000;

const BUFFER: usize = 32 * 1024;

/// A directory on the way from the top to where the work is.
struct Level {
    name: Vec<u8>,
    seen: Seen,
    /// What is in it and was not visited yet, in reverse order.
    waiting: Vec<Vec<u8>>,
}

/// An entry that a walk meets.
#[derive(Debug)]
pub(super) struct Met<'a> {
    /// The names from the top to its directory; empty for the top itself.
    pub(super) above: &'a [u8],
    /// How many those are.
    pub(super) depth: usize,
    /// Its directory.
    pub(super) dir: BorrowedFd<'a>,
    /// Its name.
    pub(super) name: &'a [u8],
    /// What it is.
    pub(super) seen: &'a Seen,
}

/// What a walk meets: everything below a directory before the directory itself.
pub(super) trait Visitor {
    /// Why it stops early.
    type Stop: From<Errno>;

    /// An entry; a directory when all that is in it was visited.
    fn entry(&mut self, met: &Met<'_>) -> Result<(), Self::Stop>;
}

/// Walks a tree, the top included.
pub(super) fn walk<V: Visitor>(
    above: impl AsFd,
    name: &[u8],
    visitor: &mut V,
) -> Result<(), V::Stop> {
    let (mut here, seen) = enter(&above, name)?;
    let mut way = name.to_vec();
    let mut bytes = 0;
    let waiting = names(&here, &mut bytes)?;
    let mut levels = vec![Level { name: name.to_vec(), seen, waiting }];
    let mut count = 0_u64;
    while let Some(level) = levels.last_mut() {
        count += 1;
        if count > MOST_ENTRIES {
            return Err(Errno::TOOBIG.into());
        }
        let Some(name) = level.waiting.pop() else {
            let Some(level) = levels.pop() else { break };
            way.truncate(way.len().saturating_sub(level.name.len() + 1));
            match levels.last() {
                Some(upper) => {
                    let (up, seen) = match enter(&here, b"..") {
                        // From a directory that may not be searched nothing leads up.
                        Err(Errno::ACCESS) => enter(&above, &way)?,
                        up => up?,
                    };
                    if seen.id() != upper.seen.id() {
                        return Err(Errno::STALE.into());
                    }
                    here = up;
                    visitor.entry(&Met {
                        above: &way,
                        depth: levels.len(),
                        dir: here.as_fd(),
                        name: &level.name,
                        seen: &level.seen,
                    })?;
                }
                None => visitor.entry(&Met {
                    above: b"",
                    depth: 0,
                    dir: above.as_fd(),
                    name: &level.name,
                    seen: &level.seen,
                })?,
            }
            continue;
        };
        bytes -= name.len();
        let seen = on_this_mount(&here, &name)?;
        if seen.kind() != FileType::Directory {
            visitor.entry(&Met {
                above: &way,
                depth: levels.len(),
                dir: here.as_fd(),
                name: &name,
                seen: &seen,
            })?;
            continue;
        }
        if levels.len() == DEEPEST {
            return Err(Errno::TOOBIG.into());
        }
        let (below, seen) = enter(&here, &name)?;
        here = below;
        let waiting = names(&here, &mut bytes)?;
        way.push(b'/');
        way.extend_from_slice(&name);
        levels.push(Level { name, seen, waiting });
    }
    Ok(())
}

/// What is there, if it is not a mount of its own.
fn on_this_mount(dir: &OwnedFd, name: &[u8]) -> Result<Seen, Errno> {
    let stat = rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?;
    if stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(Errno::XDEV);
    }
    Ok(Seen::from(&stat))
}

/// The names in a directory, the last first; what has any can be removed only by who may write it.
fn names(dir: &OwnedFd, held: &mut usize) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        *held += name.len();
        if *held > MOST_WAITING {
            return Err(Errno::TOOBIG);
        }
        names.push(name.to_vec());
    }
    if !names.is_empty() {
        let access = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(dir, ".", access, AtFlags::EACCESS)?;
    }
    names.sort_unstable_by(|one, other| other.cmp(one));
    Ok(names)
}

/// Opens a directory of a directory, or the one above: never through a link, never to another
/// mount.
fn enter(from: impl AsFd, name: &[u8]) -> Result<(OwnedFd, Seen), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let dir = open_with(from, name, flags, ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS)?;
    let seen = Seen::from(&rustix::fs::fstat(&dir)?);
    Ok((dir, seen))
}

/// A digest over a tree: which entries it has, and what version of each.
#[derive(Debug, Default)]
pub(super) struct Fingerprint {
    hash: Sha256,
}

impl Fingerprint {
    /// Takes an entry; not the top, which is renamed. The order and the depths say which tree it
    /// is.
    pub(super) fn take(&mut self, met: &Met<'_>) {
        if met.depth == 0 {
            return;
        }
        self.hash.update((met.depth as u64).to_le_bytes());
        self.hash.update((met.name.len() as u64).to_le_bytes());
        self.hash.update(met.name);
        self.hash.update(met.seen.bytes());
    }

    /// The digest.
    pub(super) fn done(self) -> [u8; 32] {
        self.hash.finalize().into()
    }
}

struct Prints(Fingerprint);

impl Visitor for Prints {
    type Stop = Errno;

    fn entry(&mut self, met: &Met<'_>) -> Result<(), Errno> {
        self.0.take(met);
        Ok(())
    }
}

/// The fingerprint of a tree; none if it changes while it is taken.
pub(super) fn fingerprint(above: impl AsFd, name: &[u8]) -> Result<Option<[u8; 32]>, Errno> {
    let mut prints = Prints(Fingerprint::default());
    match walk(above, name, &mut prints) {
        Ok(()) => Ok(Some(prints.0.done())),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether nothing is in a directory but what other steps have put aside.
pub(super) fn is_empty(above: impl AsFd, name: &[u8]) -> Result<bool, Errno> {
    let (dir, _) = enter(above, name)?;
    Ok(entries(&dir, MOST_ASIDE)?.iter().all(|name| is_ours(name)))
}

/// Some names in a directory, `most` of them.
pub(super) fn entries(dir: &OwnedFd, most: usize) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        names.push(name.to_vec());
        if names.len() == most {
            break;
        }
    }
    Ok(names)
}

/// Lists a directory of a directory.
pub(super) fn list(above: impl AsFd, name: &[u8], most: usize) -> Result<Vec<Vec<u8>>, Errno> {
    let (dir, _) = enter(above, name)?;
    entries(&dir, most)
}

struct Removal;

impl Visitor for Removal {
    type Stop = Errno;

    fn entry(&mut self, met: &Met<'_>) -> Result<(), Errno> {
        let flags = match met.seen.kind() {
            FileType::Directory => AtFlags::REMOVEDIR,
            FileType::RegularFile
            | FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => AtFlags::empty(),
        };
        match rustix::fs::unlinkat(met.dir, met.name, flags) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        }
    }
}

/// Makes all directories of a tree that is on its way out such that they can be emptied.
fn open_up(above: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    const USABLE: u32 = 0o700;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    let mut waiting = vec![name.to_vec()];
    while let Some(way) = waiting.pop() {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let handle = open_with(&above, way.as_slice(), flags, resolve)?;
        let seen = Seen::from(&rustix::fs::fstat(&handle)?);
        if seen.mode() & USABLE != USABLE {
            set_mode(&handle, seen.mode() | USABLE)?;
        }
        let (dir, _) = enter(&above, &way)?;
        for name in entries(&dir, MOST_ASIDE)? {
            if on_this_mount(&dir, &name)?.kind() == FileType::Directory {
                waiting.push([&way, b"/".as_slice(), &name].concat());
            }
        }
    }
    Ok(())
}

/// Removes a tree, whatever the modes of its directories are.
pub(crate) fn remove(above: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    let mut opened = false;
    for _again in 0..MOST_REFILLS {
        match walk(&above, name, &mut Removal) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(Errno::ACCESS) if !opened => {
                open_up(&above, name)?;
                opened = true;
            }
            Err(Errno::NOENT) if look(&above, name)?.is_none() => return Ok(()),
            Err(Errno::NOENT) => {}
            done => return done,
        }
    }
    Err(Errno::NOTEMPTY)
}
