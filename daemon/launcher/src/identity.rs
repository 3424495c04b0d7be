//! Whom a session runs as: what the kernel says of the client's socket, never what the broker says.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use palisade_plan::{Identity, launcher::Refusal};
use rustix::fs::{AtFlags, CWD};
use std::{os::fd::BorrowedFd, path::Path};

/// A user who owns nothing, by the number that every system has for one.
const NOBODY: u32 = 65534;

/// The identity of a session that is the daemon's own.
pub(crate) fn of_nobody(privileged: bool) -> Identity {
    if privileged {
        return Identity { uid: NOBODY, gid: NOBODY };
    }
    Identity { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() }
}

/// Whether a user is the launcher's own, whom nobody else is to be. Root is everybody's anyway.
pub(crate) const fn is_launchers(uid: u32, own: u32) -> bool {
    uid == own && own != 0
}

/// Refuses a session of the system's that would run as whom the launcher runs: whatever its ceiling
/// says, it would be let at the launcher's files and processes.
pub(crate) fn refuse_own(identity: Identity, privileged: bool) -> Result<(), Refusal> {
    if privileged && is_launchers(identity.uid, nix::unistd::geteuid().as_raw()) {
        return Err(Refusal::Identity(format!(
            "uid {} is whom the launcher runs as, and no session does",
            identity.uid
        )));
    }
    Ok(())
}

/// The identity of a client's session. Root's sessions run as the owner of their workspace.
pub(crate) fn of_client(
    client: BorrowedFd<'_>,
    workspace: &Path,
    privileged: bool,
) -> Result<Identity, Refusal> {
    let refuse = |why: String| Refusal::Identity(why);
    let peer = getsockopt(&client, PeerCredentials)
        .map_err(|error| refuse(format!("the client's socket has no credentials: {error}")))?;
    if !privileged {
        let own = nix::unistd::geteuid().as_raw();
        return if peer.uid() == own {
            Ok(Identity { uid: peer.uid(), gid: nix::unistd::getegid().as_raw() })
        } else {
            Err(refuse(format!(
                "uid {} may not use the daemon of uid {own}; run one of your own, or the system's",
                peer.uid()
            )))
        };
    }
    if peer.uid() != 0 {
        return Ok(Identity { uid: peer.uid(), gid: peer.gid() });
    }
    let stat = rustix::fs::statat(CWD, workspace, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| refuse(format!("whose workspace is {}? {error}", workspace.display())))?;
    Ok(Identity { uid: stat.st_uid, gid: stat.st_gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchers_user_is_nobody_elses_but_root() {
        assert!(is_launchers(990, 990));
        assert!(!is_launchers(991, 990) && !is_launchers(0, 990) && !is_launchers(0, 0));
    }
}
