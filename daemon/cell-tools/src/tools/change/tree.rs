//! The fingerprint of a directory tree, and looks into directories, without following a link or
//! leaving the mount. Runs in the cell.

use super::names::is_ours;
use palisade_workspace::tree::{TreeVisitor, VisitedEntry, enter, walk};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::os::fd::AsFd;

pub(super) use palisade_workspace::tree::{entries, remove};

/// The number of names that are read to see whether all of them are temporary ones.
const MOST_ASIDE: usize = 1_000_000;

/// A digest over a tree: its entries, and the version of each.
#[derive(Debug, Default)]
pub(super) struct Fingerprint {
    hash: Sha256,
}

impl Fingerprint {
    /// Adds an entry, except the top, which is renamed. The order and the depths identify the shape
    /// of the tree.
    pub(super) fn take(&mut self, met: &VisitedEntry<'_>) {
        if met.depth == 0 {
            return;
        }
        self.hash.update((met.depth as u64).to_le_bytes());
        self.hash.update((met.name.len() as u64).to_le_bytes());
        self.hash.update(met.name);
        self.hash.update(met.seen.bytes());
    }

    /// Returns the digest.
    pub(super) fn done(self) -> [u8; 32] {
        self.hash.finalize().into()
    }
}

struct FingerprintVisitor(Fingerprint);

impl TreeVisitor for FingerprintVisitor {
    type Stop = Errno;

    fn entry(&mut self, met: &VisitedEntry<'_>) -> Result<(), Errno> {
        self.0.take(met);
        Ok(())
    }
}

/// Returns the fingerprint of a tree; `None` if the tree changes meanwhile.
pub(super) fn fingerprint(above: impl AsFd, name: &[u8]) -> Result<Option<[u8; 32]>, Errno> {
    let mut prints = FingerprintVisitor(Fingerprint::default());
    match walk(above, name, &mut prints) {
        Ok(()) => Ok(Some(prints.0.done())),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns `true` if a directory contains nothing but temporary files of other steps.
pub(super) fn is_empty(above: impl AsFd, name: &[u8]) -> Result<bool, Errno> {
    let (dir, _) = enter(above, name)?;
    Ok(entries(&dir, MOST_ASIDE)?.iter().all(|name| is_ours(name)))
}

/// Returns at most `most` of the names in a subdirectory.
pub(super) fn list(above: impl AsFd, name: &[u8], most: usize) -> Result<Vec<Vec<u8>>, Errno> {
    let (dir, _) = enter(above, name)?;
    entries(&dir, most)
}
