//! Checks from time to time, while a tool works, whether the call was abandoned, and reports its
//! progress. Runs in the cell.

use super::Stop;
use palisade_channel::{Channel, ChannelError};
use palisade_plan::cell::FileReply;
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The interval at which the channel is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The interval at which progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Watches one call's channel, for all threads that work on it.
#[derive(Debug)]
pub(crate) struct CallWatch<'a> {
    channel: &'a Channel,
    started: Instant,
    /// The time of the next check, in milliseconds after the start.
    check_at: AtomicU64,
    report_at: AtomicU64,
    done: AtomicU64,
    over: AtomicBool,
    broken: Mutex<Option<ChannelError>>,
}

impl<'a> CallWatch<'a> {
    /// Starts watching.
    pub(crate) fn new(channel: &'a Channel) -> Self {
        Self {
            channel,
            started: Instant::now(),
            check_at: AtomicU64::new(millis(CHECK_INTERVAL)),
            report_at: AtomicU64::new(millis(PROGRESS_INTERVAL)),
            done: AtomicU64::new(0),
            over: AtomicBool::new(false),
            broken: Mutex::new(None),
        }
    }

    /// Adds to the progress, and fails if the broker abandoned the call or is gone. Costs next to
    /// nothing.
    ///
    /// # Errors
    /// [`Stop::Abandoned`], or the error of the channel.
    pub(crate) fn step(&self, done: u64) -> Result<(), Stop> {
        self.done.fetch_add(done, Ordering::Relaxed);
        if self.is_over() {
            return Err(self.why());
        }
        let now = millis(self.started.elapsed());
        if is_due(&self.check_at, now, CHECK_INTERVAL) && self.channel.has_pending_input() {
            self.over.store(true, Ordering::Relaxed);
            return Err(Stop::Abandoned);
        }
        if is_due(&self.report_at, now, PROGRESS_INTERVAL) {
            let done = self.done.load(Ordering::Relaxed);
            self.channel.send(&FileReply::Progress { done }).map_err(|error| self.fail(error))?;
        }
        Ok(())
    }

    /// Returns `true` once the threads that work on the call have to stop.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn fail(&self, error: ChannelError) -> Stop {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.over.store(true, Ordering::Relaxed);
        self.why()
    }

    /// Returns why the call is over. The error of a broken channel is returned once.
    fn why(&self) -> Stop {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner).take();
        broken.map_or(Stop::Abandoned, Stop::Broken)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns `true`, to one thread only, if the next action is due.
fn is_due(at: &AtomicU64, now: u64, every: Duration) -> bool {
    let due = at.load(Ordering::Relaxed);
    now >= due
        && at
            .compare_exchange(due, now + millis(every), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}
