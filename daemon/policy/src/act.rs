//! What a program would do, and what comes of it.

use std::{fmt, str::FromStr};

/// What a program would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Open a file to read it, or list a directory.
    Read,
    /// Make a file, or change one.
    Write,
    /// Run a program.
    Execute,
    /// Open a TCP connection.
    Connect,
}

impl Act {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Execute, Self::Connect];

    /// As it is written.
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
            .ok_or_else(|| format!("{text:?} is none of read, write, exec and connect"))
    }
}

/// What comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// No layer stands in the way.
    Allow,
    /// One does.
    Deny,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}
