//! Stores the hidden names of a scan in a memory file. It is read by the process that hides them
//! from a program, and by the next session in the same workspace. Runs in the cell.

use super::{Scan, ScannedDirectory, Stamp};
use crate::kernel;
use palisade_plan::{
    codec::{self, CodecError, MAX_MESSAGE},
    names::{Names, StoredDirectory, StoredScan},
};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt as _,
    },
};

fn other(error: CodecError) -> io::Error {
    io::Error::other(error)
}

/// Writes the hidden names to a memory file.
pub(crate) fn found(scan: &Scan) -> io::Result<OwnedFd> {
    kernel::memory_file(c"hidden", &codec::encode(&scan.hits()).map_err(other)?)
}

/// Reads the hidden names from a memory file that `found` wrote.
pub(crate) fn known(file: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    codec::decode(&contents(file)?).map_err(other)
}

fn contents(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let file = File::from(file.as_fd().try_clone_to_owned()?);
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if size > MAX_MESSAGE {
        return Err(other(CodecError::TooLarge(size, MAX_MESSAGE)));
    }
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Writes the whole scan to a memory file for a later session. A scan too large for that is an
/// error; the later session then scans afresh.
pub(crate) fn keep(scan: &Scan, names: &Names) -> io::Result<OwnedFd> {
    let mut directories = Vec::new();
    let mut waiting = vec![(0_u32, &scan.root)];
    while let Some((depth, node)) = waiting.pop() {
        let Stamp { ino, mtime, ctime } = node.stamp;
        let (name, hits) = (node.name.clone(), node.hits.clone());
        let settled = node.settled;
        directories.push(StoredDirectory { depth, name, ino, mtime, ctime, settled, hits });
        waiting.extend(node.below.iter().rev().map(|below| (depth + 1, below)));
    }
    let kept = StoredScan { names: names.clone(), directories };
    kernel::memory_file(c"kept", &codec::encode(&kept).map_err(other)?)
}

impl Scan {
    /// Reads the scan of an earlier session, or `None` if it is damaged or made for other names.
    /// The next refresh checks every directory again.
    pub(crate) fn restore(file: &OwnedFd, names: &Names) -> Option<Self> {
        let kept: StoredScan = codec::decode(&contents(file).ok()?).ok()?;
        if kept.names != *names {
            return None;
        }
        let mut open: Vec<ScannedDirectory> = Vec::new();
        for one in kept.directories {
            let depth = usize::try_from(one.depth).ok()?;
            close(&mut open, depth)?;
            let stamp = Stamp { ino: one.ino, mtime: one.mtime, ctime: one.ctime };
            let (name, settled, hits) = (one.name, one.settled, one.hits);
            open.push(ScannedDirectory { name, stamp, settled, below: Vec::new(), hits });
        }
        close(&mut open, 1)?;
        open.pop().map(|root| Self { root, ..Self::default() })
    }
}

/// Moves complete directories into their parents until `depth` directories are open.
fn close(open: &mut Vec<ScannedDirectory>, depth: usize) -> Option<()> {
    while open.len() > depth {
        let done = open.pop()?;
        open.last_mut()?.below.push(done);
    }
    (open.len() == depth).then_some(())
}
