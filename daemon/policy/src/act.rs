//! The operations that a program may attempt, and the decision about one. Pure: no I/O.

use std::{fmt, str::FromStr};

/// An operation that a program may attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Open a file to read it, or list a directory.
    Read,
    /// Create or change a file.
    Write,
    /// Run a program.
    Execute,
    /// Open a TCP connection.
    Connect,
}

impl Act {
    /// All operations.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Execute, Self::Connect];

    /// Returns the name of the operation as profiles and the command line write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "exec",
            Self::Connect => "connect",
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Act {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|act| act.name() == text)
            .ok_or_else(|| format!("{text:?} is not one of read, write, exec and connect"))
    }
}

/// The decision about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// No layer denies the operation.
    Allow,
    /// No layer denies the operation, and approvers are asked about it.
    Ask,
    /// At least one layer denies the operation.
    Deny,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}
