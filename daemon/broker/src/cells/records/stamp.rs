//! Converts the wall-clock time of audit records to time since boot, which nobody can set. Runs in
//! the broker.

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// The readings of two clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    /// The time since boot.
    boot: Duration,
    /// The time of day, since 1970.
    real: Duration,
}

impl Clocks {
    pub(super) fn now() -> Self {
        // In this order: if time passes between the two readings, a stamp appears earlier than it
        // is. Its record is then not taken for one of a later call.
        let boot = since_boot();
        Self { boot, real: duration(clock_gettime(ClockId::Realtime)) }
    }

    #[cfg(test)]
    pub(super) const fn at(boot: Duration, real: Duration) -> Self {
        Self { boot, real }
    }

    /// Returns the time since boot at which a record that arrived now was stamped. `None` if that
    /// is impossible because the clock was set meanwhile.
    pub(super) fn stamped(self, at: Duration) -> Option<Duration> {
        self.boot.checked_sub(self.real.checked_sub(at)?)
    }
}

/// Returns the time since the host was started.
pub(super) fn since_boot() -> Duration {
    duration(clock_gettime(ClockId::Boottime))
}

fn duration(time: Timespec) -> Duration {
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_stamp_is_as_long_ago_as_it_says_however_the_clock_was_set_before() {
        for real in [100, 5000, 2_000_000_000] {
            let clocks = Clocks { boot: seconds(50), real: seconds(real) };
            assert_eq!(clocks.stamped(seconds(real)), Some(seconds(50)));
            assert_eq!(clocks.stamped(seconds(real - 3)), Some(seconds(47)));
            // The clock was set back meanwhile, or forward by more than the host has been up.
            assert_eq!(clocks.stamped(seconds(real + 1)), None);
            assert_eq!(clocks.stamped(seconds(real - 51)), None);
        }
    }

    #[test]
    fn now_is_between_two_looks() {
        let before = since_boot();
        let clocks = Clocks::now();
        let stamped = clocks.stamped(clocks.real).unwrap();
        assert!(before <= stamped && stamped <= since_boot());
    }
}
