//! Counts connections that are closed without an error message, without flooding the log. Runs in
//! the broker.

use std::time::{Duration, Instant};

/// Connections that were closed without an error message; logged at most once a second.
#[derive(Debug, Default)]
pub(crate) struct ClosedConnections {
    count: u64,
    told: Option<Instant>,
}

impl ClosedConnections {
    /// Counts one connection, and logs those that were not logged yet.
    pub(crate) fn one_more(&mut self) {
        self.count += 1;
        if self.told.is_none_or(|told| told.elapsed() >= Duration::from_secs(1)) {
            tracing::warn!(connections = self.count, "closed connections over the limit");
            *self = Self { count: 0, told: Some(Instant::now()) };
        }
    }
}
