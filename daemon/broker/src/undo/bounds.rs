//! How much is kept, and for how long. Broker, pure.

use std::time::Duration;

/// How long a call can be undone.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Entries of one call: what undoes it is held in memory, by the daemon and by a cell.
pub(crate) const CALL_ENTRIES: u32 = 100_000;
/// Bytes of those entries without their contents, for the same reason.
pub(super) const CALL_NAMES: u64 = 32 * 1024 * 1024;
/// Calls of one session: each is a file, and a loop of small edits must not make millions.
pub(super) const SESSION_RECORDS: u64 = 1024;
/// Calls of one user.
pub(super) const USER_RECORDS: u64 = 4096;
/// In all: that of four such users. The oldest of whoever has most go first.
pub(super) const ALL: Sum = Sum { bytes: 4 << 30, records: 16_384 };

/// Space that is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) bytes: u64,
    pub(super) records: u64,
}

impl Sum {
    pub(super) const fn is_over(self, most: Self) -> bool {
        self.bytes > most.bytes || self.records > most.records
    }
}
