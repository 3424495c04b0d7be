//! How old something is that was kept: by the clock that nobody sets, from when it was found on. Broker,
//! pure.

use std::time::{Duration, Instant, SystemTime};

/// A point in time by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// What the machine's clock says; it may be set to anything.
    pub(crate) clock: SystemTime,
    /// What nobody sets.
    pub(crate) steady: Instant,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { clock: SystemTime::now(), steady: Instant::now() }
    }

    /// This much later.
    #[cfg(test)]
    pub(crate) fn later(self, time: Duration) -> Self {
        Self { clock: self.clock + time, steady: self.steady + time }
    }
}

/// Since when something is there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Age {
    found: Instant,
    /// How old it was then.
    then: Duration,
}

impl Age {
    /// Of what is made now.
    pub(crate) const fn new(now: Moment) -> Self {
        Self { found: now.steady, then: Duration::ZERO }
    }

    /// Of what an earlier daemon left, of which only the machine's clock is known. What is not made
    /// yet is new.
    pub(crate) fn since(made: SystemTime, now: Moment) -> Self {
        let then = now.clock.duration_since(made).unwrap_or_default();
        Self { found: now.steady, then }
    }

    /// How old it is.
    pub(crate) fn at(self, now: Moment) -> Duration {
        self.then.saturating_add(now.steady.saturating_duration_since(self.found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn a_clock_that_is_set_makes_nothing_older_or_younger() {
        let now = Moment::now();
        let made = Age::new(now);
        let found = Age::since(now.clock - DAY / 2, now);
        for clock in [now.clock + DAY, now.clock - DAY, SystemTime::UNIX_EPOCH] {
            let set = Moment { clock, ..now };
            assert_eq!((made.at(set), found.at(set)), (Duration::ZERO, DAY / 2));
            assert_eq!(found.at(set.later(DAY)), DAY + DAY / 2);
        }
        assert_eq!(Age::since(now.clock + DAY, now).at(now), Duration::ZERO);
    }
}
