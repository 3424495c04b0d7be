//! How long an asker waits for the analyst: until it has worked for too long, which a hostile text can
//! make it do, or until nobody would wait longer, however busy the machine is.

use crate::process::Process;
use std::time::{Duration, Instant};

/// How long an analyst may work on a text, by the processor's time that it takes.
pub const WORK: Duration = Duration::from_millis(200);

/// How long an answer may take. A process that was just started reads its tables and confines
/// itself first, and may work all the time.
pub const WAIT: Duration = Duration::from_secs(5);

/// How long it is left alone at least before its work is looked at again.
const PAUSE: Duration = Duration::from_millis(20);

/// What is left of the time of one question.
#[derive(Debug)]
pub struct Patience {
    work: Duration,
    asked: Instant,
    worked: Option<Duration>,
}

impl Patience {
    /// For a question that is asked now, and may cost this much work.
    #[must_use]
    pub fn new(process: &Process, work: Duration) -> Self {
        Self { work, asked: Instant::now(), worked: process.worked() }
    }

    /// How long to wait before this is asked again; none if it is enough.
    #[must_use]
    pub fn left(&self, process: &Process) -> Option<Duration> {
        let waited = self.asked.elapsed();
        // Where its work can not be told, it may have worked all the time.
        let worked = match (self.worked, process.worked()) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            (None, _) | (_, None) => waited,
        };
        let (work, wait) = (self.work.checked_sub(worked)?, WAIT.checked_sub(waited)?);
        let over = work.is_zero() || wait.is_zero();
        (!over).then(|| work.max(PAUSE).min(wait))
    }
}
