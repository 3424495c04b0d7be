//! Errors of reading a repository. A caller that gets one must treat everything as not kept.

use std::io;

/// An error for which a repository, or one of its files, cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// A file or directory of the repository cannot be opened or read.
    #[error("cannot read {path} of the repository")]
    Io {
        /// The path below the repository's directory.
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// Reading would take more work than the bounds allow.
    #[error("{what} beyond the bound of {limit}")]
    Bound {
        /// The unit that the limit counts.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The repository uses a feature that this crate does not support.
    #[error("the repository uses {what}, which is not supported")]
    Unsupported {
        /// The feature and, if it has one, its value.
        what: String,
    },
    /// A file of the repository is not what git writes.
    #[error("{path} of the repository is malformed: {reason}")]
    Malformed {
        /// The path below the repository's directory.
        path: String,
        /// The reason.
        reason: &'static str,
    },
}

impl RepositoryError {
    pub(crate) fn io(path: &[u8], source: impl Into<io::Error>) -> Self {
        let path = String::from_utf8_lossy(path).into_owned();
        RepositoryError::Io { path, source: source.into() }
    }

    pub(crate) fn malformed(path: &[u8], reason: &'static str) -> Self {
        RepositoryError::Malformed { path: String::from_utf8_lossy(path).into_owned(), reason }
    }

    pub(crate) fn bound(what: &'static str, limit: impl TryInto<u64>) -> Self {
        RepositoryError::Bound { what, limit: limit.try_into().unwrap_or(u64::MAX) }
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        RepositoryError::Unsupported { what: what.into() }
    }
}
