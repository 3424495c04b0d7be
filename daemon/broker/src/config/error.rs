//! Why a configuration file is no good. Broker, pure.

use super::place::Place;
use std::{io, path::PathBuf};

/// Why the configuration is no good.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It could not be read.
    #[error("can not read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It says something that is not known, or not as it should be.
    #[error("{at}: {}{why}{}", named(.key), hinted(.suggestion))]
    Invalid {
        /// Where.
        at: Place,
        /// The key with its section; empty if it can not be told.
        key: String,
        /// What is wrong.
        why: String,
        /// What to do instead; empty if there is nothing to say.
        suggestion: String,
    },
}

fn named(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

fn hinted(suggestion: &str) -> String {
    if suggestion.is_empty() { String::new() } else { format!("; {suggestion}") }
}
