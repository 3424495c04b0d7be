//! Finds out which tracked file an untracked one was before it was renamed without git. What git
//! keeps of it, it keeps at the earlier path. Runs in the cell.

use super::{
    linked::joined,
    trees::{Trees, seen},
};
use palisade_repository::{StagedEntry, StagedType, StagingIndex};

/// The maximum number of earlier paths that are tried for one file.
const MOST_PATHS: usize = 16;

/// The files that an index lists, ordered by size. Git notes the size with each.
#[derive(Debug)]
pub(super) struct ListedFiles<'a> {
    by_size: Vec<&'a StagedEntry>,
}

impl<'a> ListedFiles<'a> {
    pub(super) fn of(index: &'a StagingIndex) -> Self {
        let is_file = |entry: &&StagedEntry| {
            entry.entry_type == StagedType::File && entry.stage == 0 && !entry.skip_worktree
        };
        let mut by_size: Vec<&StagedEntry> = index.entries().iter().filter(is_file).collect();
        by_size.sort_by_key(|entry| entry.size);
        Self { by_size }
    }

    /// Returns the paths, relative to the top of the working tree, that a file of this size may have
    /// had: those of files of the same size that were missing before the change.
    pub(super) fn missing(&self, trees: &Trees, top: &[u8], size: u64) -> Vec<&'a [u8]> {
        // An index has the lower 32 bits.
        let size = size & u64::from(u32::MAX);
        let first = self.by_size.partition_point(|entry| u64::from(entry.size) < size);
        let same =
            self.by_size.iter().skip(first).take_while(|entry| u64::from(entry.size) == size);
        let is_missing =
            |entry: &&&StagedEntry| seen(trees.before(), &joined(top, &entry.path)).is_none();
        same.filter(is_missing).take(MOST_PATHS).map(|entry| entry.path.as_slice()).collect()
    }
}
