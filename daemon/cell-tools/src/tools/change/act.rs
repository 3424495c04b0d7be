//! The operations on names that steps consist of. Each is checked against what was there before.
//! Runs in the cell.

use super::{
    names::{rename_new, with_free_name},
    spot::DirHandle,
    tree,
};
use palisade_workspace::{EntryMetadata, look};
use rustix::{
    fs::{AtFlags, CWD, RenameFlags, Timespec, Timestamps},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd as _},
};

/// The contents that are deleted together with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletedContents {
    /// Nothing: the entry is not a directory.
    Nothing,
    /// A directory that is empty by then.
    Empty,
    /// A directory with its contents, identified by this fingerprint.
    Tree([u8; 32]),
}

/// The reason why a step was not taken.
#[derive(Debug)]
pub(super) enum StepError {
    /// The entry is not what it was when the change was planned.
    Changed,
    /// The entry changed, and it could not be renamed back after it was examined, because its name
    /// is taken. It now has this name.
    Displaced(String),
    /// A system call failed.
    Kernel(io::Error),
}

impl From<Errno> for StepError {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno.into())
    }
}

impl From<io::Error> for StepError {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error)
    }
}

/// Turns `EEXIST` into `Changed`: when the change was planned, the name was free.
pub(super) fn free(done: Result<(), Errno>) -> Result<(), StepError> {
    match done {
        Err(Errno::EXIST) => Err(StepError::Changed),
        done => Ok(done?),
    }
}

/// Sets the modification time of an open file, which may be opened with `O_PATH`.
pub(super) fn set_time(handle: &impl AsFd, mtime: (i64, u32)) -> Result<(), Errno> {
    let own = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
    rustix::fs::utimensat(CWD, own, &modified(mtime), AtFlags::empty())
}

/// Returns times that set the modification time and leave the access time unchanged.
pub(super) fn modified(mtime: (i64, u32)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.0, tv_nsec: mtime.1.into() },
    }
}

/// Replaces a file on a file system that can not exchange two names: gives the old file a second
/// name, which is returned, and renames the new one over the first.
pub(super) fn replace_by_link(
    dir: &DirHandle<'_>,
    name: &[u8],
    fresh: &str,
) -> Result<String, Errno> {
    let linked = with_free_name(|free| rustix::fs::linkat(dir, name, dir, free, AtFlags::empty()));
    let ((), second) = linked?;
    rustix::fs::renameat(dir, fresh, dir, name).inspect_err(|_| {
        rustix::fs::unlinkat(dir, second.as_str(), AtFlags::empty()).ok();
    })?;
    Ok(second)
}

/// Returns `true` if the entry that has this name now is the one that was seen before it was
/// renamed.
pub(super) fn is_moved(old: &EntryMetadata, dir: &DirHandle<'_>, name: &[u8]) -> bool {
    look(dir, name).ok().flatten().is_some_and(|now| old.is_moved(&now))
}

/// Exchanges two names atomically.
pub(super) fn exchange(one: (impl AsFd, &[u8]), other: (impl AsFd, &[u8])) -> Result<(), Errno> {
    rustix::fs::renameat_with(one.0, one.1, other.0, other.1, RenameFlags::EXCHANGE)
}

/// Renames an entry back to its own name. If that is taken by now, the entry gets a `.kept` name
/// instead.
pub(super) fn put_back(dir: &DirHandle<'_>, aside: &str, name: &[u8]) -> Result<(), StepError> {
    match rename_new((dir, aside.as_bytes()), (dir, name)) {
        Err(Errno::EXIST) => {
            let kept = aside.replace(".tmp", ".kept");
            rename_new((dir, aside.as_bytes()), (dir, kept.as_bytes()))?;
            Err(StepError::Displaced(kept))
        }
        done => Ok(done?),
    }
}

/// Returns `true` if the entry that was renamed is the one to be deleted.
pub(super) fn is_expected(
    dir: impl AsFd,
    name: &[u8],
    old: &EntryMetadata,
    below: DeletedContents,
) -> Result<bool, Errno> {
    let Some(now) = look(&dir, name)? else { return Ok(false) };
    // Other steps may have deleted what was in a directory, which changes its times.
    let same = (old.id(), old.kind()) == (now.id(), now.kind());
    match below {
        DeletedContents::Nothing => Ok(old.is_moved(&now)),
        DeletedContents::Empty => Ok(same && tree::is_empty(&dir, name)?),
        DeletedContents::Tree(print) => Ok(same && tree::fingerprint(&dir, name)? == Some(print)),
    }
}
