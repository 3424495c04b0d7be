//! What came of an attempt: the kernel's answer.

use nix::errno::Errno;
use std::{fmt, io};

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// The kernel refused it.
    Refused(Errno),
    /// What was found is not what was looked for.
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

/// As an answer of the kernel's.
pub(crate) fn told<T>(result: io::Result<T>) -> Answer {
    match result {
        Ok(_) => Answer::Done,
        Err(error) => Answer::Refused(Errno::from_raw(error.raw_os_error().unwrap_or(0))),
    }
}
