//! Errors of the configuration file. Pure: no I/O.

use super::place::ConfigPosition;
use std::{io, path::PathBuf};

/// An error in the configuration file, or from reading it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("can not read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },
    /// A key is unknown, or its value is not valid.
    #[error("{at}: {}{why}{}", named(.key), hinted(.suggestion))]
    Invalid {
        /// The place of the error.
        at: ConfigPosition,
        /// The key with its section; empty if it is not known.
        key: String,
        /// The reason why it is not valid.
        why: String,
        /// The advice on what to do instead; empty if there is none.
        suggestion: String,
    },
}

fn named(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

fn hinted(suggestion: &str) -> String {
    if suggestion.is_empty() { String::new() } else { format!("; {suggestion}") }
}
