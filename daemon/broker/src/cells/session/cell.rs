//! The handles of a session's cell: its processes, channels and runners, and the state that the
//! launcher reports. Runs in the broker.

use crate::{
    base::error::CallError,
    cells::{
        analyst::ExpectedCalls,
        files::FileChannels,
        launcher::Launcher,
        oom::OomCounter,
        runner::{RunnerKind, Runners},
        spare::SpareShells,
        transaction::Transactions,
    },
};
use palisade_plan::launcher::{Reply, Request, SessionNumber};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

/// The time limit for the launcher to end a session.
const ENDED: Duration = Duration::from_secs(10);

/// The state of a session: running, or the reason why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionState {
    Running,
    Ended,
    LauncherGone,
}

/// The cell of a session, as the broker reaches it.
#[derive(Debug)]
pub(crate) struct SessionCell {
    pub(super) launcher: Arc<Launcher>,
    /// The number by which the launcher and the egress room know the session.
    pub(super) number: SessionNumber,
    pub(super) state: watch::Receiver<SessionState>,
    /// True if an operator ended the session.
    pub(super) aborted: AtomicBool,
    pub(crate) files: FileChannels,
    pub(crate) spares: Arc<SpareShells>,
    pub(super) runners: Runners,
    pub(super) readers: Runners,
    /// True if the host has what readers need: mounts and processes of their own.
    pub(super) has_reading_view: bool,
    pub(crate) transactions: Transactions,
    pub(super) expected_calls: ExpectedCalls,
    pub(crate) oom: OomCounter,
}

impl SessionCell {
    /// Returns the runners of one kind.
    pub(crate) const fn runners(&self, kind: RunnerKind) -> &Runners {
        match kind {
            RunnerKind::Direct => &self.runners,
            RunnerKind::Reading => &self.readers,
        }
    }

    /// Requests a transaction for the next call, if the session expects one.
    pub(crate) async fn prepare_transaction(&self) {
        match self.expected_calls {
            ExpectedCalls::Many => self.transactions.prepare().await,
            ExpectedCalls::One => {}
        }
    }

    /// Returns `true` if calls have used up what was prepared, and more are expected.
    pub(super) fn lacks_preparation(&self) -> bool {
        self.expected_calls == ExpectedCalls::Many
            && (self.runners.lacks_shell()
                || self.readers.lacks_shell()
                || self.transactions.lacks_next())
    }

    /// Requests what calls have used up: spare shells, and the next transaction.
    pub(super) async fn prepare_next(&self) {
        self.runners.prepare_shell().await;
        self.readers.prepare_shell().await;
        if self.transactions.lacks_next() {
            self.prepare_transaction().await;
        }
    }

    /// Ends the cell; returns when none of its processes are left.
    pub(super) async fn end(&self) {
        end(&self.launcher, self.number, &mut self.state.clone()).await;
    }

    /// Waits until the cell has ended.
    pub(super) async fn over(&self) {
        let mut state = self.state.clone();
        // The sender is dropped only after it has sent the final state.
        state.wait_for(|state| *state != SessionState::Running).await.ok();
    }

    /// Returns an error if the session has ended.
    pub(super) fn check(&self) -> Result<(), CallError> {
        // Its processes end before the launcher reports that.
        if self.aborted.load(Ordering::Acquire) {
            return Err(CallError::Aborted);
        }
        match *self.state.borrow() {
            SessionState::Running => Ok(()),
            SessionState::Ended => Err(CallError::SessionOver),
            SessionState::LauncherGone => {
                Err(CallError::LauncherGone(self.launcher.gone().unwrap_or_default().to_owned()))
            }
        }
    }

    /// Turns a channel's failure into an error: if the session has ended, that is the reason.
    pub(super) fn channel_error(&self, error: impl std::fmt::Display) -> CallError {
        match (self.check(), self.launcher.gone()) {
            (Err(over), _) => over,
            (Ok(()), Some(why)) => CallError::LauncherGone(why.to_owned()),
            (Ok(()), None) => CallError::Cell(error.to_string()),
        }
    }
}

/// Reads the launcher's messages about a session until it ends.
pub(super) async fn attend(
    launcher: Arc<Launcher>,
    number: SessionNumber,
    mut replies: mpsc::UnboundedReceiver<Reply>,
    state: watch::Sender<SessionState>,
) {
    let end = loop {
        match replies.recv().await {
            Some(Reply::Ended { .. }) => break SessionState::Ended,
            Some(Reply::Refused { refusal, .. }) => {
                tracing::warn!(session = number, ?refusal, "the launcher refused a request");
            }
            Some(
                Reply::Identified { .. }
                | Reply::Started { .. }
                | Reply::Welcome { .. }
                | Reply::Fatal { .. },
            ) => {}
            None => break SessionState::LauncherGone,
        }
    };
    launcher.forget(number);
    state.send_replace(end);
}

/// Asks the launcher to end a session, and waits until none of its processes are left.
pub(super) async fn end(
    launcher: &Launcher,
    number: SessionNumber,
    state: &mut watch::Receiver<SessionState>,
) {
    if *state.borrow() != SessionState::Running {
        return;
    }
    if let Err(error) = launcher.send(&Request::End { session: number }, &[]).await {
        tracing::debug!(session = number, %error, "can not ask the launcher to end a session");
    }
    let over = state.wait_for(|state| *state != SessionState::Running);
    if timeout(ENDED, over).await.is_err() {
        tracing::warn!(session = number, "the launcher did not end a session in time");
    }
}
