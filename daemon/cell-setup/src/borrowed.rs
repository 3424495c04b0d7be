//! Borrows the session's identity for acts that the file system must permit, or whose files it must
//! own, as the session. Runs in the cell, while it has privilege.

use crate::failure::StepFailure;
use caps::{CapSet, Capability, CapsHashSet};
use nix::unistd::{Gid, Uid, getegid, geteuid, setfsgid, setfsuid, setgroups};
use palisade_plan::Identity;
use rustix::io::Errno;
use std::io;

/// Runs `act` with the session's file system identity, and again as this process if that fails with
/// `EACCES`. Without an identity it runs as this process only. The outer error means that this
/// process's identity is no longer certain.
pub(crate) fn first_as<T>(
    identity: Option<Identity>,
    act: impl Fn() -> rustix::io::Result<T>,
) -> io::Result<rustix::io::Result<T>> {
    let Some(identity) = identity else { return Ok(act()) };
    let borrowed = BorrowedIdentity::take(identity).map_err(io::Error::other)?;
    let done = act();
    borrowed.give_back().map_err(io::Error::other)?;
    Ok(match done {
        Err(Errno::ACCESS) => act(),
        done => done,
    })
}

/// The capabilities that override file permissions.
const OVER_FILES: [Capability; 2] = [Capability::CAP_DAC_OVERRIDE, Capability::CAP_DAC_READ_SEARCH];

/// The session's file system identity, while this process has it.
pub(crate) struct BorrowedIdentity {
    own: Option<OwnIdentity>,
}

/// This process's own identity, which `give_back` restores.
struct OwnIdentity {
    uid: Uid,
    gid: Gid,
    effective: CapsHashSet,
}

impl BorrowedIdentity {
    /// Takes the peer's identity for finding paths that the peer named. For a peer that is root,
    /// root keeps its own, so that it can pass other users' closed directories.
    pub(crate) fn take_for_lookup(peer: Identity) -> Result<Self, StepFailure> {
        match geteuid().is_root() && peer.uid == 0 {
            true => Ok(Self { own: None }),
            false => Self::take(peer),
        }
    }

    /// Takes the session's identity. A process of an ordinary user has that identity already and
    /// keeps it.
    pub(crate) fn take(identity: Identity) -> Result<Self, StepFailure> {
        let (uid, gid) = (geteuid(), getegid());
        if !uid.is_root() && uid.as_raw() == identity.uid {
            return Ok(Self { own: None });
        }
        match setgroups(&[]) {
            // `setgroups` can be denied in a user namespace, even to the root of that namespace.
            // The process then keeps its groups.
            Err(nix::errno::Errno::EPERM) if uid.as_raw() == identity.uid => {}
            done => done.map_err(StepFailure::kernel("setgroups"))?,
        }
        let effective = caps::read(None, CapSet::Effective).map_err(capability)?;
        setfsgid(Gid::from_raw(identity.gid));
        setfsuid(Uid::from_raw(identity.uid));
        // `setfsuid` and `setfsgid` report no failure. A second call returns the value in force.
        if setfsuid(Uid::from_raw(identity.uid)).as_raw() != identity.uid
            || setfsgid(Gid::from_raw(identity.gid)).as_raw() != identity.gid
        {
            return Err(StepFailure::NotInForce(
                "the session's identity could not be borrowed".into(),
            ));
        }
        // The kernel drops these, and others over files, only when root changes identity, so drop
        // them explicitly.
        let mut rest = caps::read(None, CapSet::Effective).map_err(capability)?;
        rest.retain(|held| !OVER_FILES.contains(held));
        caps::set(None, CapSet::Effective, &rest).map_err(capability)?;
        Ok(Self { own: Some(OwnIdentity { uid, gid, effective }) })
    }

    pub(crate) fn give_back(self) -> Result<(), StepFailure> {
        let Some(own) = self.own else { return Ok(()) };
        setfsuid(own.uid);
        setfsgid(own.gid);
        if setfsuid(own.uid) != own.uid || setfsgid(own.gid) != own.gid {
            return Err(StepFailure::NotInForce("own identity could not be taken back".into()));
        }
        caps::set(None, CapSet::Effective, &own.effective).map_err(capability)
    }
}

fn capability(error: caps::errors::CapsError) -> StepFailure {
    StepFailure::Setup(format!("capabilities over files: {error}"))
}
