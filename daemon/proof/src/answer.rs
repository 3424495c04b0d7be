//! The outcome of an attempt, as answered by the kernel.

use nix::errno::Errno;
use std::{fmt, io};

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The attempt succeeded.
    Done,
    /// The kernel refused it with this error.
    Refused(Errno),
    /// Something was found, but not what was looked for.
    Another,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("ok"),
            Self::Refused(errno) => write!(f, "{errno:?}"),
            Self::Another => f.write_str("another"),
        }
    }
}

/// Converts a result to an answer of the kernel.
pub(crate) fn answer<T>(result: io::Result<T>) -> Answer {
    match result {
        Ok(_) => Answer::Done,
        Err(error) => Answer::Refused(Errno::from_raw(error.raw_os_error().unwrap_or(0))),
    }
}
