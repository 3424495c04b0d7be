//! The time between two starts of a server that fails.

use std::time::Duration;
use tokio::time::Instant;

/// The longest time between two starts.
const LONGEST: Duration = Duration::from_secs(30);

/// The failures in a row, and when the server may start again.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// Notes that the server ended although it was not asked to. The first restart is immediate, each
    /// further one waits twice as long.
    pub(super) fn failed(&mut self, now: Instant) {
        let doublings = self.failures.checked_sub(1);
        let wait = doublings.map_or(Duration::ZERO, |doublings| {
            Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST)
        });
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + wait);
    }

    /// Notes that the server answered a call.
    pub(super) const fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }

    /// Returns the time before which the server is not started.
    pub(super) const fn not_before(&self) -> Option<Instant> {
        self.not_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_in_a_row_doubles_the_wait() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.not_before(), None);
        for seconds in [0, 1, 2, 4, 8, 16, 30, 30] {
            backoff.failed(now);
            assert_eq!(backoff.not_before(), Some(now + Duration::from_secs(seconds)));
        }
        backoff.succeeded();
        assert_eq!(backoff.not_before(), None);
        backoff.failed(now);
        assert_eq!(backoff.not_before(), Some(now));
    }
}
