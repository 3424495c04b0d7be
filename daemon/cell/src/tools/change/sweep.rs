//! Sweeps up what killed processes left: names of our own form that nobody uses any more. Room: the
//! cell.
//!
//! Who has such a name in a directory holds a shared lock on it from before the name is there. So a
//! sweeper that gets the lock for itself knows that what it sees is nobody's; that it must also be a
//! day old is for locks that a file system does not keep.

use super::{
    names::is_ours,
    spot::{Dir, Way, look},
    tree,
};
use rustix::{
    fs::{AtFlags, FileType, FlockOperation, OFlags},
    io::Errno,
};
use std::{
    collections::HashSet,
    os::fd::{AsFd as _, OwnedFd},
    os::unix::ffi::OsStrExt as _,
    sync::{LazyLock, Mutex, PoisonError},
    time::SystemTime,
};

/// How old it must be, in seconds.
const AGE: i64 = 24 * 60 * 60;

/// How many names of a directory are looked at.
const MOST_NAMES: usize = 4096;

/// How many directories are remembered as swept.
const MOST_SWEPT: usize = 4096;

/// The directories that this process has swept: once is enough.
static SWEPT: LazyLock<Mutex<HashSet<Vec<u8>>>> = LazyLock::new(Mutex::default);

/// Sweeps the top of the workspace.
pub(crate) fn sweep_at_start(workspace: &std::path::Path) {
    // Not there, or not readable: then there is nothing of ours to be seen.
    if let Ok(dir) = Dir::open(workspace.as_os_str().as_bytes(), Way::ThroughLinks) {
        sweep(&dir);
    }
}

/// Sweeps a directory, if it was not yet. What can not be removed stays: it is no use to tell
/// anybody, and the next process tries again.
pub(super) fn sweep(dir: &Dir) {
    let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if swept.len() >= MOST_SWEPT || !swept.insert(dir.real.clone()) {
        return;
    }
    drop(swept);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(0));
    sweep_now(dir, now).ok();
}

/// Sweeps a directory at a time.
pub(super) fn sweep_now(dir: &Dir, now: i64) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
    // A descriptor of its own: a lock belongs to the opening.
    let own: OwnedFd = crate::tools::open(dir, b".", flags)?;
    let names = tree::entries(&own, MOST_NAMES)?;
    let ours: Vec<_> = names.into_iter().filter(|name| is_ours(name)).collect();
    if ours.is_empty() {
        return Ok(());
    }
    rustix::fs::flock(&own, FlockOperation::NonBlockingLockExclusive)?;
    for name in ours {
        let Some(seen) = look(own.as_fd(), &name)? else { continue };
        if now.saturating_sub(seen.version().ctime.0) < AGE {
            continue;
        }
        if seen.kind() == FileType::Directory {
            tree::remove(&own, &name)?;
        } else {
            rustix::fs::unlinkat(&own, name.as_slice(), AtFlags::empty())?;
        }
    }
    Ok(())
}
