//! The session's identity, borrowed for what the file system must decide or own as the session.
//! Room: the cell, while it has privilege.

use crate::failure::StepFailure;
use caps::{CapSet, Capability};
use nix::unistd::{Gid, Uid, getegid, geteuid, setfsgid, setfsuid, setgroups};
use palisade_plan::Identity;
use rustix::io::Errno;
use std::io;

/// Does something in the file system as the session would; where that is not the session's to do,
/// as this process. The outer error: whose identity this process has is not certain any more.
pub(crate) fn first_as<T>(
    identity: Identity,
    act: impl Fn() -> rustix::io::Result<T>,
) -> io::Result<rustix::io::Result<T>> {
    let borrowed = Borrowed::take(identity).map_err(io::Error::other)?;
    let done = act();
    borrowed.give_back().map_err(io::Error::other)?;
    Ok(match done {
        Err(Errno::ACCESS) => act(),
        done => done,
    })
}

/// Capabilities by which the modes of files do not hold.
const OVER_FILES: [Capability; 2] = [Capability::CAP_DAC_OVERRIDE, Capability::CAP_DAC_READ_SEARCH];

/// The session's identity, borrowed.
pub(crate) struct Borrowed {
    own: Option<Own>,
}

/// What this process was, and gets back.
struct Own {
    uid: Uid,
    gid: Gid,
    over_files: Vec<Capability>,
}

impl Borrowed {
    /// For finding what a peer names: root finds what lies behind other users' closed directories.
    pub(crate) fn take_to_find(peer: Identity) -> Result<Self, StepFailure> {
        match geteuid().is_root() && peer.uid == 0 {
            true => Ok(Self { own: None }),
            false => Self::take(peer),
        }
    }

    /// An ordinary user's process has no other identity, and keeps its own.
    pub(crate) fn take(identity: Identity) -> Result<Self, StepFailure> {
        if !geteuid().is_root() && geteuid().as_raw() == identity.uid {
            return Ok(Self { own: None });
        }
        match setgroups(&[]) {
            // In a user namespace of its own even who is called root there keeps its groups.
            Err(nix::errno::Errno::EPERM) if geteuid().as_raw() == identity.uid => {}
            done => done.map_err(StepFailure::kernel("setgroups"))?,
        }
        let mut own = Own { uid: geteuid(), gid: getegid(), over_files: Vec::new() };
        for over_files in OVER_FILES {
            if caps::has_cap(None, CapSet::Effective, over_files).map_err(capability(over_files))? {
                own.over_files.push(over_files);
            }
        }
        setfsgid(Gid::from_raw(identity.gid));
        setfsuid(Uid::from_raw(identity.uid));
        // The only way to learn whether it worked is to ask again.
        if setfsuid(Uid::from_raw(identity.uid)).as_raw() != identity.uid
            || setfsgid(Gid::from_raw(identity.gid)).as_raw() != identity.gid
        {
            return Err(StepFailure::NotInForce(
                "the session's identity could not be borrowed".into(),
            ));
        }
        // The kernel takes these from root that becomes somebody else, and from nobody else.
        for over_files in OVER_FILES {
            caps::drop(None, CapSet::Effective, over_files).map_err(capability(over_files))?;
        }
        Ok(Self { own: Some(own) })
    }

    pub(crate) fn give_back(self) -> Result<(), StepFailure> {
        let Some(own) = self.own else { return Ok(()) };
        setfsuid(own.uid);
        setfsgid(own.gid);
        if setfsuid(own.uid) != own.uid || setfsgid(own.gid) != own.gid {
            return Err(StepFailure::NotInForce("own identity could not be taken back".into()));
        }
        for over_files in own.over_files {
            caps::raise(None, CapSet::Effective, over_files).map_err(capability(over_files))?;
        }
        Ok(())
    }
}

fn capability(which: Capability) -> impl FnOnce(caps::errors::CapsError) -> StepFailure {
    move |error| StepFailure::NotInForce(format!("{which}: {error}"))
}
