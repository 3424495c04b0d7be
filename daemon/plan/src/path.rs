//! The path type used in messages between the processes.

use bincode::{Decode, Encode};
use std::{ffi::OsStr, fmt, os::unix::ffi::OsStrExt as _};

/// A path of any bytes but NUL.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Path(pub Vec<u8>);

impl Path {
    /// Returns the path as the standard library's type.
    #[must_use]
    pub fn as_path(&self) -> &std::path::Path {
        std::path::Path::new(OsStr::from_bytes(&self.0))
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_path().fmt(f)
    }
}

impl<P: AsRef<OsStr>> From<P> for Path {
    fn from(path: P) -> Self {
        Self(path.as_ref().as_bytes().to_vec())
    }
}
