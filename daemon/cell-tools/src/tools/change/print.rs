//! Prints: values by which the entry at a spot is recognised later, made from its kind and content.
//! Runs in the cell.

use super::{settle::whole::measure, spot::EntryLocation};
use palisade_plan::{
    Path,
    cell::{FileError, LOOK_BYTES},
    change::Print,
};
use palisade_workspace::EntryMetadata;
use rustix::fs::{FileType, OFlags};
use sha2::{Digest as _, Sha256};
use std::{fs::File, io::Read as _};

/// The number of bytes that are read at once.
const PIECE: usize = 64 * 1024;

/// Returns the print of the entry at a spot.
pub(super) fn print(spot: &EntryLocation, seen: &EntryMetadata) -> Print {
    match seen.kind() {
        FileType::Directory => Print::Directory,
        FileType::Symlink => match spot.link() {
            Ok(target) => Print::Symlink { target: Path(target) },
            Err(_) => seen.node(),
        },
        FileType::RegularFile => match digest(spot, seen, LOOK_BYTES) {
            Some(digest) => Print::File { mode: seen.mode(), digest },
            None => seen.node(),
        },
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => seen.node(),
    }
}

/// Returns the digest of a regular file; `None` if it can not be read or is larger than `most`.
pub(super) fn digest(spot: &EntryLocation, seen: &EntryMetadata, most: u64) -> Option<[u8; 32]> {
    if seen.size > most {
        return None;
    }
    let mut file = File::from(spot.open(OFlags::RDONLY).ok()?);
    let stat = rustix::fs::fstat(&file).ok()?;
    if EntryMetadata::from(&stat) != *seen {
        return None;
    }
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Some(hash.finalize().into()),
            Ok(read) => hash.update(piece.get(..read)?),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// The error for a tree that could not be read completely, and so can not be compared.
struct UnreadableTree;

impl From<FileError> for UnreadableTree {
    fn from(_: FileError) -> Self {
        Self
    }
}

/// Returns `true` if the entry at a spot is the expected one.
pub(super) fn is(expect: &Print, spot: &EntryLocation, now: Option<&EntryMetadata>) -> bool {
    let Some(now) = now else { return *expect == Print::Absent };
    match expect {
        Print::Absent => false,
        Print::File { mode, digest: expected } => {
            now.kind() == FileType::RegularFile
                && now.mode() == *mode
                && digest(spot, now, u64::MAX).is_some_and(|found| found == *expected)
        }
        Print::Directory => now.kind() == FileType::Directory,
        Print::Symlink { target } => {
            now.kind() == FileType::Symlink && spot.link().is_ok_and(|found| found == target.0)
        }
        Print::Node { .. } => now.node() == *expect,
        Print::Tree { entries, digest: expected } => {
            let measured = spot
                .dir()
                .map_err(|_| UnreadableTree)
                .and_then(|dir| measure(&dir, &spot.name, &spot.path(), None, |_, _, _| Ok(())));
            measured.is_ok_and(|found| (found.entries, found.digest) == (*entries, *expected))
        }
    }
}
