//! Limits how long a client waits for the analyst. One limit is processor time, which a hostile
//! text can use up. The other is elapsed time, however busy the machine is.

use crate::process::Process;
use std::time::{Duration, Instant};

/// The processor time that the analyst may use for one text.
pub const WORK: Duration = Duration::from_millis(200);

/// The longest time until an answer. A process that was just started reads its tables and confines
/// itself first, and may use processor time throughout.
pub const WAIT: Duration = Duration::from_secs(5);

/// The shortest interval between two checks of the processor time.
const PAUSE: Duration = Duration::from_millis(20);

/// The remaining time of one request.
#[derive(Debug)]
pub struct Patience {
    work: Duration,
    asked: Instant,
    worked: Option<Duration>,
}

impl Patience {
    /// Starts the time of a request that is sent now and may use this much processor time.
    #[must_use]
    pub fn new(process: &Process, work: Duration) -> Self {
        Self { work, asked: Instant::now(), worked: process.worked() }
    }

    /// Returns how long to wait until the next check; `None` if the time is over.
    #[must_use]
    pub fn left(&self, process: &Process) -> Option<Duration> {
        let waited = self.asked.elapsed();
        // If the processor time is unknown, the process may have used it all the time.
        let worked = match (self.worked, process.worked()) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            (None, _) | (_, None) => waited,
        };
        let (work, wait) = (self.work.checked_sub(worked)?, WAIT.checked_sub(waited)?);
        let over = work.is_zero() || wait.is_zero();
        (!over).then(|| work.max(PAUSE).min(wait))
    }
}
