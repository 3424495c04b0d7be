//! Determines as whom a session runs, from what the kernel says about the client's socket. The
//! broker's word does not count.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use palisade_plan::{Identity, launcher::Refusal};
use rustix::{
    fs::{AtFlags, CWD},
    io::Errno,
};
use std::{
    os::{fd::BorrowedFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
};

/// The uid and gid of `nobody`, a user who owns nothing.
const NOBODY: u32 = 65534;

/// Returns the identity of a session that belongs to the daemon itself.
pub(crate) fn of_nobody(privileged: bool) -> Identity {
    if privileged {
        return Identity { uid: NOBODY, gid: NOBODY };
    }
    Identity { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() }
}

/// Returns `true` if a user is the launcher's own, which nobody else may be. Root is exempt, since
/// it can become any user anyway.
pub(crate) const fn is_launcher_user(uid: u32, own: u32) -> bool {
    uid == own && own != 0
}

/// Refuses a session of the system's launcher that would run as the launcher's own user. Whatever
/// the ceiling says, such a session could access the launcher's files and processes.
pub(crate) fn refuse_own(identity: Identity, privileged: bool) -> Result<(), Refusal> {
    if privileged && is_launcher_user(identity.uid, nix::unistd::geteuid().as_raw()) {
        return Err(Refusal::Identity(format!(
            "uid {} is the launcher's own, and no session may run as it",
            identity.uid
        )));
    }
    Ok(())
}

/// The connections from which the system's launcher takes a client's identity.
///
/// A broker that was taken over can connect to any socket on the host. The kernel then names the
/// user who listens there as the peer, so a peer's identity alone proves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientSocket {
    /// Connections that were accepted on the socket with this path. An accepted socket has the local
    /// name of its listener; a socket that connects has none, and can not be given one that exists.
    AcceptedOn(PathBuf),
    /// The one connection with this `SO_COOKIE`, which the kernel gives to no other socket.
    Cookie(u64),
}

impl ClientSocket {
    /// Refuses a socket that no client of the broker's made.
    fn check(&self, socket: BorrowedFd<'_>) -> Result<(), String> {
        match self {
            Self::AcceptedOn(path) => {
                let address = rustix::net::getsockname(socket)
                    .map_err(|error| format!("the client's socket has no name: {error}"))?;
                let address = rustix::net::SocketAddrUnix::try_from(address);
                let name = address.as_ref().ok().and_then(|address| address.path_bytes());
                if name == Some(path.as_os_str().as_bytes()) {
                    return Ok(());
                }
                let name = name.map_or_else(
                    || "a socket without a name".to_owned(),
                    |name| String::from_utf8_lossy(name).into_owned(),
                );
                Err(format!(
                    "the client did not connect to {} (--agent-socket of the launcher) but to \
                     {name}",
                    path.display()
                ))
            }
            Self::Cookie(cookie) => match rustix::net::sockopt::socket_cookie(socket) {
                Ok(found) if found == *cookie => Ok(()),
                Ok(_) => Err("this is not the connection of the daemon's client".to_owned()),
                Err(error) => Err(format!("the client's socket has no cookie: {error}")),
            },
        }
    }
}

/// The clients of a launcher: those of all users if it is privileged, who must then have connected
/// to this socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clients<'a> {
    pub(crate) privileged: bool,
    pub(crate) socket: Option<&'a ClientSocket>,
}

/// Returns the identity of a client's session. Root's sessions run as the owner of their workspace.
pub(crate) fn of_client(
    client: BorrowedFd<'_>,
    workspace: &Path,
    Clients { privileged, socket }: Clients<'_>,
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
                "uid {} may not use the daemon of uid {own}; run your own daemon, or use the \
                 system's",
                peer.uid()
            )))
        };
    }
    match socket {
        Some(socket) => socket.check(client).map_err(refuse)?,
        None => {
            let why = "the launcher does not know on which socket clients connect; start it with \
                       --agent-socket";
            return Err(refuse(why.to_owned()));
        }
    }
    if peer.uid() != 0 {
        return Ok(Identity { uid: peer.uid(), gid: peer.gid() });
    }
    let stat = rustix::fs::statat(CWD, workspace, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| {
        let why = match error {
            Errno::NOENT => "it does not exist".to_owned(),
            Errno::NOTDIR => "a part of its path is not a directory".to_owned(),
            other => format!("can not find its owner: {other}"),
        };
        Refusal::Workspace(format!("workspace {workspace:?}: {why}"))
    })?;
    Ok(Identity { uid: stat.st_uid, gid: stat.st_gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchers_user_is_nobody_elses_but_root() {
        assert!(is_launcher_user(990, 990));
        assert!(
            !is_launcher_user(991, 990) && !is_launcher_user(0, 990) && !is_launcher_user(0, 0)
        );
    }
}
