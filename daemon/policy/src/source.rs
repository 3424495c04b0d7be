//! Where a profile's text comes from, and where in it something was said. Facts handed in: nothing
//! is looked up here.

use serde::Serialize;
use std::fmt;

/// Who could have written a profile's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// It came with the program.
    Builtin,
    /// Root alone: the file and its directory are root's, and nobody else may write either.
    Root,
    /// Somebody else too.
    Other,
}

impl Owner {
    /// Whether a profile of this owner may widen what it extends.
    pub(crate) const fn may_widen(self) -> bool {
        match self {
            Self::Builtin | Self::Root => true,
            Self::Other => false,
        }
    }
}

/// A profile's text, with what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The profile's name.
    pub name: &'a str,
    /// The file, as errors and explanations name it.
    pub file: &'a str,
    /// What is in it.
    pub text: &'a str,
    /// Who could have written it.
    pub owner: Owner,
}

/// The place in a profile's file where something is said.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Origin {
    /// The profile.
    pub profile: String,
    /// Its file.
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

/// A value and where it was said; none for a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Said<T> {
    pub(crate) value: T,
    #[serde(skip)]
    pub(crate) at: Option<Origin>,
}

impl<T> Said<T> {
    pub(crate) const fn default(value: T) -> Self {
        Self { value, at: None }
    }
}
