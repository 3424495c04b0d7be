//! Who opens a session, from the accounts of the host. Broker.

use crate::peer::Peer;
use nix::unistd::{Uid, User};
use palisade_policy::Scene;
use palisade_protocol::RawPath;
use std::{io, os::unix::fs::MetadataExt as _, path::PathBuf};

/// The scene of a peer's session. Looking up an account can take a directory service's time.
pub(crate) async fn of(peer: Peer, workspace: &RawPath) -> io::Result<Scene> {
    let workspace = workspace.as_path().to_owned();
    tokio::task::spawn_blocking(move || look_up(peer, workspace)).await?
}

fn look_up(peer: Peer, workspace: PathBuf) -> io::Result<Scene> {
    // A session of root's runs as the owner of its workspace, so the home is that user's. Where
    // that can not be seen from here, it has none: root's own would be somebody else's.
    let (uid, seen) = match peer.uid {
        0 => match std::fs::symlink_metadata(&workspace) {
            Ok(found) => (found.uid(), true),
            Err(_) => (0, false),
        },
        uid => (uid, true),
    };
    let user = User::from_uid(Uid::from_raw(uid))?;
    let gid = match &user {
        Some(user) if uid != peer.uid => user.gid.as_raw(),
        Some(_) | None => peer.gid,
    };
    let (user, home) = match user {
        Some(user) => (user.name, Some(user.dir).filter(|home| seen && home.is_absolute())),
        None => (uid.to_string(), None),
    };
    Ok(Scene { workspace, home, user, uid, gid })
}
