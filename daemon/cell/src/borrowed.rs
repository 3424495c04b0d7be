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

/// The session's identity, borrowed.
pub(crate) struct Borrowed {
    own: Option<(Uid, Gid)>,
}

impl Borrowed {
    pub(crate) fn take(identity: Identity) -> Result<Self, StepFailure> {
        if geteuid().as_raw() == identity.uid {
            return Ok(Self { own: None });
        }
        setgroups(&[]).map_err(StepFailure::kernel("setgroups"))?;
        let own = (geteuid(), getegid());
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
        // The kernel takes these from a process that is root, and from nobody else.
        for over_files in [Capability::CAP_DAC_OVERRIDE, Capability::CAP_DAC_READ_SEARCH] {
            let kept = caps::has_cap(None, CapSet::Effective, over_files)
                .map_err(|error| StepFailure::NotInForce(format!("read effective: {error}")))?;
            if kept {
                return Err(StepFailure::NotInForce(format!(
                    "the session's identity was borrowed, and {over_files} stayed"
                )));
            }
        }
        Ok(Self { own: Some(own) })
    }

    pub(crate) fn give_back(self) -> Result<(), StepFailure> {
        let Some((uid, gid)) = self.own else { return Ok(()) };
        setfsuid(uid);
        setfsgid(gid);
        if setfsuid(uid) != uid {
            return Err(StepFailure::NotInForce("own identity could not be taken back".into()));
        }
        Ok(())
    }
}
