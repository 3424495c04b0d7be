//! Which of the files that are gone are those that are new: what was moved. Room: the cell.

use super::found::Item;
use rustix::fs::FileType;
use std::collections::HashMap;

/// How many files that are gone a new one is compared with. One that was moved and is not found is a
/// new one, and what it was is gone.
const MOST_COMPARED: usize = 16;

/// What a file that was moved has in common with what it was.
type Key = (u64, (i64, u32), u32);

/// The files that are gone, by what one that was moved would have kept.
#[derive(Debug, Default)]
pub(super) struct Gone {
    by_key: HashMap<Key, Vec<usize>>,
}

impl Gone {
    /// Notes what is gone of all items.
    pub(super) fn of(items: &[Item]) -> Self {
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

    /// Takes the first that a new file may have been and that is.
    pub(super) fn take(&mut self, item: &Item, mut is: impl FnMut(usize) -> bool) -> Option<usize> {
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
