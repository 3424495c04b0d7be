//! Finds out what overlays can do on this host, on file systems and in a mount namespace of its
//! own. Runs in the cell.

use super::{
    attach, make,
    merge::{self, OverlayLayers, UPPER, WHITEOUTS, WORK, WORKSPACE},
    open, open_directory,
};
use crate::{
    borrowed::BorrowedIdentity,
    failure::StepFailure,
    mapping,
    mounts::{self, NO_DEV, NO_SUID},
    store::{self, override_modes},
};
use palisade_plan::{Found, Identity, OverlayFacts, Path, Step, Upper};
use palisade_workspace::is_opaque;
use rustix::fs::{AtFlags, FileType, Mode};
use std::os::fd::OwnedFd;

/// The mount point of the attempt: every host has it, and this process does not need it any more.
const PLACE: &str = "/usr";

/// Tries every kind of overlay. The steps name the identity to use ([`Step::OverlayUsers`], where
/// other identities can be taken on) and the directory on the disk.
pub(crate) fn attempt(steps: Vec<Step>) -> OverlayFacts {
    let mut whom = None;
    let mut stored = None;
    for step in steps {
        if let Step::OverlayUsers(identity) = step {
            whom = Some(identity);
        } else if let Step::Store(store) = step {
            stored = Some(store);
        }
    }
    let read = match reads(whom) {
        Ok(()) => Found::Yes("overlayfs on tmpfs".into()),
        Err(error) => Found::No(error.to_string()),
    };
    let memory = match in_memory().and_then(|layer| writes(whom, layer, Upper::Memory)) {
        Ok(()) => Found::Yes("overlayfs on tmpfs".into()),
        Err(error) => Found::No(error.to_string()),
    };
    let write = match (&memory, stored) {
        (Found::No(why), Some(stored)) => {
            match store::make(&stored).and_then(|layer| writes(whom, layer, Upper::Disk)) {
                Ok(()) => Found::Yes(format!("overlayfs on disk: {why}")),
                Err(error) => Found::No(format!("{why}; on disk: {error}")),
            }
        }
        (found, _) => found.clone(),
    };
    OverlayFacts { read, write, memory }
}

/// Mounts a lower layer where the workspace would be.
fn lower(whom: Option<Identity>) -> Result<OwnedFd, StepFailure> {
    let lower = in_memory()?;
    as_session(whom, || {
        ["there", "there/below", "hidden"].into_iter().try_for_each(|name| {
            rustix::fs::mkdirat(&lower, name, Mode::RWXU)
                .map_err(StepFailure::kernel("make a directory"))
        })
    })?;
    attach(&lower, &Path::from(PLACE))?;
    open_directory(&Path::from(PLACE))
}

fn in_memory() -> Result<OwnedFd, StepFailure> {
    mounts::new("tmpfs", &[("mode", "0777".into())], NO_SUID | NO_DEV)
        .map_err(StepFailure::kernel("mount tmpfs"))
}

/// Makes a layer with a whiteout for one name.
fn make_whiteout(layer: &OwnedFd) -> Result<(), StepFailure> {
    let whiteouts = make(layer, WHITEOUTS)?;
    rustix::fs::mknodat(&whiteouts, "hidden", FileType::CharacterDevice, Mode::empty(), 0)
        .map_err(StepFailure::kernel("mark what is hidden"))
}

/// Checks that the hidden name is missing, and that the others exist.
fn check(merged: &OwnedFd) -> Result<(), StepFailure> {
    let look = |name| rustix::fs::statat(merged, name, AtFlags::SYMLINK_NOFOLLOW).map(drop);
    if look("hidden") != Err(rustix::io::Errno::NOENT) {
        return Err(StepFailure::NotInForce("what is marked as hidden is there".into()));
    }
    look("there/below").map_err(StepFailure::kernel("look at what is not hidden"))
}

fn reads(whom: Option<Identity>) -> Result<(), StepFailure> {
    let (lower, layer) = (lower(whom)?, in_memory()?);
    attach(&layer, &Path::from(PLACE))?;
    let parts = OverlayLayers {
        names: WORKSPACE,
        lower: &lower,
        layer: &layer,
        has_whiteouts: true,
        writes: None,
    };
    as_session(whom, || {
        make_whiteout(&layer)?;
        check(&merge::here(parts)?)
    })
}

/// Runs `act` with the identity that a session would have, if that is another one.
fn as_session<T>(
    whom: Option<Identity>,
    act: impl FnOnce() -> Result<T, StepFailure>,
) -> Result<T, StepFailure> {
    let Some(identity) = whom else { return act() };
    let borrowed = BorrowedIdentity::take(identity)?;
    let done = act();
    borrowed.give_back()?;
    done
}

fn writes(whom: Option<Identity>, layer: OwnedFd, kept: Upper) -> Result<(), StepFailure> {
    let lower = lower(whom)?;
    let upper = as_session(whom, || {
        make_whiteout(&layer)?;
        make(&layer, WORK)?;
        let upper = make(&layer, UPPER)?;
        check_user_attributes(&upper, kept).map(|()| upper)
    })?;
    let parts = OverlayLayers {
        names: WORKSPACE,
        lower: &lower,
        layer: &layer,
        has_whiteouts: true,
        writes: Some(kept),
    };
    let place = Path::from(PLACE);
    let merged = match whom {
        Some(identity) => {
            merge::apart(parts, None, &place, &mapping::of_user(identity)?, identity)?.0
        }
        None => {
            attach(&layer, &place)?;
            override_modes()?;
            merge::here(parts)?
        }
    };
    as_session(whom, || {
        check(&merged)?;
        replace(&merged)
    })?;
    let fail = |act: &'static str| StepFailure::kernel::<rustix::io::Errno>(act);
    let again = as_session(whom, || open(&upper, "there"))?;
    if !is_opaque(&again).map_err(fail("read its mark"))? {
        return Err(StepFailure::NotInForce("the upper layer has no marks".into()));
    }
    rustix::fs::statat(&lower, "there/below", AtFlags::SYMLINK_NOFOLLOW)
        .map(drop)
        .map_err(fail("look at what was under it"))
}

/// Deletes a directory of the lower layer and makes another in its place.
fn replace(merged: &OwnedFd) -> Result<(), StepFailure> {
    let fail = |act: &'static str| StepFailure::kernel::<rustix::io::Errno>(act);
    let remove = |name| rustix::fs::unlinkat(merged, name, AtFlags::REMOVEDIR);
    remove("there/below").map_err(fail("remove a directory of the lower layer"))?;
    remove("there").map_err(fail("remove a directory of the lower layer"))?;
    rustix::fs::mkdirat(merged, "there", Mode::RWXU)
        .map_err(fail("make a directory where one was removed"))
}

/// Checks for support of `user.` attributes. Without them overlayfs can not mark what was deleted,
/// and fails without saying why.
fn check_user_attributes(upper: &OwnedFd, kept: Upper) -> Result<(), StepFailure> {
    let flags = rustix::fs::XattrFlags::empty();
    match (rustix::fs::fsetxattr(upper, "user.palisade", b"y", flags), kept) {
        (Ok(()), _) => Ok(()),
        (Err(rustix::io::Errno::OPNOTSUPP), Upper::Memory) => Err(StepFailure::Setup(
            "overlayfs needs user attributes, which tmpfs has since Linux 6.6".into(),
        )),
        (Err(rustix::io::Errno::OPNOTSUPP), Upper::Disk) => Err(StepFailure::Setup(
            "overlayfs needs user attributes, which the file system of the launcher's store has not"
                .into(),
        )),
        (Err(error), _) => Err(StepFailure::kernel("mark a directory")(error)),
    }
}
