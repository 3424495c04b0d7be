//! Walks a directory tree without following a link or leaving the mount, and measures it: its size,
//! and a digest that identifies its contents. Runs in the cell.

use super::{
    super::{spot::EntryLocation, tree},
    content,
    found::{deep, is_nothing},
    upper::UpperLayer,
};
use crate::tools::{LONGEST_PATH, failure, refused, refused_io};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::Print,
};
use palisade_workspace::EntryMetadata;
use rustix::{
    fs::{AtFlags, FileType, OFlags, ResolveFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::os::fd::{AsFd, BorrowedFd};

/// The maximum number of entries of one tree.
const MOST_ENTRIES: u64 = 2_000_000;

/// An entry of a tree.
#[derive(Debug)]
pub(in super::super) struct TreeEntry<'a> {
    /// Its path relative to the top; empty for the top itself.
    pub(in super::super) way: &'a [u8],
    /// Its directory.
    pub(in super::super) dir: BorrowedFd<'a>,
    /// Its name in that directory.
    pub(in super::super) name: &'a [u8],
    /// Its metadata.
    pub(in super::super) seen: &'a EntryMetadata,
    /// Its absolute path.
    pub(in super::super) path: &'a Path,
}

/// Visits every entry of a tree, a directory before its contents, always in the same order.
///
/// In an upper layer it makes the entries readable.
pub(in super::super) fn each<E: From<FileError>>(
    above: impl AsFd,
    name: &[u8],
    top: &Path,
    layer: Option<&UpperLayer>,
    mut meet: impl FnMut(&TreeEntry<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut waiting = vec![Vec::new()];
    let mut count = 1_u64;
    let seen =
        look_at(&above, name, top, layer)?.ok_or_else(|| refused("look at", top, Errno::NOENT))?;
    meet(&TreeEntry { way: b"", dir: above.as_fd(), name, seen: &seen, path: top })?;
    if seen.kind() != FileType::Directory {
        return Ok(());
    }
    while let Some(way) = waiting.pop() {
        let here = if way.is_empty() { name.to_vec() } else { [name, b"/", &way].concat() };
        let path = if way.is_empty() { top.clone() } else { joined(top, &way) };
        let dir = open(&above, &here).map_err(|e| refused("look at", &path, e))?;
        let mut names =
            tree::entries(&dir, usize::MAX).map_err(|e| refused("look at", &path, e))?;
        names.sort_unstable();
        let mut below = Vec::new();
        for name in &names {
            count += 1;
            let way =
                if way.is_empty() { name.clone() } else { [&way, b"/".as_slice(), name].concat() };
            let path = joined(top, &way);
            if count > MOST_ENTRIES {
                let message = format!("there are more than {MOST_ENTRIES} entries in it");
                return Err(failure(FileErrorKind::TooLarge, None, message).into());
            }
            if path.0.len() > LONGEST_PATH {
                return Err(failure(FileErrorKind::TooLarge, None, deep(&path)).into());
            }
            let Some(seen) = look_at(&dir, name, &path, layer)? else { continue };
            meet(&TreeEntry { way: &way, dir: dir.as_fd(), name, seen: &seen, path: &path })?;
            if seen.kind() == FileType::Directory {
                below.push(way);
            }
        }
        waiting.extend(below.into_iter().rev());
    }
    Ok(())
}

fn joined(top: &Path, way: &[u8]) -> Path {
    Path([&top.0, b"/".as_slice(), way].concat())
}

/// Returns the metadata of an entry; `None` for a whiteout or a socket.
fn look_at(
    dir: impl AsFd,
    name: &[u8],
    path: &Path,
    layer: Option<&UpperLayer>,
) -> Result<Option<EntryMetadata>, FileError> {
    let fail = |errno| refused("look at", path, errno);
    let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
    match layer {
        _ if is_nothing(&stat) => Ok(None),
        Some(layer) => layer.seen(&dir, name, path, &stat).map(Some).map_err(fail),
        None => Ok(Some(EntryMetadata::from(&stat))),
    }
}

fn open(above: impl AsFd, way: &[u8]) -> Result<std::os::fd::OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    crate::tools::open_with(above, way, flags, resolve.union(ResolveFlags::NO_XDEV))
}

/// The size and digest of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Measure {
    /// The number of entries, including the top.
    pub(in super::super) entries: u64,
    /// The total size of its files in bytes.
    pub(in super::super) bytes: u64,
    /// The digest over names, types, modes and contents.
    pub(in super::super) digest: [u8; 32],
}

impl Measure {
    /// Returns the print by which the tree is recognised later.
    pub(super) const fn print(&self) -> Print {
        if self.entries == 1 {
            Print::Directory
        } else {
            Print::Tree { entries: self.entries, digest: self.digest }
        }
    }
}

/// The content of an entry of a tree.
#[derive(Debug)]
pub(super) enum Contents {
    /// The digest of a file's content.
    File([u8; 32]),
    /// The target of a link.
    Link(Vec<u8>),
    /// Nothing: the entries of a directory are visited on their own.
    Directory,
}

/// A tree that is being measured.
#[derive(Debug, Default)]
pub(super) struct TreeMeter {
    entries: u64,
    bytes: u64,
    hash: Sha256,
}

impl TreeMeter {
    pub(super) fn take(&mut self, part: &TreeEntry<'_>, contents: &Contents) {
        self.entries += 1;
        self.hash.update((part.way.len() as u64).to_le_bytes());
        self.hash.update(part.way);
        self.hash.update((part.seen.kind().as_raw_mode() | part.seen.mode()).to_le_bytes());
        match contents {
            Contents::File(digest) => {
                self.bytes = self.bytes.saturating_add(part.seen.size);
                self.hash.update(digest);
            }
            Contents::Link(target) => {
                self.hash.update((target.len() as u64).to_le_bytes());
                self.hash.update(target);
            }
            Contents::Directory => {}
        }
    }

    pub(super) fn done(self) -> Measure {
        let Self { entries, bytes, hash } = self;
        Measure { entries, bytes, digest: hash.finalize().into() }
    }
}

/// Measures a tree. `meet` is called for each entry, and may stop the walk.
pub(in super::super) fn measure<E: From<FileError>>(
    above: impl AsFd,
    name: &[u8],
    top: &Path,
    layer: Option<&UpperLayer>,
    mut meet: impl FnMut(&Path, FileType, u64) -> Result<(), E>,
) -> Result<Measure, E> {
    let mut measuring = TreeMeter::default();
    each(above, name, top, layer, |part: &TreeEntry<'_>| -> Result<(), E> {
        meet(part.path, part.seen.kind(), part.seen.file_size())?;
        let contents = match part.seen.kind() {
            FileType::RegularFile => {
                let file = content::open_file(part.dir, part.name, part.seen)
                    .map_err(|e| refused("read", part.path, e))?;
                let (digest, _) = content::digest(&file, part.seen.size, None)
                    .map_err(|e| refused_io("read", part.path, &e))?;
                Contents::File(digest.whole)
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(part.dir, part.name, Vec::new())
                    .map_err(|e| refused("read the link", part.path, e))?;
                Contents::Link(target.into_bytes())
            }
            FileType::Directory => Contents::Directory,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => return Ok(()),
        };
        measuring.take(part, &contents);
        Ok(())
    })?;
    Ok(measuring.done())
}

/// Returns the regular files and symbolic links at or below a spot.
pub(in super::super) fn files(spot: &EntryLocation) -> Vec<(Path, EntryMetadata)> {
    let mut found = Vec::new();
    let Ok(dir) = spot.dir() else { return found };
    // A file that can not be read any more is not the one that was written.
    each(&dir, &spot.name, &spot.path(), None, |part: &TreeEntry<'_>| -> Result<(), FileError> {
        if matches!(part.seen.kind(), FileType::RegularFile | FileType::Symlink) {
            found.push((part.path.clone(), *part.seen));
        }
        Ok(())
    })
    .ok();
    found
}
