//! A place in a configuration file, and a value with its place. Broker, pure.

use std::{fmt, path::Path, sync::Arc};

/// A place in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<Path>,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// A value that was written, and where.
#[derive(Debug, Clone)]
pub(crate) struct Written<T> {
    pub(crate) value: T,
    pub(crate) at: Place,
}
