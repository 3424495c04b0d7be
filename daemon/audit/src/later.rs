//! Records of what has happened already: nobody waits until they are made and written. They keep
//! their order, among themselves and with all others. Broker.

use crate::{account::Account, error::AuditError, record::Record, writer::Writer};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
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

/// A record that waits, and who it is counted for.
type Deferred = (Account, Waiting);

/// Records that wait to be written.
#[derive(Default)]
pub(crate) struct Later {
    waiting: Mutex<VecDeque<Deferred>>,
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later").field("waiting", &self.waiting().len()).finish()
    }
}

impl Later {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Deferred>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// Adds one; whether there was room.
    pub(crate) fn push(&self, account: Account, maker: Maker) -> Result<(), (Account, Maker)> {
        let mut waiting = self.waiting();
        if waiting.len() >= MOST {
            return Err((account, maker));
        }
        waiting.push_back((account, Waiting::Unmade(maker)));
        Ok(())
    }

    /// Writes what waits. What can not be written stays, and nothing is written before it.
    pub(crate) fn catch_up(&self, writer: &mut Writer) -> Result<(), AuditError> {
        loop {
            // The writer is held: nobody else takes from the queue meanwhile.
            let Some((account, next)) = self.waiting().pop_front() else { return Ok(()) };
            let record = match next {
                Waiting::Unmade(maker) => Box::new(maker()),
                Waiting::Made(record) => record,
            };
            match writer.append(&record) {
                Ok(ticket) => account.add(ticket.bytes()),
                Err(error) => {
                    self.waiting().push_front((account, Waiting::Made(record)));
                    return Err(error);
                }
            }
        }
    }
}
