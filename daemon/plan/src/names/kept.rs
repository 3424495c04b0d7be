//! What a cell keeps of a search for hidden names, for the next in the same workspace. Pure.

use super::Names;
use bincode::{Decode, Encode};

/// All that is known of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Kept {
    /// What was looked for.
    pub names: Names,
    /// Each directory before those in it.
    pub directories: Vec<KeptDirectory>,
}

/// A directory as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct KeptDirectory {
    /// How many are above it.
    pub depth: u32,
    /// Its name; empty for the workspace itself.
    pub name: Vec<u8>,
    /// Inode.
    pub ino: u64,
    /// When what is in it changed last.
    pub mtime: (i64, u32),
    /// When anything of it changed last.
    pub ctime: (i64, u32),
    /// Its next change will show in these times.
    pub settled: bool,
    /// What in it is hidden.
    pub hits: Vec<Vec<u8>>,
}
