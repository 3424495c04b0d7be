//! A directory on the disk for what a transaction's program writes: made before the session's
//! mounts hide where it is, and removed by a process of its own when all is over. Room: the cell,
//! while it has privilege.

use crate::{
    borrowed::Borrowed,
    failure::StepFailure,
    mounts::{self, NO_DEV, NO_SUID},
    tools,
};
use caps::{CapSet, Capability};
use nix::sched::{CloneFlags, unshare};
use palisade_plan::{Path, Store};
use rustix::{fs::Mode, io::Errno};
use std::os::fd::{AsFd as _, OwnedFd};

/// Makes the directory, for nobody but the session; gives it as a mount that is nowhere yet.
pub(crate) fn make(store: &Store) -> Result<OwnedFd, StepFailure> {
    let above = mounts::resolve_without_links(store.directory.as_path())
        .map_err(StepFailure::kernel("open the launcher's store"))?;
    let borrowed = Borrowed::take(store.identity)?;
    // Where it is made belongs to the launcher alone.
    let made = override_modes().and_then(|()| {
        rustix::fs::mkdirat(&above, store.name.as_str(), Mode::RWXU)
            .map_err(StepFailure::kernel("make a directory in the launcher's store"))
    });
    borrowed.give_back()?;
    made?;
    match detached(store) {
        // An ordinary user's process may only copy mounts of a namespace of its own.
        Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
            unshare(CloneFlags::CLONE_NEWNS).map_err(StepFailure::kernel("unshare mounts"))?;
            detached(store)
        }
        done => done,
    }
    .map_err(StepFailure::kernel("copy the mount of the launcher's store"))
}

/// What is needed to work in a directory that nobody may enter, or that is somebody else's.
pub(crate) fn override_modes() -> Result<(), StepFailure> {
    caps::raise(None, CapSet::Effective, Capability::CAP_DAC_OVERRIDE)
        .map_err(|error| StepFailure::NotInForce(format!("CAP_DAC_OVERRIDE: {error}")))
}

fn detached(store: &Store) -> std::io::Result<OwnedFd> {
    let at = store.directory.as_path().join(&store.name);
    let directory = mounts::resolve_without_links(&at)?;
    mounts::copy(directory.as_fd(), NO_SUID | NO_DEV)
}

/// Removes a directory with all that is in it.
pub(crate) fn sweep(directory: &Path, name: &str) -> Result<(), StepFailure> {
    let above = mounts::resolve_without_links(directory.as_path())
        .map_err(StepFailure::kernel("open the launcher's store"))?;
    match tools::remove_tree(&above, name.as_bytes()) {
        // Its transaction ended before it was made.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(StepFailure::kernel("remove what a transaction left")(error)),
    }
}
