//! The journal that a commit of a transaction writes before its first step. Whoever finds an
//! interrupted commit can roll it back with the journal. It is stored on disk, so a later build may
//! read it.
//!
//! Paths are relative to the workspace. Names are relative to the directory that holds the journal.

use crate::change::InodeState;
use bincode::{Decode, Encode};

/// The version of the journal's format. A journal with another version is left alone.
pub const VERSION: u32 = 1;

/// The first record of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Head {
    /// The journal's [`VERSION`].
    pub version: u32,
    /// The digest of the change being committed.
    pub digest: [u8; 32],
    /// The number of step records that follow.
    pub steps: u64,
}

/// Identifies a file system entry, even if its device number is different by then.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Node {
    /// The inode number.
    pub ino: u64,
    /// Size in bytes, of a regular file.
    pub size: u64,
    /// Modification time, in seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// For a directory, a digest of everything below it.
    pub below: Option<[u8; 32]>,
}

/// The record of one step.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum JournalEntry {
    /// A new entry is put at a path, in place of the present one if there is one.
    Place {
        /// The path.
        path: Vec<u8>,
        /// The name under which the new entry is prepared; after the step, the name of the replaced
        /// entry.
        aside: Vec<u8>,
        /// The new entry.
        new: Node,
        /// The inode of the replaced entry, if there was one.
        old: Option<u64>,
        /// Directories in the new entry that get their mode last, each relative to its top, with
        /// the mode.
        late: Vec<(Vec<u8>, u32)>,
    },
    /// An entry is removed from its path.
    Take {
        /// The path.
        path: Vec<u8>,
        /// The name to which it is moved.
        kept: Vec<u8>,
        /// The new name in its own directory, used if it can not be moved out.
        beside: Vec<u8>,
        /// The entry's inode.
        old: u64,
    },
    /// An entry is renamed.
    Move {
        /// The old path.
        from: Vec<u8>,
        /// The new path.
        to: Vec<u8>,
        /// The entry's inode.
        ino: u64,
    },
    /// The mode of an entry changes.
    Mode {
        /// The path.
        path: Vec<u8>,
        /// The entry's inode.
        ino: u64,
        /// The old mode.
        old: u32,
        /// The new mode.
        new: u32,
    },
    /// The modification time of a file changes.
    Touch {
        /// The path.
        path: Vec<u8>,
        /// The file's inode.
        ino: u64,
        /// The old time.
        old: (i64, u32),
        /// The new time.
        new: (i64, u32),
    },
    /// Bytes are appended to a file, which stays the same inode.
    Append {
        /// The path.
        path: Vec<u8>,
        /// The name of the file with the appended bytes.
        aside: Vec<u8>,
        /// The file's inode.
        ino: u64,
        /// Mode, size and time before.
        old: InodeState,
        /// Mode, size and time afterwards.
        new: InodeState,
    },
}
