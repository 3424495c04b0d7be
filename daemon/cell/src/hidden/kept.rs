//! What was found of hidden names, in a file in memory: for the process that hides them from a
//! program, and for the next session in the same workspace. Room: the cell.

use super::{Node, Scan, Stamp};
use crate::kernel;
use palisade_plan::{
    codec::{self, CodecError, MAX_MESSAGE},
    names::{Kept, KeptDirectory, Names},
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

/// The hidden names, to hand on.
pub(crate) fn found(scan: &Scan) -> io::Result<OwnedFd> {
    kernel::memory_file(c"hidden", &codec::encode(&scan.hits()).map_err(other)?)
}

/// The hidden names that were handed on.
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

/// All that is known, for a later session. Too much to be kept is an error, and no harm.
pub(crate) fn keep(scan: &Scan, names: &Names) -> io::Result<OwnedFd> {
    let mut directories = Vec::new();
    let mut waiting = vec![(0_u32, &scan.root)];
    while let Some((depth, node)) = waiting.pop() {
        let Stamp { ino, mtime, ctime } = node.stamp;
        let (name, hits) = (node.name.clone(), node.hits.clone());
        let settled = node.settled;
        directories.push(KeptDirectory { depth, name, ino, mtime, ctime, settled, hits });
        waiting.extend(node.below.iter().rev().map(|below| (depth + 1, below)));
    }
    let kept = Kept { names: names.clone(), directories };
    kernel::memory_file(c"kept", &codec::encode(&kept).map_err(other)?)
}

impl Scan {
    /// What an earlier session kept, if it is of use. All of it is looked at again.
    pub(crate) fn restore(file: &OwnedFd, names: &Names) -> Option<Self> {
        let kept: Kept = codec::decode(&contents(file).ok()?).ok()?;
        if kept.names != *names {
            return None;
        }
        let mut open: Vec<Node> = Vec::new();
        for one in kept.directories {
            let depth = usize::try_from(one.depth).ok()?;
            close(&mut open, depth)?;
            let stamp = Stamp { ino: one.ino, mtime: one.mtime, ctime: one.ctime };
            let (name, settled, hits) = (one.name, one.settled, one.hits);
            open.push(Node { name, stamp, settled, below: Vec::new(), hits });
        }
        close(&mut open, 1)?;
        open.pop().map(|root| Self { root, ..Self::default() })
    }
}

/// Puts directories that are complete into those above them, until so many are open.
fn close(open: &mut Vec<Node>, depth: usize) -> Option<()> {
    while open.len() > depth {
        let done = open.pop()?;
        open.last_mut()?.below.push(done);
    }
    (open.len() == depth).then_some(())
}
