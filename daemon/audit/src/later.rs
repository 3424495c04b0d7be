//! Deferred records, of what has happened already: nobody waits until they are created and written.
//! They keep their order, among themselves and relative to all others. Runs in the broker.

use crate::{account::Account, error::AuditError, record::Record, writer::ChainWriter};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Most records that may wait. A caller that would add more writes them first.
const MOST: usize = 256;

/// Creates a record when it is about to be written.
pub(crate) type Maker = Box<dyn FnOnce() -> Record + Send>;

/// A record that waits to be written.
enum WaitingRecord {
    Unmade(Maker),
    /// A record that could not be written, and must come before all others.
    Made(Box<Record>),
}

/// A waiting record, with the account that its bytes are counted for.
type DeferredRecord = (Account, WaitingRecord);

/// The queue of records that wait to be written.
#[derive(Default)]
pub(crate) struct RecordQueue {
    waiting: Mutex<VecDeque<DeferredRecord>>,
}

impl fmt::Debug for RecordQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later").field("waiting", &self.waiting().len()).finish()
    }
}

impl RecordQueue {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<DeferredRecord>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// Adds a record; returns it as an error if the queue is full.
    pub(crate) fn push(&self, account: Account, maker: Maker) -> Result<(), (Account, Maker)> {
        let mut waiting = self.waiting();
        if waiting.len() >= MOST {
            return Err((account, maker));
        }
        waiting.push_back((account, WaitingRecord::Unmade(maker)));
        Ok(())
    }

    /// Writes the waiting records. One that can not be written stays, and no later one is written
    /// before it.
    pub(crate) fn catch_up(&self, writer: &mut ChainWriter) -> Result<(), AuditError> {
        loop {
            // The writer is locked, so nobody else takes from the queue meanwhile.
            let Some((account, next)) = self.waiting().pop_front() else { return Ok(()) };
            let record = match next {
                WaitingRecord::Unmade(maker) => Box::new(maker()),
                WaitingRecord::Made(record) => record,
            };
            match writer.append(&record) {
                Ok(ticket) => account.add(ticket.bytes()),
                Err(error) => {
                    self.waiting().push_front((account, WaitingRecord::Made(record)));
                    return Err(error);
                }
            }
        }
    }
}
