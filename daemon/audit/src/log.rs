//! The log, to which several threads can write at once. Records can be written immediately or
//! deferred. Runs in the broker.

use crate::{
    account::Account,
    chain::Chain,
    error::AuditError,
    files::{Directory, Head, Lock},
    later::RecordQueue,
    record::Record,
    writer::{ChainWriter, Options, Ticket},
};
use palisade_programs::named;
use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

/// Most daemons that may write to one directory at the same time.
const CHAINS: u16 = 1000;

/// One chain, open for writing.
#[derive(Debug)]
pub struct Log {
    chain: Chain,
    writer: Mutex<ChainWriter>,
    later: RecordQueue,
}

impl Log {
    /// Opens the first chain of a directory that nobody else writes. Repairs its end if a crash
    /// left an incomplete record, and records the start.
    ///
    /// # Errors
    /// If the log can not be written.
    pub fn open(directory: &Path, options: Options) -> Result<Self, AuditError> {
        let made = Directory::make(directory)?;
        for chain in (0..CHAINS).map(Chain) {
            if let Some(lock) = made.lock(chain)? {
                return Self::with_lock(made, chain, lock, options);
            }
        }
        Err(AuditError::NoFreeChain(CHAINS, named(directory)))
    }

    /// Opens a certain chain of a directory.
    ///
    /// # Errors
    /// If the chain can not be written, or another process writes it.
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
        let writer = ChainWriter::open(directory, chain, lock, options)?;
        Ok(Self { chain, writer: Mutex::new(writer), later: RecordQueue::default() })
    }

    /// Returns the chain.
    #[must_use]
    pub const fn chain(&self) -> Chain {
        self.chain
    }

    /// Returns the last record.
    #[must_use]
    pub fn head(&self) -> Head {
        self.writer().head()
    }

    /// Writes a record, after those that were deferred. Takes a few microseconds, unless every
    /// record is flushed to disk.
    ///
    /// # Errors
    /// If the record was not written completely. The action that it records must then not be
    /// performed.
    pub fn append(&self, record: &Record) -> Result<Ticket, AuditError> {
        let mut writer = self.writer();
        self.later.catch_up(&mut writer)?;
        writer.append(record)
    }

    /// Writes a record as [`Log::append`] does, and counts its bytes.
    ///
    /// # Errors
    /// The errors of [`Log::append`].
    pub fn append_for(&self, account: &Account, record: &Record) -> Result<Ticket, AuditError> {
        let ticket = self.append(record)?;
        account.add(ticket.bytes());
        Ok(ticket)
    }

    /// Defers creating and writing a record about something that has already happened. It is
    /// written before the next record or when the log is dropped, at the latest; [`Log::catch_up`]
    /// writes it sooner. If too many records are deferred, they are written first.
    ///
    /// # Errors
    /// If too many records are deferred and they can not be written. The record is then lost.
    pub fn defer(&self, make: impl FnOnce() -> Record + Send + 'static) -> Result<(), AuditError> {
        self.defer_for(Account::default(), make)
    }

    /// Defers a record as [`Log::defer`] does, and counts its bytes when it is written.
    ///
    /// # Errors
    /// The errors of [`Log::defer`].
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

    /// Writes deferred records, for a thread that has nothing else to do. If another thread is
    /// writing, they are left for whoever writes next.
    ///
    /// # Errors
    /// If a record can not be written. It is tried again before the next record.
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

    fn writer(&self) -> MutexGuard<'_, ChainWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Nobody is left to be told. The next start lists the calls that have no result.
        self.catch_up().ok();
        self.writer().sign().ok();
    }
}

#[cfg(test)]
pub(crate) mod tests;
