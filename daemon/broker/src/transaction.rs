//! Transactions of a session: each a process that runs one program over the workspace and then says
//! what it changed. Broker.

mod changes;
mod ending;
mod part;
mod review;
mod settle;
mod told;

pub(crate) use settle::{Purpose, Unsettled, settle};

use crate::{
    channel::Channel,
    files::FileChannels,
    launcher::Launcher,
    runner::{READY, RunnerError},
};
use palisade_plan::{
    cell::Ready,
    launcher::{Request, SessionNumber},
};
use std::{
    os::fd::AsFd as _,
    sync::{Arc, OnceLock},
};
use tokio::{sync::Mutex, time::timeout};

/// The process of one transaction. Dropped, it ends, and what was changed is gone.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// For its one program.
    pub(crate) run: Option<Channel>,
    /// For what the program changed.
    pub(crate) files: FileChannels,
}

/// The transactions of a session.
#[derive(Debug)]
pub(crate) struct Transactions {
    launcher: Arc<Launcher>,
    session: SessionNumber,
    /// Why there are none.
    none: OnceLock<String>,
    /// The next, which will say when it is ready.
    ahead: Mutex<Option<(Channel, Channel)>>,
}

impl Transactions {
    pub(crate) fn new(launcher: Arc<Launcher>, session: SessionNumber) -> Self {
        Self { launcher, session, none: OnceLock::new(), ahead: Mutex::default() }
    }

    /// Why there are none, if so.
    pub(crate) fn none(&self) -> Option<&str> {
        self.none.get().map(String::as_str)
    }

    /// There are none from here on; the first reason counts.
    pub(crate) fn give_up(&self, why: impl Into<String>) {
        let why = self.none.get_or_init(|| why.into());
        tracing::info!(session = self.session, why, "no transactions: commands are held by text");
    }

    async fn ask(&self) -> Result<(Channel, Channel), RunnerError> {
        let (run, run_end) = Channel::pair()?;
        let (files, files_end) = Channel::pair()?;
        let request = Request::Transaction { session: self.session };
        self.launcher.send(&request, &[run_end.as_fd(), files_end.as_fd()]).await?;
        Ok((run, files))
    }

    /// Asks for one ahead of the call that needs it. Until its program is started nobody looks into
    /// what it lays over the workspace, so that the program finds there what is there by then. If it
    /// can not be had, that call says why.
    pub(crate) async fn prepare(&self) {
        let mut ahead = self.ahead.lock().await;
        if ahead.is_none() {
            match self.ask().await {
                Ok(channels) => *ahead = Some(channels),
                Err(error) => tracing::debug!(%error, "no transaction ahead of its call"),
            }
        }
    }

    /// One that is ready.
    pub(crate) async fn take(&self) -> Result<Transaction, RunnerError> {
        let ahead = self.ahead.lock().await.take();
        match ahead {
            // One that was lost while it waited says nothing of the next.
            Some(channels) => match ready(channels).await {
                Err(RunnerError::Channel(_)) => ready(self.ask().await?).await,
                ready => ready,
            },
            None => ready(self.ask().await?).await,
        }
    }
}

async fn ready((mut run, files): (Channel, Channel)) -> Result<Transaction, RunnerError> {
    let ready = timeout(READY, run.receive()).await.map_err(|_| RunnerError::Silent)??;
    match ready {
        Ready::Confined(_) => {
            Ok(Transaction { run: Some(run), files: FileChannels::new(vec![files]) })
        }
        Ready::Failed { step, why, .. } => Err(RunnerError::Step { step, why }),
    }
}
