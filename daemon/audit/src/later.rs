//! Records of what has happened already: nobody waits until they are made and written. They keep
//! their order, among themselves and with all others. Broker.

use crate::{error::AuditError, log::Writer, record::Record};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// How many wait at most; who would add more writes them first.
const MOST: usize = 256;

/// What makes a record.
pub(crate) type Maker = Box<dyn FnOnce() -> Record + Send>;

/// A record that waits.
enum Waiting {
    Unmade(Maker),
    /// One that could not be written, and has to come before all others.
    Made(Box<Record>),
}

/// Records that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Later {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The thread has something to do.
    nudged: bool,
    stop: bool,
    failed: Option<String>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl Later {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one; whether there was room.
    pub(crate) fn push(&self, maker: Maker) -> Result<(), Maker> {
        let mut queue = self.queue();
        if queue.waiting.len() >= MOST {
            return Err(maker);
        }
        queue.waiting.push_back(Waiting::Unmade(maker));
        Ok(())
    }

    /// Has the thread write what waits; what went wrong with that the last time.
    pub(crate) fn nudge(&self) -> Option<String> {
        let mut queue = self.queue();
        if !queue.waiting.is_empty() && !queue.nudged {
            queue.nudged = true;
            self.wake.notify_one();
        }
        queue.failed.take()
    }

    /// The thread is to end once nothing waits.
    pub(crate) fn stop(&self) {
        self.queue().stop = true;
        self.wake.notify_one();
    }

    /// Writes what waits. What can not be written stays, and nothing is written before it.
    pub(crate) fn catch_up(&self, writer: &mut Writer) -> Result<(), AuditError> {
        loop {
            // The writer is held: nobody else takes from the queue meanwhile.
            let Some(next) = self.queue().waiting.pop_front() else { return Ok(()) };
            let record = match next {
                Waiting::Unmade(maker) => Box::new(maker()),
                Waiting::Made(record) => record,
            };
            if let Err(error) = writer.append(&record).map(drop) {
                self.queue().waiting.push_front(Waiting::Made(record));
                return Err(error);
            }
        }
    }

    /// The thread: writes whenever it is told to, and to the end.
    pub(crate) fn run(&self, writer: &Mutex<Writer>) {
        loop {
            let idle = |queue: &mut Queue| !queue.nudged && !queue.stop;
            let queue = self.wake.wait_while(self.queue(), idle);
            let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
            queue.nudged = false;
            let stop = queue.stop;
            drop(queue);
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = self.catch_up(&mut writer) {
                self.queue().failed = Some(error.to_string());
            }
            if stop {
                return;
            }
        }
    }
}
