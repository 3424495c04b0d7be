//! Limits on the work that a repository may cause, and the budget that one operation spends.

use crate::RepositoryError;

/// The cost of a stream however short it is, so that many empty ones cost something.
const STREAM_BYTES: u64 = 256;

/// Limits on what is read of a repository. Whatever exceeds them does not count as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most objects read in one operation.
    pub objects: u64,
    /// Most bytes inflated in one operation.
    pub inflated_bytes: u64,
    /// Most bytes of one object, and of one file whose content is queried.
    pub object_bytes: u64,
    /// Most commits visited in one operation.
    pub commits: u64,
    /// Most packs of the repository.
    pub packs: usize,
    /// Most references, loose and packed, and directories between them.
    pub references: usize,
    /// Most bytes of all reflogs together.
    pub log_bytes: u64,
    /// Most bytes of any other file: `packed-refs`, `index`, `config`.
    pub file_bytes: u64,
    /// Most object ids that are listed when two states are compared.
    pub listed_objects: usize,
    /// Reflog entries before this time (seconds since 1970) do not make anything count as kept,
    /// because git's own maintenance may delete them soon. Entries of the stash do not expire.
    pub oldest_log_entry: Option<i64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            objects: 200_000,
            inflated_bytes: 1 << 30,
            object_bytes: 64 << 20,
            commits: 10_000,
            packs: 200,
            references: 200_000,
            log_bytes: 64 << 20,
            file_bytes: 64 << 20,
            listed_objects: 2_000_000,
            oldest_log_entry: None,
        }
    }
}

/// The part of the bounds that is left in one operation.
#[derive(Debug)]
pub(crate) struct Budget {
    bounds: Bounds,
    objects: u64,
    inflated_bytes: u64,
    commits: u64,
}

impl Budget {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let Bounds { objects, inflated_bytes, commits, .. } = bounds;
        Budget { bounds, objects, inflated_bytes, commits }
    }

    pub(crate) fn object(&mut self) -> Result<(), RepositoryError> {
        spend(&mut self.objects, 1, "objects", self.bounds.objects)
    }

    /// Spends the cost of inflating one stream.
    pub(crate) fn inflate(&mut self, bytes: u64) -> Result<(), RepositoryError> {
        let bytes = bytes.saturating_add(STREAM_BYTES);
        spend(&mut self.inflated_bytes, bytes, "inflated bytes", self.bounds.inflated_bytes)
    }

    pub(crate) fn commit(&mut self) -> Result<(), RepositoryError> {
        spend(&mut self.commits, 1, "commits", self.bounds.commits)
    }

    pub(crate) fn object_bytes(&self) -> u64 {
        self.bounds.object_bytes
    }
}

fn spend(
    left: &mut u64,
    amount: u64,
    what: &'static str,
    limit: u64,
) -> Result<(), RepositoryError> {
    *left = left.checked_sub(amount).ok_or(RepositoryError::Bound { what, limit })?;
    Ok(())
}
