//! What can go wrong with the log: when writing (and then the call is refused), when reading.

use crate::{chain::Chain, flush::SyncError};
use std::{io, path::PathBuf};

/// Why there is no ticket, or no log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Something could not be done with a file of the log.
    #[error("can not {act} {path}: {source}")]
    Io {
        /// What.
        act: &'static str,
        /// With what.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Another process writes this chain.
    #[error("chain {0} is being written by another process")]
    Locked(Chain),
    /// Every chain of the directory is being written by another process.
    #[error("all {0} chains of {1} are being written by other processes")]
    NoFreeChain(u16, PathBuf),
    /// The file was changed or removed by somebody else while it was open.
    #[error("{path} was {what} by somebody else")]
    Disturbed {
        /// The file.
        path: PathBuf,
        /// What was done to it.
        what: &'static str,
    },
    /// An earlier failure left the end of the log unknown; only a new start repairs it.
    #[error("the log failed earlier: {0}")]
    Failed(String),
    /// A record that can not be written as JSON.
    #[error("the record can not be written: {0}")]
    Record(#[from] serde_json::Error),
    /// When to force records to the disk.
    #[error(transparent)]
    Sync(#[from] SyncError),
}

/// Why the log can not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Something could not be done with a file of the log.
    #[error("can not {act} {path}: {source}")]
    Io {
        /// What.
        act: &'static str,
        /// With what.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A line that is not a record.
    #[error("{file}:{line} is not a record: {why}")]
    NotARecord {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
}
