//! Errors of the profile loader: file, line, column, key, the problem and a suggestion. Pure: no
//! I/O.

use crate::{Origin, syscalls::SyscallError};

/// The reason why a text is not a valid profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The name can not be used as a profile name in a request.
    #[error("{name:?} is not a valid profile name: {why}")]
    Name {
        /// The name.
        name: String,
        /// The reason why the name is invalid.
        why: String,
    },
    /// A key is unknown or missing, its value is invalid, or it contradicts another key.
    #[error("{at}: {}{why}{}", named(.key), hinted(.suggestion))]
    Invalid {
        /// The source position.
        at: Box<Origin>,
        /// The key with its section, such as `limits.memory`; empty if it is not known.
        key: String,
        /// The problem.
        why: String,
        /// The suggested correction; empty if there is none.
        suggestion: String,
    },
    /// One of the profile's own tests fails.
    #[error("{at}: tests: {test:?} fails: {why}")]
    Test {
        /// The source position of the test.
        at: Box<Origin>,
        /// The text of the test.
        test: String,
        /// The actual decision and its reason.
        why: String,
    },
    /// Two profiles have the same name.
    #[error("profile {0:?} already exists; choose another name")]
    Duplicate(String),
    /// The built-in list of system calls is invalid.
    #[error("the list of system calls: {0}")]
    Syscalls(#[from] SyscallError),
    /// The profile can not be serialized to its canonical form, so it has no digest.
    #[error("profile {0:?} can not be digested: {1}")]
    Digest(String, String),
}

fn named(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

fn hinted(suggestion: &str) -> String {
    if suggestion.is_empty() { String::new() } else { format!("; {suggestion}") }
}
