//! Connections that are closed without a word, and a log that is not flooded by that. Broker.

use std::time::{Duration, Instant};

/// Connections that were closed without a word, told of once a second.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    count: u64,
    told: Option<Instant>,
}

impl Closed {
    /// Counts one, and tells of those that were not told of yet.
    pub(crate) fn one_more(&mut self) {
        self.count += 1;
        if self.told.is_none_or(|told| told.elapsed() >= Duration::from_secs(1)) {
            tracing::warn!(connections = self.count, "too many connections: these were closed");
            *self = Self { count: 0, told: Some(Instant::now()) };
        }
    }
}
