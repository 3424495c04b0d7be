//! Stores the hidden names of a scan in a memory file. It is read by the process that hides them
//! from a program, and by the next session in the same workspace. Runs in the cell.

use super::{Scan, ScannedDirectory, Stamp};
use palisade_plan::{
    codec::{self, CodecError},
    names::{Names, StoredDirectory, StoredScan},
};
use palisade_workspace::memory_file;
use std::{io, os::fd::OwnedFd};

fn other(error: CodecError) -> io::Error {
    io::Error::other(error)
}

/// Writes the hidden names to a memory file.
pub(crate) fn found(scan: &Scan) -> io::Result<OwnedFd> {
    memory_file::make(c"hidden", &codec::encode(&scan.hits()).map_err(other)?)
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
    memory_file::make(c"kept", &codec::encode(&kept).map_err(other)?)
}

impl Scan {
    /// Reads the scan of an earlier session, or `None` if it is damaged or made for other names.
    /// The next refresh checks every directory again.
    pub(crate) fn restore(file: &OwnedFd, names: &Names) -> Option<Self> {
        let kept: StoredScan = codec::decode(&memory_file::read(file).ok()?).ok()?;
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
