//! Finds moved files: deleted files that equal new ones. Runs in the cell.

use super::found::LayerChange;
use rustix::fs::FileType;
use std::collections::HashMap;

/// The number of deleted files that a new one is compared with. If a moved file is not recognised,
/// it counts as a new file and a deleted one.
const MOST_COMPARED: usize = 16;

/// The size, time and mode, which a move does not change.
type Key = (u64, (i64, u32), u32);

/// The deleted files, by the properties that a move does not change.
#[derive(Debug, Default)]
pub(super) struct DeletedFiles {
    by_key: HashMap<Key, Vec<usize>>,
}

impl DeletedFiles {
    /// Collects the deleted files of all items.
    pub(super) fn of(items: &[LayerChange]) -> Self {
        let mut gone = Self::default();
        for (at, item) in items.iter().enumerate().rev() {
            if let (Some(old), None) = (&item.lower, &item.upper)
                && old.kind() == FileType::RegularFile
            {
                gone.by_key.entry((old.size, old.mtime, old.mode())).or_default().push(at);
            }
        }
        gone
    }

    /// Takes the first deleted file with the same properties for which `is` returns true.
    pub(super) fn take(
        &mut self,
        item: &LayerChange,
        mut is: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let (None, Some(new)) = (&item.lower, &item.upper) else { return None };
        if new.kind() != FileType::RegularFile {
            return None;
        }
        let candidates = self.by_key.get_mut(&(new.size, new.mtime, new.mode()))?;
        let first = candidates.len().saturating_sub(MOST_COMPARED);
        let at = first + candidates.get(first..)?.iter().rposition(|at| is(*at))?;
        Some(candidates.remove(at))
    }
}
