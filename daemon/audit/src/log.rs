//! Writes the log: one line at a time, each only when the one before is known to be whole. Broker.

use crate::{
    error::AuditError,
    files::{Chain, Directory, Head, Lock, failed},
    flush::{Flusher, Sync},
    hash::Hash,
    later::Later,
    line,
    record::{Record, Rotate, Start},
    repair,
    time::Timestamp,
};
use std::{
    fs::File,
    io::Write as _,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
};

/// How many daemons may write to one directory at the same time.
const CHAINS: u16 = 1000;

/// How a log is written.
#[derive(Debug, Clone)]
pub struct Options {
    /// When records are forced to the disk.
    pub sync: Sync,
    /// A file that is longer than this is followed by another.
    pub rotate_at: u64,
    /// Which build writes.
    pub build: String,
}

impl Options {
    /// The usual: 64 MiB a file, forced to the disk within 50 ms.
    #[must_use]
    pub fn new(build: impl Into<String>) -> Self {
        Self { sync: Sync::default(), rotate_at: 64 << 20, build: build.into() }
    }
}

/// Proof that a record was written. There is no other way to have one.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what was recorded is now to be done"]
pub struct Ticket {
    head: Head,
}

impl Ticket {
    /// The record's number and the hash of its line.
    #[must_use]
    pub const fn head(&self) -> Head {
        self.head
    }
}

/// One chain, open for writing.
#[derive(Debug)]
pub struct Log {
    chain: Chain,
    writer: Mutex<Writer>,
    later: Later,
}

#[derive(Debug)]
pub(crate) struct Writer {
    directory: Directory,
    chain: Chain,
    options: Options,
    name: String,
    file: Arc<File>,
    length: u64,
    head: Head,
    head_file: Arc<File>,
    flusher: Option<Flusher>,
    failed: Option<String>,
    _lock: Lock,
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
        Err(AuditError::NoFreeChain(CHAINS, directory.to_owned()))
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
        let end = repair::end(&directory, chain)?;
        let flusher = match options.sync {
            Sync::Always => None,
            Sync::Within(time) => {
                Some(Flusher::start(time).map_err(failed("start a thread for", &directory.0))?)
            }
        };
        let start = Record::Start(Start {
            build: options.build.clone(),
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            sync: options.sync.to_string(),
        });
        let mut writer = Writer {
            chain,
            options,
            file: Arc::new(directory.open_segment(&end.name)?),
            length: end.length,
            name: end.name,
            head: end.head,
            head_file: Arc::new(directory.open_head(chain)?),
            flusher,
            failed: None,
            _lock: lock,
            directory,
        };
        writer.directory.sync()?;
        match end.repair {
            Some(repair) => drop(writer.append(&Record::Repair(repair))?),
            // A new chain has its head before its first record: from then on none is a fault.
            None => writer.store(writer.head)?,
        }
        drop(writer.append(&start)?);
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
        self.writer().head
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

    /// Has a record made and written later, of what has happened already: at the latest before the
    /// next record, and when the log is dropped; [`Log::catch_up`] writes it sooner. It is bounded:
    /// with too many that wait, they are written first.
    ///
    /// # Errors
    /// If too many wait and can not be written; the record is then lost.
    pub fn defer(&self, make: impl FnOnce() -> Record + Send + 'static) -> Result<(), AuditError> {
        match self.later.push(Box::new(make)) {
            Ok(()) => Ok(()),
            Err(make) => self.append(&make()).map(drop),
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

impl Writer {
    pub(crate) fn append(&mut self, record: &Record) -> Result<Ticket, AuditError> {
        if let Some(why) = self.failed.clone().or_else(|| self.flusher.as_ref()?.failed()) {
            return Err(AuditError::Failed(why));
        }
        self.check()?;
        if self.length >= self.options.rotate_at {
            self.rotate()?;
        }
        self.write(record)
    }

    /// That the file is still the one that was opened, and as long as it was left.
    fn check(&self) -> Result<(), AuditError> {
        let path = || self.directory.path(&self.name);
        let found = self.file.metadata().map_err(|error| failed("look at", &path())(error))?;
        let what = match found {
            found if found.nlink() == 0 => "removed",
            found if found.len() < self.length => "cut",
            found if found.len() > self.length => "added to",
            _ => return Ok(()),
        };
        Err(AuditError::Disturbed { path: path(), what })
    }

    fn rotate(&mut self) -> Result<(), AuditError> {
        let record = Record::Rotate(Rotate { from: self.name.clone(), bytes: self.length });
        let name = self.chain.segment(self.head.seq + 1);
        let file = Arc::new(self.directory.open_segment(&name)?);
        let length = file.metadata().map_err(failed("look at", &self.directory.path(&name)))?.len();
        if length > 0 {
            let path = self.directory.path(&name);
            return Err(AuditError::Disturbed { path, what: "made" });
        }
        let before = (std::mem::replace(&mut self.name, name), Arc::clone(&self.file), self.length);
        (self.file, self.length) = (file, 0);
        if let Err(error) = self.write(&record).map(drop) {
            let path = self.directory.path(&self.name);
            (self.name, self.file, self.length) = before;
            // An empty file that stays is in nobody's way but the next rotation's, which says so.
            std::fs::remove_file(path).unwrap_or_default();
            return Err(error);
        }
        Ok(())
    }

    fn write(&mut self, record: &Record) -> Result<Ticket, AuditError> {
        let (seq, prev) = (self.head.seq + 1, self.head.hash);
        let line = line::render(seq, Timestamp::now(), prev, record)?;
        let head = Head { seq, hash: Hash::of(&line) };
        if let Err(error) = (&*self.file).write_all(&line) {
            let error = failed("write to", &self.directory.path(&self.name))(error);
            self.take_back(&error);
            return Err(error);
        }
        if let Err(error) = self.store(head) {
            self.take_back(&error);
            // It may have been written in part.
            if self.store(self.head).is_err() {
                self.failed = Some(error.to_string());
            }
            return Err(error);
        }
        (self.head, self.length) = (head, self.length + line.len() as u64);
        if let Err(error) = self.force() {
            self.failed = Some(error.to_string());
            return Err(error);
        }
        Ok(Ticket { head })
    }

    fn store(&self, head: Head) -> Result<(), AuditError> {
        let path = self.directory.path(&self.chain.head());
        head.store(&self.head_file).map_err(failed("write to", &path))
    }

    /// Removes what was written of a line. If even that fails the end of the log is not known.
    fn take_back(&mut self, why: &AuditError) {
        if self.file.set_len(self.length).is_err() {
            self.failed = Some(why.to_string());
        }
    }

    fn force(&self) -> Result<(), AuditError> {
        match &self.flusher {
            Some(flusher) => {
                flusher.dirty([&self.file, &self.head_file]);
                Ok(())
            }
            None => self.file.sync_data().map_err(|error| {
                failed("force to the disk", &self.directory.path(&self.name))(error)
            }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
