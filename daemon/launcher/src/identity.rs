//! Whom a session runs as: what the kernel says of the client's socket, never what the broker says.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use palisade_plan::{Identity, LaunchPlan, launcher::Refusal};
use rustix::fs::{AtFlags, CWD};
use std::os::fd::BorrowedFd;

/// A user who owns nothing, by the number that every system has for one.
const NOBODY: u32 = 65534;

/// The identity of a session that is the daemon's own.
pub(crate) fn of_nobody(privileged: bool) -> Identity {
    if privileged {
        return Identity { uid: NOBODY, gid: NOBODY };
    }
    Identity { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() }
}

/// The identity of a client's session. Root's sessions run as the owner of their workspace.
pub(crate) fn of_client(
    client: BorrowedFd<'_>,
    plan: &LaunchPlan,
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
    let workspace = plan.workspace.path.as_path();
    let stat = rustix::fs::statat(CWD, workspace, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| refuse(format!("whose workspace is {}? {error}", workspace.display())))?;
    Ok(Identity { uid: stat.st_uid, gid: stat.st_gid })
}
