//! To know again what is at a spot, by what it is and what is in it. Room: the cell.

use super::{seen::Seen, settle::whole::measure, spot::Spot};
use palisade_plan::{
    Path,
    cell::{FileError, LOOK_BYTES},
    change::Print,
};
use rustix::fs::{FileType, OFlags};
use sha2::{Digest as _, Sha256};
use std::{fs::File, io::Read as _};

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// To know again what is there.
pub(super) fn print(spot: &Spot, seen: &Seen) -> Print {
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

/// A regular file's digest, if it can be read and is not over `most`.
pub(super) fn digest(spot: &Spot, seen: &Seen, most: u64) -> Option<[u8; 32]> {
    if seen.size > most {
        return None;
    }
    let mut file = File::from(spot.open(OFlags::RDONLY).ok()?);
    let stat = rustix::fs::fstat(&file).ok()?;
    if Seen::from(&stat) != *seen {
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

/// A tree that could not be read whole is none that is known.
struct Unknown;

impl From<FileError> for Unknown {
    fn from(_: FileError) -> Self {
        Self
    }
}

/// Whether what is there is what is expected.
pub(super) fn is(expect: &Print, spot: &Spot, now: Option<&Seen>) -> bool {
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
                .map_err(|_| Unknown)
                .and_then(|dir| measure(&dir, &spot.name, &spot.path(), None, |_, _, _| Ok(())));
            measured.is_ok_and(|found| (found.entries, found.digest) == (*entries, *expected))
        }
    }
}
