//! Writes a chain, one line at a time. A line is written only when the one before is known to be
//! complete. Runs in the broker.

use crate::{
    chain::Chain,
    error::AuditError,
    files::{Directory, Head, Lock, failed},
    flush::{Flusher, Sync},
    hash::Hash,
    key::SigningKey,
    line::{self, Link},
    lines::next_line,
    observer::{RecordObserver, WrittenRecord},
    record::{Record, Rotate, Start},
    repair,
    time::Timestamp,
};
use palisade_programs::named;
use std::{
    fs::File,
    io::{BufReader, Write as _},
    os::unix::fs::MetadataExt as _,
    sync::Arc,
    time::{Duration, Instant},
};

/// The number of records after which the next signature is written.
const SIGN_RECORDS: u64 = 1000;

/// The time after which the next signature is written, before the next record.
const SIGN_TIME: Duration = Duration::from_secs(60);

/// The settings for writing a log.
#[derive(Debug, Clone)]
pub struct Options {
    /// The longest delay before records are flushed to disk.
    pub sync: Sync,
    /// The length in bytes at which a new file is started.
    pub rotate_at: u64,
    /// The age of a file's first record at which a new file is started.
    pub rotate_after: Duration,
    /// The key that signs heads; without one they are not signed.
    pub key: Option<SigningKey>,
    /// The function that is told of each record, if any.
    pub observer: Option<RecordObserver>,
    /// The build of the daemon.
    pub build: String,
}

impl Options {
    /// Returns the default options: 64 MiB or a day per file, flushed to disk within 50 ms, heads
    /// not signed.
    #[must_use]
    pub fn new(build: impl Into<String>) -> Self {
        let rotate_after = Duration::from_secs(24 * 60 * 60);
        let (sync, build) = (Sync::default(), build.into());
        Self { sync, rotate_at: 64 << 20, rotate_after, key: None, observer: None, build }
    }
}

/// Proof that a record was written. It can not be obtained in any other way.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what was recorded is now to be done"]
pub struct Ticket {
    head: Head,
    bytes: u64,
}

impl Ticket {
    /// Returns the record's number and the hash of its line.
    #[must_use]
    pub const fn head(&self) -> Head {
        self.head
    }

    /// Returns the length of the line.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The end of a chain, to which records are appended one at a time.
#[derive(Debug)]
pub(crate) struct ChainWriter {
    directory: Directory,
    chain: Chain,
    options: Options,
    name: String,
    file: Arc<File>,
    length: u64,
    /// The time of the file's first record.
    began: Timestamp,
    head: Head,
    head_file: Arc<File>,
    /// The number of records since the last signature.
    unsigned: u64,
    signed_at: Instant,
    flusher: Option<Flusher>,
    failed: Option<String>,
    _lock: Lock,
}

impl ChainWriter {
    /// Opens a chain. Repairs its end if a crash left an incomplete record, and records the start.
    pub(crate) fn open(
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
        let file = directory.open_segment(&end.name)?;
        let first = next_line(&mut BufReader::new(&file));
        let first = first.map_err(failed("read", &directory.path(&end.name)))?;
        let began = first.and_then(|line| Link::parse(&line)).map(|link| link.time);
        let mut writer = Self {
            chain,
            options,
            file: Arc::new(file),
            length: end.length,
            began: began.unwrap_or_else(Timestamp::now),
            name: end.name,
            head: end.head,
            head_file: Arc::new(directory.open_head(chain)?),
            unsigned: 0,
            signed_at: Instant::now(),
            flusher,
            failed: None,
            _lock: lock,
            directory,
        };
        writer.directory.sync()?;
        match end.repair {
            Some(repair) => drop(writer.append(&Record::Repair(repair))?),
            // A new chain gets its head before its first record: from then on a missing head is a
            // fault.
            None => writer.store(writer.head)?,
        }
        drop(writer.append(&start)?);
        writer.sign()?;
        Ok(writer)
    }

    /// Returns the last record.
    pub(crate) const fn head(&self) -> Head {
        self.head
    }

    pub(crate) fn append(&mut self, record: &Record) -> Result<Ticket, AuditError> {
        if let Some(why) = self.failed.clone().or_else(|| self.flusher.as_ref()?.failed()) {
            return Err(AuditError::Failed(why));
        }
        self.check()?;
        let old = || Timestamp::now().since(self.began) >= self.options.rotate_after;
        if self.length >= self.options.rotate_at || self.length > 0 && old() {
            // So the last record of each complete file, and of each archive, is a signature.
            self.sign()?;
            self.rotate()?;
        } else if self.unsigned >= SIGN_RECORDS || self.signed_at.elapsed() >= SIGN_TIME {
            self.sign()?;
        }
        let ticket = self.write(record)?;
        self.unsigned += 1;
        Ok(ticket)
    }

    /// Writes a signature of the last record, if there is a key and the record is not one.
    pub(crate) fn sign(&mut self) -> Result<(), AuditError> {
        let Some(key) = self.options.key.as_ref().filter(|_| self.unsigned > 0) else {
            return Ok(());
        };
        let signature = key.sign(signed_text(self.chain, self.head).as_bytes());
        drop(self.write(&Record::Signature(signature))?);
        (self.unsigned, self.signed_at) = (0, Instant::now());
        Ok(())
    }

    /// Checks that the file is still the one that was opened, and has the expected length.
    fn check(&self) -> Result<(), AuditError> {
        let path = || self.directory.path(&self.name);
        let found = self.file.metadata().map_err(|error| failed("look at", &path())(error))?;
        let what = match found {
            found if found.nlink() == 0 => "removed",
            found if found.len() < self.length => "cut",
            found if found.len() > self.length => "added to",
            _ => return Ok(()),
        };
        Err(AuditError::Disturbed { path: named(&path()), what })
    }

    fn rotate(&mut self) -> Result<(), AuditError> {
        let record = Record::Rotate(Rotate { from: self.name.clone(), bytes: self.length });
        let name = self.chain.segment(self.head.seq + 1);
        let file = Arc::new(self.directory.open_segment(&name)?);
        let length = file.metadata().map_err(failed("look at", &self.directory.path(&name)))?.len();
        if length > 0 {
            let path = named(&self.directory.path(&name));
            return Err(AuditError::Disturbed { path, what: "made" });
        }
        let before = (std::mem::replace(&mut self.name, name), Arc::clone(&self.file), self.length);
        (self.file, self.length) = (file, 0);
        if let Err(error) = self.write(&record).map(drop) {
            let path = self.directory.path(&self.name);
            (self.name, self.file, self.length) = before;
            // If the empty file remains, only the next rotation fails because of it, and reports
            // it.
            std::fs::remove_file(path).unwrap_or_default();
            return Err(error);
        }
        self.began = Timestamp::now();
        Ok(())
    }

    fn write(&mut self, record: &Record) -> Result<Ticket, AuditError> {
        let (seq, prev) = (self.head.seq + 1, self.head.hash);
        let time = Timestamp::now();
        let line = line::render(seq, time, prev, record)?;
        let head = Head { seq, hash: Hash::of(&line) };
        if let Err(error) = (&*self.file).write_all(&line) {
            let error = failed("write to", &self.directory.path(&self.name))(error);
            self.remove_partial_line(&error);
            return Err(error);
        }
        if let Err(error) = self.store(head) {
            self.remove_partial_line(&error);
            // The head may have been written in part.
            if self.store(self.head).is_err() {
                self.failed = Some(error.to_string());
            }
            return Err(error);
        }
        let bytes = line.len() as u64;
        (self.head, self.length) = (head, self.length + bytes);
        if let Err(error) = self.force() {
            self.failed = Some(error.to_string());
            return Err(error);
        }
        if let Some(observer) = &self.options.observer {
            observer.tell(&WrittenRecord { chain: self.chain, seq, time, record, line: &line });
        }
        Ok(Ticket { head, bytes })
    }

    fn store(&self, head: Head) -> Result<(), AuditError> {
        let path = self.directory.path(&self.chain.head());
        head.store(&self.head_file).map_err(failed("write to", &path))
    }

    /// Removes the part of a line that was written. If that fails too, the end of the log is
    /// unknown.
    fn remove_partial_line(&mut self, why: &AuditError) {
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

/// Returns the text that a signature of a head signs.
pub(crate) fn signed_text(chain: Chain, head: Head) -> String {
    format!("palisade audit head {chain} {head}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::{entries, file, good, note, options};
    use std::path::Path;

    fn opened(at: &Path, options: Options) -> ChainWriter {
        let directory = Directory::make(at).unwrap();
        let lock = directory.lock(Chain(0)).unwrap().unwrap();
        ChainWriter::open(directory, Chain(0), lock, options).unwrap()
    }

    #[test]
    fn a_failed_write_leaves_no_trace_and_the_next_one_succeeds() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = opened(directory.path(), options());
        drop(writer.append(&note(1)).unwrap());
        let before = writer.head();
        // A read-only descriptor simulates a full disk.
        let path = file(directory.path());
        let whole = std::mem::replace(&mut writer.file, Arc::new(File::open(&path).unwrap()));
        let refused = writer.append(&note(2));
        assert!(matches!(refused, Err(AuditError::Io { act: "write to", .. })), "{refused:?}");
        assert_eq!(writer.head(), before);
        (writer.file, writer.failed) = (whole, None);
        drop(writer.append(&note(3)).unwrap());
        drop(writer);
        good(directory.path());
        let last = entries(&path).remove(2);
        assert_eq!((last.seq, last.record), (3, note(3)));
    }

    #[test]
    fn with_always_each_record_is_forced_to_the_disk_first() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = opened(directory.path(), Options { sync: Sync::Always, ..options() });
        drop(writer.append(&note(1)).unwrap());
        assert!(writer.flusher.is_none());
        good(directory.path());
    }
}
