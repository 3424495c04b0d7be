//! What steps are made of: acts on names, held against what was there before. Room: the cell.

use super::{
    names::{rename_new, with_free_name},
    seen::Seen,
    spot::{Handle, look},
    tree,
};
use rustix::{
    fs::{AtFlags, CWD, Mode, RenameFlags, Timespec, Timestamps},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd as _},
};

/// What goes together with what is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// It is no directory.
    Nothing,
    /// A directory that is empty by then.
    Empty,
    /// A directory with what is in it, known by this fingerprint.
    Tree([u8; 32]),
}

/// Why a step was not done.
#[derive(Debug)]
pub(super) enum StepError {
    /// What is there is not what it was.
    Changed,
    /// The same, and what was taken away for a look could not be put back: its name is taken. It
    /// has this one.
    Displaced(String),
    /// The kernel refused.
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

/// That something is there by now is a change of what was prepared.
pub(super) fn free(done: Result<(), Errno>) -> Result<(), StepError> {
    match done {
        Err(Errno::EXIST) => Err(StepError::Changed),
        done => Ok(done?),
    }
}

/// `chmod` of exactly what was opened, which may be a file that can not be.
pub(super) fn set_mode(handle: &impl AsFd, mode: u32) -> Result<(), Errno> {
    let own = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
    rustix::fs::chmodat(CWD, own, Mode::from_raw_mode(mode), AtFlags::empty())
}

/// The same for the time when its contents changed.
pub(super) fn set_time(handle: &impl AsFd, mtime: (i64, u32)) -> Result<(), Errno> {
    let own = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
    rustix::fs::utimensat(CWD, own, &modified(mtime), AtFlags::empty())
}

/// Times with this as when contents changed, and the other left alone.
pub(super) fn modified(mtime: (i64, u32)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.0, tv_nsec: mtime.1.into() },
    }
}

/// On a file system that can not exchange: the old file gets a second name, and loses its first.
pub(super) fn replace_by_link(dir: &Handle<'_>, name: &[u8], fresh: &str) -> Result<String, Errno> {
    let linked = with_free_name(|free| rustix::fs::linkat(dir, name, dir, free, AtFlags::empty()));
    let ((), second) = linked?;
    rustix::fs::renameat(dir, fresh, dir, name).inspect_err(|_| {
        rustix::fs::unlinkat(dir, second.as_str(), AtFlags::empty()).ok();
    })?;
    Ok(second)
}

/// Whether what has this name now is what was seen before it got it.
pub(super) fn is_moved(old: &Seen, dir: &Handle<'_>, name: &[u8]) -> bool {
    look(dir, name).ok().flatten().is_some_and(|now| old.is_moved(&now))
}

/// Gives each the name of the other.
pub(super) fn exchange(one: (impl AsFd, &[u8]), other: (impl AsFd, &[u8])) -> Result<(), Errno> {
    rustix::fs::renameat_with(one.0, one.1, other.0, other.1, RenameFlags::EXCHANGE)
}

/// Gives what was renamed its name back. If somebody has taken that, it keeps one that says what it
/// is.
pub(super) fn put_back(dir: &Handle<'_>, aside: &str, name: &[u8]) -> Result<(), StepError> {
    match rename_new((dir, aside.as_bytes()), (dir, name)) {
        Err(Errno::EXIST) => {
            let kept = aside.replace(".tmp", ".kept");
            rename_new((dir, aside.as_bytes()), (dir, kept.as_bytes()))?;
            Err(StepError::Displaced(kept))
        }
        done => Ok(done?),
    }
}

/// Whether what was renamed is what was to be removed.
pub(super) fn is_expected(
    dir: impl AsFd,
    name: &[u8],
    old: &Seen,
    below: Below,
) -> Result<bool, Errno> {
    let Some(now) = look(&dir, name)? else { return Ok(false) };
    // What was in a directory may have gone by another step: that changes its times.
    let same = (old.id(), old.kind()) == (now.id(), now.kind());
    match below {
        Below::Nothing => Ok(old.is_moved(&now)),
        Below::Empty => Ok(same && tree::is_empty(&dir, name)?),
        Below::Tree(print) => Ok(same && tree::fingerprint(&dir, name)? == Some(print)),
    }
}
