//! What a commit of a transaction writes down before its first step, so that one that is cut off can
//! be taken back by whoever finds it. It is kept on a disk, where a later build may find it.
//!
//! Paths are from the workspace, names those in the directory that the journal is in.

use crate::change::Past;
use bincode::{Decode, Encode};

/// The form of what follows; another is left alone.
pub const VERSION: u32 = 1;

/// The first part of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Head {
    /// [`VERSION`].
    pub version: u32,
    /// The digest of the change that was to be done.
    pub digest: [u8; 32],
    /// How many steps follow.
    pub steps: u64,
}

/// To know something again, also on a device that has another number by then.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Node {
    /// Inode.
    pub ino: u64,
    /// Bytes, of a regular file.
    pub size: u64,
    /// When its contents changed last.
    pub mtime: (i64, u32),
    /// Of a directory: over all that is in it.
    pub below: Option<[u8; 32]>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Entry {
    /// Something new takes the place of something, or of nothing.
    Place {
        /// Where.
        path: Vec<u8>,
        /// The new thing's name; then that of what was replaced.
        aside: Vec<u8>,
        /// The new thing.
        new: Node,
        /// The inode of what is replaced.
        old: Option<u64>,
        /// Directories of it that get their mode last: from its top, and the mode.
        late: Vec<(Vec<u8>, u32)>,
    },
    /// Something is taken away.
    Take {
        /// Where.
        path: Vec<u8>,
        /// Its name then.
        kept: Vec<u8>,
        /// Or its name in the directory that it was in, if it can not be moved.
        beside: Vec<u8>,
        /// Its inode.
        old: u64,
    },
    /// Something gets another name.
    Move {
        /// The old one.
        from: Vec<u8>,
        /// The new one.
        to: Vec<u8>,
        /// Its inode.
        ino: u64,
    },
    /// Something gets another mode.
    Mode {
        /// Where.
        path: Vec<u8>,
        /// Its inode.
        ino: u64,
        /// The old one.
        old: u32,
        /// The new one.
        new: u32,
    },
    /// A file gets another time.
    Touch {
        /// Where.
        path: Vec<u8>,
        /// Its inode.
        ino: u64,
        /// The old one.
        old: (i64, u32),
        /// The new one.
        new: (i64, u32),
    },
    /// A file gets more at its end, and stays the same file.
    Append {
        /// Where.
        path: Vec<u8>,
        /// The name of what it gets.
        aside: Vec<u8>,
        /// Its inode.
        ino: u64,
        /// What it was.
        old: Past,
        /// What it is then.
        new: Past,
    },
}
