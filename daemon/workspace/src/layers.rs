//! The two layers of a transaction: the workspace, and what its program wrote. Overlayfs marks what
//! it makes there with `user.` attributes, which need no privilege. Runs in the cell.

use palisade_plan::{Path, Transactions, change::Version};
use rustix::{
    fs::{XattrFlags, fgetxattr, fsetxattr},
    io::Errno,
};
use std::{collections::HashMap, os::fd::OwnedFd};

/// A change time (ctime) in seconds and nanoseconds.
pub type ChangeTime = (i64, u32);

/// The two layers that the program sees as one directory.
#[derive(Debug)]
pub struct Layers {
    /// The path of the directory: the workspace, or the main repository of a linked worktree.
    pub path: Path,
    /// The lower layer: the workspace itself.
    pub lower: OwnedFd,
    /// The upper layer: what the program wrote.
    pub upper: OwnedFd,
    /// The time at which the program was started.
    pub since: ChangeTime,
    /// The paths that were committed while the program was still running, and their state. `None`
    /// if it was never frozen for a commit.
    pub committed: Option<HashMap<Path, CommittedPath>>,
    /// The maximum size of the upper layer in bytes.
    pub bytes: u64,
    /// The place of the upper layer, and the writes flushed before a commit takes effect.
    pub kept: Transactions,
    /// The layers of the main repository, if the workspace is a linked worktree of git.
    pub main: Option<Box<Self>>,
    /// Whether what the program wrote can still change.
    pub access: LayerAccess,
}

/// Whether the upper layers of a transaction can still change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerAccess {
    /// The program may still write.
    Writable,
    /// The kernel lets nobody write, whatever descriptors they have.
    ReadOnly,
    /// Files are open for writing, and all processes that can have them are held.
    Held,
    /// They could not be made read-only. `EBUSY` means that a file is still open for writing.
    Refused(Errno),
}

impl Layers {
    /// Returns the layers of each directory that a commit changes, the main repository first: what
    /// the workspace loses may be in a new commit.
    pub fn roots(&self) -> impl Iterator<Item = &Self> {
        self.main.as_deref().into_iter().chain([self])
    }

    /// Sets the time at which the program was started.
    pub fn set_since(&mut self, since: ChangeTime) {
        self.since = since;
        self.main.iter_mut().for_each(|main| main.since = since);
    }

    /// Remembers from now on what was committed while the program was running.
    pub fn remember_commits(&mut self) {
        self.committed.get_or_insert_default();
        if let Some(main) = &mut self.main {
            main.committed.get_or_insert_default();
        }
    }
}

/// The state of a path after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedPath {
    /// Its version right after the commit.
    pub version: Version,
    /// True if everything at the path came from the program. For a directory: nothing of the
    /// workspace shows through it.
    pub whole: bool,
}

/// The attribute that makes a directory opaque: nothing of the lower layer shows through it.
const OPAQUE: &str = "user.overlay.opaque";

/// Returns `true` if a directory of the upper layer is opaque: nothing of the lower layer shows
/// through it.
///
/// # Errors
/// The kernel's error.
pub fn is_opaque(directory: &OwnedFd) -> Result<bool, Errno> {
    has_mark(directory, OPAQUE, b"y")
}

/// Makes a directory of the upper layer opaque, so that nothing of the lower layer shows through
/// it.
///
/// # Errors
/// The kernel's error.
pub fn make_opaque(directory: &OwnedFd) -> Result<(), Errno> {
    fsetxattr(directory, OPAQUE, b"y", XattrFlags::empty())
}

/// Returns `true` if a file of the upper layer was copied up from the lower one.
///
/// # Errors
/// The kernel's error.
pub fn is_copy(of: &OwnedFd) -> Result<bool, Errno> {
    let mut value = [0; 256];
    match fgetxattr(of, "user.overlay.origin", &mut value) {
        Ok(_) | Err(Errno::RANGE) => Ok(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}

fn has_mark(of: &OwnedFd, name: &str, expected: &[u8]) -> Result<bool, Errno> {
    let mut value = [0; 16];
    match fgetxattr(of, name, &mut value) {
        Ok(length) => Ok(value.get(..length) == Some(expected)),
        Err(Errno::RANGE | Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}
