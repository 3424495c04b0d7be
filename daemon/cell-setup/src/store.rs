//! A directory on the disk for what a transaction's program writes. It is made before the session's
//! mounts hide its place, and a separate process deletes it at the end. Runs in the cell, while it
//! has privilege.

use crate::{
    borrowed::BorrowedIdentity,
    failure::StepFailure,
    kernel::ChildStack,
    mapping,
    mounts::{self, NO_DEV, NO_SUID},
};
use caps::{CapSet, Capability};
use nix::sched::{CloneFlags, setns, unshare};
use palisade_plan::{Identity, MountRights, Path, Store};
use palisade_workspace::tree;
use rustix::{
    fs::{AtFlags, Mode},
    io::Errno,
};
use std::os::fd::{AsFd as _, OwnedFd};

/// The mode while a layer is built, because several users build it.
const OPEN: u32 = 0o777;

/// Makes the directory, and returns a detached mount of it.
pub(crate) fn make(store: &Store) -> Result<OwnedFd, StepFailure> {
    let above = mounts::resolve_without_links(store.directory.as_path())
        .map_err(StepFailure::kernel("open the launcher's store"))?;
    let stat = rustix::fs::fstat(&above).map_err(StepFailure::kernel("look at the store"))?;
    // The launcher owns the directory above and nobody else may enter it, so nobody reaches the new
    // one before it is closed.
    let borrowed = BorrowedIdentity::take(Identity { uid: stat.st_uid, gid: stat.st_gid })?;
    let name = store.name.as_str();
    let made = rustix::fs::mkdirat(&above, name, Mode::RWXU).and_then(|()| {
        rustix::fs::chmodat(&above, name, Mode::from_raw_mode(OPEN), AtFlags::empty())
    });
    borrowed.give_back()?;
    made.map_err(StepFailure::kernel("make a directory in the launcher's store"))?;
    match detached(store) {
        // An ordinary user's process may copy mounts only in a mount namespace of its own.
        Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
            unshare(CloneFlags::CLONE_NEWNS).map_err(StepFailure::kernel("unshare mounts"))?;
            detached(store)
        }
        done => done,
    }
    .map_err(StepFailure::kernel("copy the mount of the launcher's store"))
}

/// Raises the capability that an ordinary user's process needs to work in a directory that nobody
/// may enter.
pub(crate) fn override_modes() -> Result<(), StepFailure> {
    caps::raise(None, CapSet::Effective, Capability::CAP_DAC_OVERRIDE)
        .map_err(|error| StepFailure::Setup(format!("CAP_DAC_OVERRIDE: {error}")))
}

fn detached(store: &Store) -> std::io::Result<OwnedFd> {
    let at = store.directory.as_path().join(&store.name);
    let directory = mounts::resolve_without_links(&at)?;
    mounts::copy(directory.as_fd(), NO_SUID | NO_DEV)
}

/// Deletes a directory with everything in it. If other users own files there, a user namespace that
/// maps them all gives this process the right over those files.
pub(crate) fn sweep(directory: &Path, name: &str, rights: MountRights) -> Result<(), StepFailure> {
    let above = mounts::resolve_without_links(directory.as_path())
        .map_err(StepFailure::kernel("open the launcher's store"))?;
    if rights == MountRights::Own {
        return remove(&above, name);
    }
    let users = mapping::of_every_user()?;
    let mut removed = None;
    let mut act = || {
        let entered = setns(&users, CloneFlags::CLONE_NEWUSER);
        let entered = entered.map_err(StepFailure::kernel("enter the user namespace"));
        removed = Some(entered.and_then(|()| remove(&above, name)));
    };
    ChildStack::new()
        .and_then(|mut stack| stack.run_apart(&mut act))
        .map_err(StepFailure::kernel("start what removes"))?;
    removed.unwrap_or_else(|| Err(StepFailure::Setup("nothing was removed".into())))
}

fn remove(above: &OwnedFd, name: &str) -> Result<(), StepFailure> {
    match tree::remove(above, name.as_bytes()) {
        // The transaction ended before the directory was made.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(StepFailure::kernel("remove what a transaction left")(error)),
    }
}
