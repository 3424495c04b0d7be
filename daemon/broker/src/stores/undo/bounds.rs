//! The limits of the undo store, in size and time. Runs in the broker. Pure: no I/O.

/// The most entries of one call's record: undoing it holds them in memory, in the daemon and in a
/// cell.
pub(crate) const CALL_ENTRIES: u32 = 100_000;
/// The most bytes of those entries without their contents, for the same reason.
pub(super) const CALL_NAMES: u64 = 32 * 1024 * 1024;
/// The most records of own work in one session. Each is a file, and a loop of small edits must not
/// make millions.
pub(super) const SESSION_RECORDS: u64 = 1024;
/// The most records of own work of one user.
pub(super) const USER_RECORDS: u64 = 4096;
/// The most records of one user in all. Their index is held in memory.
pub(super) const ALL_OF_USER: u64 = 65_536;
/// The limit of own work of all users: that of four of them. The oldest of whoever has most are
/// deleted first.
pub(super) const ALL: SpaceUsed = SpaceUsed { bytes: 4 << 30, records: 16_384 };

/// The space that records occupy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SpaceUsed {
    pub(super) bytes: u64,
    pub(super) records: u64,
}

impl SpaceUsed {
    pub(super) const fn is_over(self, most: Self) -> bool {
        self.bytes > most.bytes || self.records > most.records
    }

    pub(super) const fn and(self, more: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            records: self.records.saturating_add(more.records),
        }
    }

    pub(super) const fn less(self, less: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(less.bytes),
            records: self.records.saturating_sub(less.records),
        }
    }
}
