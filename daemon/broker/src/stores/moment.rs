//! The age of stored things, measured by the monotonic clock from when they were found. Runs in the
//! broker. Pure: no I/O.

use std::time::{Duration, Instant, SystemTime};

/// A point in time by the wall clock and by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// The wall clock, which may be set to anything.
    pub(crate) clock: SystemTime,
    /// The monotonic clock, which nobody can set.
    pub(crate) steady: Instant,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { clock: SystemTime::now(), steady: Instant::now() }
    }

    /// Returns the point that is `time` later on both clocks.
    #[cfg(test)]
    pub(crate) fn later(self, time: Duration) -> Self {
        Self { clock: self.clock + time, steady: self.steady + time }
    }
}

/// The age of a stored thing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Age {
    found: Instant,
    /// Its age when it was found.
    then: Duration,
}

impl Age {
    /// Returns the age of a thing that is made now.
    pub(crate) const fn new(now: Moment) -> Self {
        Self { found: now.steady, then: Duration::ZERO }
    }

    /// Returns the age of a thing that an earlier daemon left, whose time is known by the wall
    /// clock only. A time in the future counts as new.
    pub(crate) fn since(made: SystemTime, now: Moment) -> Self {
        let then = now.clock.duration_since(made).unwrap_or_default();
        Self { found: now.steady, then }
    }

    /// Returns the age at the given moment.
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
