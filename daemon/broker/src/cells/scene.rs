//! The identity and home directory for a session, from the host's accounts. Runs in the broker.

use crate::{
    base::peer::Peer,
    cells::{launcher::LauncherError, link::Link, session::error::SessionError},
};
use nix::unistd::{Uid, User};
use palisade_plan::{
    Identity,
    launcher::{Reply, Request},
};
use palisade_policy::Scene;
use palisade_protocol::RawPath;
use std::{io, os::fd::BorrowedFd, path::PathBuf, time::Duration};
use tokio::time::timeout;

/// The time limit for the launcher to inspect a directory.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the scene of a session for the client at the other end of a socket. Looking up an
/// account may be slow if it needs a directory service.
pub(crate) async fn of(
    link: &Link,
    peer: Peer,
    client: BorrowedFd<'_>,
    workspace: &RawPath,
) -> Result<Scene, SessionError> {
    // A session that root opens runs as the owner of its workspace, so the home is that user's. The
    // broker may be unable to see the workspace; the launcher can.
    let identity = match peer.uid {
        0 => identify(link, client, workspace).await?,
        uid => Identity { uid, gid: peer.gid },
    };
    let workspace = workspace.as_path().to_owned();
    let looked_up = tokio::task::spawn_blocking(move || look_up(identity, workspace)).await;
    Ok(looked_up.map_err(io::Error::other)??)
}

/// Asks the launcher which user a session in this workspace would run as.
async fn identify(
    link: &Link,
    client: BorrowedFd<'_>,
    workspace: &RawPath,
) -> Result<Identity, SessionError> {
    let launcher = link.launcher().await?;
    let session = link.next_question();
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
            let why = launcher.gone().unwrap_or("it sent an unexpected reply").to_owned();
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
