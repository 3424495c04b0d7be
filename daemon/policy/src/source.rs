//! The origin of a profile's text, and source positions in it. The caller supplies both. Pure: no
//! I/O.

use serde::Serialize;
use std::fmt;

/// The users that could have written a profile's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The profile is part of the program.
    Builtin,
    /// Root only: root owns the file and its directory, and nobody else may write either.
    Root,
    /// The user who runs the daemon that reads the file. It can only grant what that user may do
    /// anyway.
    Own,
    /// Other users could have written the file.
    Other,
}

impl Owner {
    /// Returns `true` if a profile of this owner may widen what it extends.
    pub(crate) const fn may_widen(self) -> bool {
        match self {
            Self::Builtin | Self::Root | Self::Own => true,
            Self::Other => false,
        }
    }
}

/// A profile's text, with its name, file and owner.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The profile's name.
    pub name: &'a str,
    /// The file, as errors and explanations name it.
    pub file: &'a str,
    /// The contents of the file.
    pub text: &'a str,
    /// The users that could have written the file.
    pub owner: Owner,
}

/// A position in a profile's file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Origin {
    /// The name of the profile.
    pub profile: String,
    /// The file of the profile.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A value and the position where it is written; no position for a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct WithOrigin<T> {
    pub(crate) value: T,
    #[serde(skip)]
    pub(crate) at: Option<Origin>,
}

impl<T> WithOrigin<T> {
    pub(crate) const fn default(value: T) -> Self {
        Self { value, at: None }
    }
}
