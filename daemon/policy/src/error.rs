//! Why a text is not a profile: file, line, column, key, what is wrong and what to do.

use crate::{Origin, syscalls::SyscallError};

/// Why a text is not a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A name that can not stand in a request.
    #[error("{name:?} can not be a profile's name: {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A key is unknown or missing, its value makes no sense, or it contradicts another.
    #[error("{at}: {}{why}{}", named(.key), hinted(.suggestion))]
    Invalid {
        /// Where.
        at: Box<Origin>,
        /// The key with its section, as `limits.memory`; empty if it can not be told.
        key: String,
        /// What is wrong.
        why: String,
        /// What to do instead; empty if there is nothing to say.
        suggestion: String,
    },
    /// A test of the profile's own that its policy does not pass.
    #[error("{at}: tests: {test:?} does not hold: {why}")]
    Test {
        /// Where.
        at: Box<Origin>,
        /// The test.
        test: String,
        /// What the policy answers.
        why: String,
    },
    /// A second profile of one name.
    #[error("profile {0:?} is there already; give yours another name")]
    Duplicate(String),
    /// The built-in list of system calls is broken.
    #[error("the list of system calls: {0}")]
    Syscalls(#[from] SyscallError),
    /// The profile has no canonical form to digest.
    #[error("profile {0:?} can not be digested: {1}")]
    Digest(String, String),
}

fn named(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

fn hinted(suggestion: &str) -> String {
    if suggestion.is_empty() { String::new() } else { format!("; {suggestion}") }
}
