//! Errors of the log: of writing, for which the call is refused, and of reading.

use crate::{chain::Chain, flush::SyncError};
use std::{io, path::PathBuf};

/// An error from opening the log or writing a record.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// An operation on a file of the log failed.
    #[error("can not {act} {path}: {source}")]
    Io {
        /// The operation.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another process writes this chain.
    #[error("chain {0} is being written by another process")]
    Locked(Chain),
    /// Every chain of the directory is being written by another process.
    #[error("all {0} chains of {1} are being written by other processes")]
    NoFreeChain(u16, PathBuf),
    /// Somebody else changed or deleted the file while it was open.
    #[error("{path} was {what} by another process")]
    Disturbed {
        /// The file.
        path: PathBuf,
        /// The act of the other process: made, removed, cut or added to.
        what: &'static str,
    },
    /// The last record was written by another version of the daemon.
    #[error(
        "record {seq} of {file} can not be understood ({why}): another version of the daemon wrote \
         it. Start that version or a newer one, or move the log's directory away"
    )]
    UnknownRecord {
        /// The file's name.
        file: String,
        /// The record's number.
        seq: u64,
        /// The reason.
        why: String,
    },
    /// An earlier failure left the end of the log unknown. Only a restart repairs it.
    #[error("the log failed earlier: {0}")]
    Failed(String),
    /// A record could not be written as JSON.
    #[error("the record can not be written: {0}")]
    Record(#[from] serde_json::Error),
    /// The setting for flushing records is invalid.
    #[error(transparent)]
    Sync(#[from] SyncError),
}

/// An error from reading the log.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An operation on a file of the log failed.
    #[error("can not {act} {path}: {source}")]
    Io {
        /// The operation.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// An archive, or its manifest, is damaged, so that its records can not be read.
    #[error("archive {file} can not be read: {why}")]
    Archive {
        /// The archive's name.
        file: String,
        /// The reason.
        why: String,
    },
    /// A line is not a record.
    #[error("{file}:{line} is not a record: {why}")]
    NotARecord {
        /// The file's name.
        file: String,
        /// The line number, from 1.
        line: u64,
        /// The reason.
        why: String,
    },
}
