//! The launcher at the start: a process of this daemon, or a service of its own. Runs in the broker.

use super::error::StartError;
use crate::{
    boot::launcher_process::LauncherProcess,
    cells::{launcher::LauncherError, link::Link},
};
use std::path::PathBuf;

/// The source of the launcher.
#[derive(Debug)]
pub(super) enum LauncherFrom {
    Process(LauncherProcess),
    Socket(PathBuf),
}

impl LauncherFrom {
    /// Ends a launcher that was started in vain, and waits for its end. Returns the reason.
    pub(super) fn abandon(self, reason: StartError) -> StartError {
        match self {
            Self::Process(LauncherProcess { mut child, socket }) => {
                drop(socket);
                if let Err(error) = child.wait() {
                    tracing::warn!(%error, "can not wait for the launcher");
                }
            }
            Self::Socket(_) => {}
        }
        reason
    }

    pub(super) async fn link(self) -> Result<Link, LauncherError> {
        match self {
            Self::Process(LauncherProcess { child, socket }) => Link::child(child, socket).await,
            Self::Socket(path) => Link::path(&path).await,
        }
    }
}
