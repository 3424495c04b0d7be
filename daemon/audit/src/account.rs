//! How much was written for whom. Broker.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counts the bytes of records that were written for one user. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Account(Arc<AtomicU64>);

impl Account {
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes that were written since this was last asked.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    /// Whether somebody else has a clone: records wait to be written for it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}
