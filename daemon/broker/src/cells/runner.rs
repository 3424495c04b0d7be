//! The runners of a session, the processes that run its programs. They are started ahead of calls,
//! and replaced when they die. Runs in the broker.

use crate::cells::{
    channel::{Channel, ChannelError},
    launcher::{Launcher, LauncherError},
    spare::SpareShells,
};
use palisade_plan::{
    cell::{Fault, Ready},
    launcher::{Request, SessionNumber},
};
use std::{os::fd::AsFd as _, sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::timeout};

/// The time limit for a runner to confine itself.
pub(crate) const READY: Duration = Duration::from_secs(30);

/// An error from starting a runner.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunnerError {
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    #[error("{0}")]
    Channel(#[from] ChannelError),
    #[error("the socket pair could not be created: {0}")]
    Io(#[from] std::io::Error),
    #[error("the runner could not be set up: {why}")]
    Step { step: String, why: String, fault: Fault },
    #[error("the runner was not ready within {} s", READY.as_secs())]
    Silent,
}

/// A runner that was requested from the launcher.
#[derive(Debug)]
enum SpareRunner {
    /// It has not reported that it is ready.
    Coming(Channel),
    /// It is ready and waits for a program.
    Ready(Channel),
    /// It is ready too, and the program that it ran has used up its spare shell.
    Used(Channel),
}

/// The kind of a session's runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunnerKind {
    /// Its programs change the workspace directly, without a transaction.
    Direct,
    /// Its programs see the workspace read-only.
    Reading,
}

/// A session's spare runner of one kind.
#[derive(Debug)]
pub(crate) struct Runners {
    launcher: Arc<Launcher>,
    session: SessionNumber,
    kind: RunnerKind,
    spares: Arc<SpareShells>,
    slot: Mutex<Option<SpareRunner>>,
}

impl Runners {
    pub(crate) fn new(
        launcher: Arc<Launcher>,
        session: SessionNumber,
        kind: RunnerKind,
        spares: Arc<SpareShells>,
    ) -> Self {
        Self { launcher, session, kind, spares, slot: Mutex::new(None) }
    }

    async fn ask(&self) -> Result<Channel, RunnerError> {
        let (mut channel, end) = Channel::pair()?;
        let session = self.session;
        let request = match self.kind {
            RunnerKind::Direct => Request::Runner { session },
            RunnerKind::Reading => Request::Reader { session },
        };
        self.launcher.send(&request, &[end.as_fd()]).await?;
        self.spares.prepare(&mut channel).await;
        Ok(channel)
    }

    /// Requests a runner ahead of the call that needs it. If that fails, the call reports why.
    pub(crate) async fn prepare(&self) {
        let mut slot = self.slot.lock().await;
        if slot.is_none() {
            match self.ask().await {
                Ok(channel) => *slot = Some(SpareRunner::Coming(channel)),
                Err(error) => tracing::debug!(%error, "no runner prepared for the next call"),
            }
        }
    }

    /// Returns a ready runner. The caller owns it until it is given back; dropping it ends the
    /// runner.
    pub(crate) async fn take(&self) -> Result<Channel, RunnerError> {
        let mut channel = match self.slot.lock().await.take() {
            Some(SpareRunner::Ready(channel) | SpareRunner::Used(channel)) => return Ok(channel),
            Some(SpareRunner::Coming(channel)) => channel,
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

    /// Returns a runner for use by the next call.
    pub(crate) async fn give_back(&self, mut channel: Channel) {
        channel.relax();
        let mut slot = self.slot.lock().await;
        match *slot {
            // One spare is enough; this runner ends.
            Some(SpareRunner::Ready(_) | SpareRunner::Used(_)) => {}
            Some(SpareRunner::Coming(_)) | None => *slot = Some(SpareRunner::Used(channel)),
        }
    }

    /// Returns `true` if the runner that waits has used up its spare shell.
    pub(super) fn lacks_shell(&self) -> bool {
        self.slot.try_lock().is_ok_and(|slot| matches!(*slot, Some(SpareRunner::Used(_))))
    }

    /// Requests another spare shell from the runner that waits, if it has used up the last one.
    pub(super) async fn prepare_shell(&self) {
        let mut slot = self.slot.lock().await;
        *slot = match slot.take() {
            Some(SpareRunner::Used(mut channel)) => {
                self.spares.prepare(&mut channel).await;
                Some(SpareRunner::Ready(channel))
            }
            other => other,
        };
    }
}
