//! The log that many write to at once: records, and those of what has happened already. Broker.

use crate::{
    account::Account,
    chain::Chain,
    error::AuditError,
    files::{Directory, Head, Lock},
    later::Later,
    record::Record,
    writer::{Options, Ticket, Writer},
};
use palisade_programs::named;
use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

/// How many daemons may write to one directory at the same time.
const CHAINS: u16 = 1000;

/// One chain, open for writing.
#[derive(Debug)]
pub struct Log {
    chain: Chain,
    writer: Mutex<Writer>,
    later: Later,
}

impl Log {
    /// Goes on with the first chain of a directory that nobody else writes: repairs its end if a
    /// crash left it torn, and records the start.
    ///
    /// # Errors
    /// If it can not be written.
    pub fn open(directory: &Path, options: Options) -> Result<Self, AuditError> {
        let made = Directory::make(directory)?;
        for chain in (0..CHAINS).map(Chain) {
            if let Some(lock) = made.lock(chain)? {
                return Self::with_lock(made, chain, lock, options);
            }
        }
        Err(AuditError::NoFreeChain(CHAINS, named(directory)))
    }

    /// The same with a certain chain.
    ///
    /// # Errors
    /// If it can not be written, or another process writes it.
    pub fn open_chain(dir: &Path, chain: Chain, options: Options) -> Result<Self, AuditError> {
        let directory = Directory::make(dir)?;
        let lock = directory.lock(chain)?.ok_or(AuditError::Locked(chain))?;
        Self::with_lock(directory, chain, lock, options)
    }

    fn with_lock(
        directory: Directory,
        chain: Chain,
        lock: Lock,
        options: Options,
    ) -> Result<Self, AuditError> {
        let writer = Writer::open(directory, chain, lock, options)?;
        Ok(Self { chain, writer: Mutex::new(writer), later: Later::default() })
    }

    /// Which chain it is.
    #[must_use]
    pub const fn chain(&self) -> Chain {
        self.chain
    }

    /// Its last record.
    #[must_use]
    pub fn head(&self) -> Head {
        self.writer().head()
    }

    /// Writes a record, after those that wait. Costs a few microseconds unless every record is
    /// forced to the disk.
    ///
    /// # Errors
    /// If it was not written whole: nothing may be done then that should have been recorded.
    pub fn append(&self, record: &Record) -> Result<Ticket, AuditError> {
        let mut writer = self.writer();
        self.later.catch_up(&mut writer)?;
        writer.append(record)
    }

    /// Writes a record as [`Log::append`] does, and counts its bytes.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_for(&self, account: &Account, record: &Record) -> Result<Ticket, AuditError> {
        let ticket = self.append(record)?;
        account.add(ticket.bytes());
        Ok(ticket)
    }

    /// Has a record made and written later, of what has happened already: at the latest before the
    /// next record, and when the log is dropped; [`Log::catch_up`] writes it sooner. It is bounded:
    /// with too many that wait, they are written first.
    ///
    /// # Errors
    /// If too many wait and can not be written; the record is then lost.
    pub fn defer(&self, make: impl FnOnce() -> Record + Send + 'static) -> Result<(), AuditError> {
        self.defer_for(Account::default(), make)
    }

    /// Defers a record as [`Log::defer`] does, and counts its bytes when it is written.
    ///
    /// # Errors
    /// As [`Log::defer`].
    pub fn defer_for(
        &self,
        account: Account,
        make: impl FnOnce() -> Record + Send + 'static,
    ) -> Result<(), AuditError> {
        match self.later.push(account, Box::new(make)) {
            Ok(()) => Ok(()),
            Err((account, make)) => self.append_for(&account, &make()).map(drop),
        }
    }

    /// Writes what was deferred, for whoever has nothing else to do. If another thread is writing,
    /// that is left to whoever comes next.
    ///
    /// # Errors
    /// If it can not be written; it is tried again before the next record.
    pub fn catch_up(&self) -> Result<(), AuditError> {
        if self.later.is_empty() {
            return Ok(());
        }
        match self.writer.try_lock() {
            Ok(mut writer) => self.later.catch_up(&mut writer),
            Err(TryLockError::Poisoned(writer)) => self.later.catch_up(&mut writer.into_inner()),
            Err(TryLockError::WouldBlock) => Ok(()),
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // There is nobody left to tell; the next start names the calls that have no result.
        self.catch_up().ok();
    }
}

#[cfg(test)]
pub(crate) mod tests;
