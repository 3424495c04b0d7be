//! The result of a search for hidden names that a cell stores for the next search in the same
//! workspace. Pure: no I/O.

use super::Names;
use bincode::{Decode, Encode};

/// The stored result for one workspace.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StoredScan {
    /// The names that were searched for.
    pub names: Names,
    /// The directories; each one comes before those in it.
    pub directories: Vec<StoredDirectory>,
}

/// A directory as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StoredDirectory {
    /// The number of directories above it.
    pub depth: u32,
    /// The directory's name; empty for the workspace itself.
    pub name: Vec<u8>,
    /// The inode number.
    pub ino: u64,
    /// Modification time, in seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Change time, in seconds and nanoseconds.
    pub ctime: (i64, u32),
    /// True if the next change of the directory is certain to alter these times.
    pub settled: bool,
    /// The names in it that are hidden.
    pub hits: Vec<Vec<u8>>,
}
