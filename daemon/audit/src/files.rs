//! The files of a log directory: chains, their files in order, their heads and locks.
//!
//! A directory has one chain for each daemon that ever wrote at the same time as another. The files
//! are `c0000-000000000001.jsonl` (chain, number of the first record), `c0000.head.json`,
//! `c0000.lock`, and `c0000-….jsonl.torn-N` for what a repair cut off.

use crate::{
    chain::Chain,
    error::{AuditError, ReadError},
    hash::Hash,
};
use palisade_programs::named;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    str::FromStr,
};

/// The last record of a chain, which an auditor notes elsewhere as `SEQ:HASH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The record's number; 0 if there is none yet.
    pub seq: u64,
    /// The hash of the record's line.
    pub hash: Hash,
}

impl Head {
    pub(crate) const NONE: Self = Self { seq: 0, hash: Hash::ZERO };

    /// Formats the contents of the head file. The length is always the same, so that one small
    /// write replaces it in place. Such a write is never cut in two when the daemon ends.
    fn render(self) -> String {
        format!("{{\"seq\":{:>20},\"hash\":\"{}\"}}\n", self.seq, self.hash)
    }

    pub(crate) fn store(self, file: &File) -> io::Result<()> {
        file.write_all_at(self.render().as_bytes(), 0)
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl FromStr for Head {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not SEQ:HASH, as `palisade audit verify` prints it");
        let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
        let (seq, hash) = (seq.parse().map_err(|_| wrong())?, hash.parse().map_err(|_| wrong())?);
        Ok(Self { seq, hash })
    }
}

/// The directory of a log.
#[derive(Debug, Clone)]
pub(crate) struct Directory(pub(crate) PathBuf);

/// The exclusive right to write a chain, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// The presence of a process that writes a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriterPresence {
    None,
    Alive,
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Returns a function for `map_err` when writing.
pub(crate) fn failed<'a>(
    act: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> AuditError + 'a {
    move |source| AuditError::Io { act, path: named(path), source }
}

/// Returns a function for `map_err` when reading.
pub(crate) fn unread<'a>(
    act: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> ReadError + 'a {
    move |source| ReadError::Io { act, path: named(path), source }
}

impl Directory {
    /// Creates the directory, accessible only to its owner.
    pub(crate) fn make(path: &Path) -> Result<Self, AuditError> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true).create(path).map_err(failed("make", path))?;
        Ok(Self(path.to_owned()))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Flushes the directory, with new file names, to disk.
    pub(crate) fn sync(&self) -> Result<(), AuditError> {
        let synced = File::open(&self.0).and_then(|directory| directory.sync_all());
        synced.map_err(failed("sync", &self.0))
    }

    /// Acquires the right to write a chain; `None` if another process has it.
    pub(crate) fn lock(&self, chain: Chain) -> Result<Option<Lock>, AuditError> {
        self.lock_file(&chain.lock())
    }

    /// Acquires the lock on a file; `None` if another process has it.
    pub(crate) fn lock_file(&self, name: &str) -> Result<Option<Lock>, AuditError> {
        let path = self.path(name);
        let file = private().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(failed("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(failed("lock", &path)(errno.into())),
        }
    }

    /// Finds out whether a process writes a chain. If that is not possible, the answer is no.
    pub(crate) fn writer(&self, chain: Chain) -> WriterPresence {
        let Ok(file) = private().read(true).open(self.path(&chain.lock())) else {
            return WriterPresence::None;
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => WriterPresence::Alive,
            Ok(()) | Err(_) => WriterPresence::None,
        }
    }

    /// Returns all chains with their files in order. A chain that has only a head has no files.
    pub(crate) fn chains(&self) -> Result<BTreeMap<Chain, Vec<String>>, ReadError> {
        let mut chains: BTreeMap<Chain, Vec<String>> = BTreeMap::new();
        for entry in fs::read_dir(&self.0).map_err(unread("read", &self.0))? {
            let name = entry.map_err(unread("read", &self.0))?.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some((chain, _)) = Chain::of_segment(name) {
                chains.entry(chain).or_default().push(name.to_owned());
            } else if let Some(chain) = name.strip_suffix(".head.json") {
                let chain = chain.strip_prefix('c').and_then(|number| number.parse().ok());
                chain.map(|chain| chains.entry(Chain(chain)).or_default());
            }
        }
        chains.values_mut().for_each(|files| files.sort());
        Ok(chains)
    }

    /// Returns the files of a chain in order.
    pub(crate) fn segments(&self, chain: Chain) -> Result<Vec<String>, ReadError> {
        Ok(self.chains()?.remove(&chain).unwrap_or_default())
    }

    /// Reads the head file; `None` if it is missing or invalid.
    pub(crate) fn head(&self, chain: Chain) -> Result<Option<Head>, ReadError> {
        let path = self.path(&chain.head());
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unread("read", &path)(error)),
        }
    }

    /// Opens the head file for replacing its contents.
    pub(crate) fn open_head(&self, chain: Chain) -> Result<File, AuditError> {
        let path = self.path(&chain.head());
        let file = private().write(true).create(true).truncate(false).open(&path);
        file.map_err(failed("open", &path))
    }

    /// Opens a file of the log for appending.
    pub(crate) fn open_segment(&self, name: &str) -> Result<File, AuditError> {
        let path = self.path(name);
        let file = private().read(true).append(true).create(true).open(&path);
        file.map_err(failed("open", &path))
    }

    /// Creates a file for writing; replaces one that an interrupted run left.
    pub(crate) fn create(&self, name: &str) -> Result<File, AuditError> {
        let path = self.path(name);
        let file = private().write(true).create(true).truncate(true).open(&path);
        file.map_err(failed("make", &path))
    }

    /// Renames a file of the directory.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), AuditError> {
        let (from, to) = (self.path(from), self.path(to));
        fs::rename(&from, &to).map_err(failed("rename", &from))
    }

    /// Writes a whole file, and forces its contents to disk.
    pub(crate) fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), AuditError> {
        let path = self.path(name);
        let kept = private().write(true).create(true).truncate(true).open(&path).and_then(|file| {
            file.write_all_at(bytes, 0)?;
            file.sync_all()
        });
        kept.map_err(failed("write", &path))
    }
}
