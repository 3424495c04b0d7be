//! A place in a configuration file, and a value with its place. Pure: no I/O.

use std::{fmt, path::Path, sync::Arc};

/// A place in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigPosition {
    /// The file.
    pub file: Arc<Path>,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
}

impl fmt::Display for ConfigPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// A value of the file, and its place.
#[derive(Debug, Clone)]
pub(crate) struct LocatedValue<T> {
    pub(crate) value: T,
    pub(crate) at: ConfigPosition,
}
