//! Counts how much was written for each user. Runs in the broker.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts the bytes of records that were written for one user. Clones share one count.
#[derive(Debug, Clone, Default)]
pub struct Account(Arc<AtomicU64>);

impl Account {
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that were written since the last call.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    /// Returns `true` if there is another clone, which means that records for this user wait to be
    /// written.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
