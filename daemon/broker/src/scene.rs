//! Who opens a session, from the accounts of the host. Broker.

use crate::{error::SessionError, launcher::LauncherError, peer::Peer, server::Server};
use nix::unistd::{Uid, User};
use palisade_plan::{
    Identity,
    launcher::{Reply, Request},
};
use palisade_policy::Scene;
use palisade_protocol::RawPath;
use std::{io, os::fd::BorrowedFd, path::PathBuf, time::Duration};
use tokio::time::timeout;

/// How long the launcher may take to look at a directory.
const PATIENCE: Duration = Duration::from_secs(30);

/// The scene of a session for the client at the other end of a socket. Looking up an account can take
/// a directory service's time.
pub(crate) async fn of(
    server: &Server,
    peer: Peer,
    client: BorrowedFd<'_>,
    workspace: &RawPath,
) -> Result<Scene, SessionError> {
    // A session of root's runs as the owner of its workspace, so the home is that user's. The broker
    // may be unable to see the workspace, which the launcher is not.
    let identity = match peer.uid {
        0 => identify(server, client, workspace).await?,
        uid => Identity { uid, gid: peer.gid },
    };
    let workspace = workspace.as_path().to_owned();
    let looked_up = tokio::task::spawn_blocking(move || look_up(identity, workspace)).await;
    Ok(looked_up.map_err(io::Error::other)??)
}

/// Asks the launcher whom a session would run as.
async fn identify(
    server: &Server,
    client: BorrowedFd<'_>,
    workspace: &RawPath,
) -> Result<Identity, SessionError> {
    let launcher = server.link.launcher().await?;
    let session = server.link.next_question();
    let mut replies = launcher.enroll(session)?;
    let request = Request::Identify { session, workspace: workspace.as_path().into() };
    let sent = launcher.send(&request, &[client]).await;
    let reply = match sent {
        Ok(()) => Ok(timeout(PATIENCE, replies.recv()).await),
        Err(error) => Err(error),
    };
    launcher.forget(session);
    match reply?.map_err(|_| SessionError::Silent(PATIENCE.as_secs()))? {
        Some(Reply::Identified { identity, .. }) => Ok(identity),
        Some(Reply::Refused { refusal, .. }) => Err(SessionError::Refused(refusal)),
        Some(
            Reply::Started { .. }
            | Reply::Ended { .. }
            | Reply::Welcome { .. }
            | Reply::Fatal { .. },
        )
        | None => {
            let why = launcher.gone().unwrap_or("it answered something else").to_owned();
            Err(LauncherError::Gone(why).into())
        }
    }
}

fn look_up(identity: Identity, workspace: PathBuf) -> io::Result<Scene> {
    let Identity { uid, gid } = identity;
    let (user, home) = match User::from_uid(Uid::from_raw(uid))? {
        Some(user) => (user.name, Some(user.dir).filter(|home| home.is_absolute())),
        None => (uid.to_string(), None),
    };
    Ok(Scene { workspace, home, user, uid, gid })
}
