//! The processes of a session that run its programs: asked for ahead, replaced when they are lost.
//! Broker.

use crate::{
    channel::{Channel, ChannelError},
    launcher::{Launcher, LauncherError},
};
use palisade_plan::{
    cell::{Fault, Ready},
    launcher::{Request, SessionNumber},
};
use std::{os::fd::AsFd as _, sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::timeout};

/// How long a runner may take to confine itself.
pub(crate) const READY: Duration = Duration::from_secs(30);

/// Why there is no runner.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunnerError {
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    #[error("{0}")]
    Channel(#[from] ChannelError),
    #[error("the socket pair could not be made: {0}")]
    Io(#[from] std::io::Error),
    #[error("step {step:?} of the runner failed: {why}")]
    Step { step: String, why: String, fault: Fault },
    #[error("the runner was not ready within {} s", READY.as_secs())]
    Silent,
}

/// A runner that was asked for.
#[derive(Debug)]
enum Slot {
    /// It will say when it is ready.
    Coming(Channel),
    /// It waits for a program.
    Ready(Channel),
}

/// Which of a session's runners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunnerKind {
    /// Its programs change the workspace at once.
    Direct,
    /// Its programs have the workspace read-only.
    Reading,
}

/// The runner of one kind of a session.
#[derive(Debug)]
pub(crate) struct Runners {
    launcher: Arc<Launcher>,
    session: SessionNumber,
    kind: RunnerKind,
    slot: Mutex<Option<Slot>>,
}

impl Runners {
    pub(crate) fn new(launcher: Arc<Launcher>, session: SessionNumber, kind: RunnerKind) -> Self {
        Self { launcher, session, kind, slot: Mutex::new(None) }
    }

    async fn ask(&self) -> Result<Channel, RunnerError> {
        let (channel, end) = Channel::pair()?;
        let session = self.session;
        let request = match self.kind {
            RunnerKind::Direct => Request::Runner { session },
            RunnerKind::Reading => Request::Reader { session },
        };
        self.launcher.send(&request, &[end.as_fd()]).await?;
        Ok(channel)
    }

    /// Asks for a runner ahead of the call that needs it. If that fails, that call says why.
    pub(crate) async fn prepare(&self) {
        let mut slot = self.slot.lock().await;
        if slot.is_none() {
            match self.ask().await {
                Ok(channel) => *slot = Some(Slot::Coming(channel)),
                Err(error) => tracing::debug!(%error, "no runner ahead of its call"),
            }
        }
    }

    /// The runner, ready. It is the caller's until given back; dropped, it dies.
    pub(crate) async fn take(&self) -> Result<Channel, RunnerError> {
        let mut channel = match self.slot.lock().await.take() {
            Some(Slot::Ready(channel)) => return Ok(channel),
            Some(Slot::Coming(channel)) => channel,
            None => self.ask().await?,
        };
        let ready = timeout(READY, channel.receive()).await.map_err(|_| RunnerError::Silent)??;
        match ready {
            Ready::Confined(receipt) => {
                channel.audit_session = receipt.audit_session;
                Ok(channel)
            }
            Ready::Failed { step, why, fault } => Err(RunnerError::Step { step, why, fault }),
        }
    }

    /// Gives a runner back for the next call.
    pub(crate) async fn give_back(&self, mut channel: Channel) {
        channel.relax();
        let mut slot = self.slot.lock().await;
        match *slot {
            // One is enough; this one ends.
            Some(Slot::Ready(_)) => {}
            Some(Slot::Coming(_)) | None => *slot = Some(Slot::Ready(channel)),
        }
    }
}
