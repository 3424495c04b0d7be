//! Directory trees: walked and deleted without following a link or leaving the
//! mount. A few descriptors are enough, however deep the tree is. Runs in the cell.

use crate::{EntryMetadata, look, open_with};
use rustix::{
    fs::{
        Access, AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, StatxAttributes,
        StatxFlags,
    },
    io::Errno,
};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

/// The maximum depth of a tree, which bounds memory.
const DEEPEST: usize = 65_536;

/// The maximum number of bytes of names that wait to be visited.
const MOST_WAITING: usize = 32 * 1024 * 1024;

/// The maximum number of entries, so that somebody who keeps making them can not keep this busy
/// forever.
const MOST_ENTRIES: u64 = 10_000_000;

/// The number of times that a directory may turn out to have been filled again.
const MOST_REFILLS: u32 = 1000;

/// The number of names that are read to see whether all of them are temporary ones.
const MOST_ASIDE: usize = 1_000_000;

const BUFFER: usize = 32 * 1024;

/// A directory on the way from the top to the present one.
struct WalkLevel {
    name: Vec<u8>,
    seen: EntryMetadata,
    /// The names in it that were not visited yet, in reverse order.
    waiting: Vec<Vec<u8>>,
}

/// An entry that a walk visits.
#[derive(Debug)]
pub struct VisitedEntry<'a> {
    /// The names from the top to its directory; empty for the top itself.
    pub above: &'a [u8],
    /// The number of those names.
    pub depth: usize,
    /// Its directory.
    pub dir: BorrowedFd<'a>,
    /// Its name.
    pub name: &'a [u8],
    /// Its metadata.
    pub seen: &'a EntryMetadata,
}

/// The callback of a walk. Everything in a directory is visited before the directory itself.
pub trait TreeVisitor {
    /// The reason for stopping early.
    type Stop: From<Errno>;

    /// Visits an entry. A directory comes after everything in it.
    ///
    /// # Errors
    /// The reason for stopping early.
    fn entry(&mut self, met: &VisitedEntry<'_>) -> Result<(), Self::Stop>;
}

/// Walks a tree, including the top.
///
/// # Errors
/// The kernel's error, or whatever the visitor stopped with.
pub fn walk<V: TreeVisitor>(above: impl AsFd, name: &[u8], visitor: &mut V) -> Result<(), V::Stop> {
    let (mut here, seen) = enter(&above, name)?;
    let mut way = name.to_vec();
    let mut bytes = 0;
    let waiting = names(&here, &mut bytes)?;
    let mut levels = vec![WalkLevel { name: name.to_vec(), seen, waiting }];
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
                        // `..` can not be opened in a directory without search permission.
                        Err(Errno::ACCESS) => enter(&above, &way)?,
                        up => up?,
                    };
                    if seen.id() != upper.seen.id() {
                        return Err(Errno::STALE.into());
                    }
                    here = up;
                    visitor.entry(&VisitedEntry {
                        above: &way,
                        depth: levels.len(),
                        dir: here.as_fd(),
                        name: &level.name,
                        seen: &level.seen,
                    })?;
                }
                None => visitor.entry(&VisitedEntry {
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
            visitor.entry(&VisitedEntry {
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
        levels.push(WalkLevel { name, seen, waiting });
    }
    Ok(())
}

/// Returns the metadata of an entry; `EXDEV` if it is a mount point.
fn on_this_mount(dir: &OwnedFd, name: &[u8]) -> Result<EntryMetadata, Errno> {
    let stat = rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?;
    if stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(Errno::XDEV);
    }
    Ok(EntryMetadata::from(&stat))
}

/// Returns the names in a directory, last one first. A directory that is not empty must be
/// writable, because otherwise it could not be emptied.
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

/// Opens a subdirectory or the parent directory, but never through a link or on another mount.
///
/// # Errors
/// The kernel's error.
pub fn enter(from: impl AsFd, name: &[u8]) -> Result<(OwnedFd, EntryMetadata), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let dir = open_with(from, name, flags, ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS)?;
    let seen = EntryMetadata::from(&rustix::fs::fstat(&dir)?);
    Ok((dir, seen))
}

/// Returns at most `most` of the names in a directory.
///
/// # Errors
/// The kernel's error.
pub fn entries(dir: &OwnedFd, most: usize) -> Result<Vec<Vec<u8>>, Errno> {
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

struct RemovalVisitor;

impl TreeVisitor for RemovalVisitor {
    type Stop = Errno;

    fn entry(&mut self, met: &VisitedEntry<'_>) -> Result<(), Errno> {
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

/// Changes the mode of an open file, which may be opened with `O_PATH` and so not allow `fchmod`.
///
/// # Errors
/// The kernel's error.
pub fn set_mode(handle: &impl AsFd, mode: u32) -> Result<(), Errno> {
    const SHARED_DIRECTORY: u32 = 0o042_000;
    let bit = rustix::fs::fstat(handle)?.st_mode & SHARED_DIRECTORY == SHARED_DIRECTORY;
    let set = |mode| chmod(handle, mode);
    match set(if bit { mode | 0o2000 } else { mode }) {
        // The filter of some processes refuses the bit.
        Err(Errno::PERM) if bit => set(mode),
        done => done,
    }
}

fn chmod(handle: &impl AsFd, mode: u32) -> Result<(), Errno> {
    let own = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
    rustix::fs::chmodat(CWD, own, Mode::from_raw_mode(mode), AtFlags::empty())
}

/// Changes the modes of all directories of a tree that is being deleted, so that they can be
/// emptied.
fn open_up(above: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    const USABLE: u32 = 0o700;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    let mut waiting = vec![name.to_vec()];
    while let Some(way) = waiting.pop() {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let handle = open_with(&above, way.as_slice(), flags, resolve)?;
        let seen = EntryMetadata::from(&rustix::fs::fstat(&handle)?);
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

/// Deletes a tree, whatever the modes of its directories are.
///
/// # Errors
/// The kernel's error.
pub fn remove(above: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    let mut opened = false;
    for _again in 0..MOST_REFILLS {
        match walk(&above, name, &mut RemovalVisitor) {
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
