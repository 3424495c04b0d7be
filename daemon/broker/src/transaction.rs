//! Transactions of a session: each a process that runs one program over the workspace and then says
//! what it changed. Broker.

mod changes;
mod ending;
mod part;
pub(crate) mod resolve;
mod review;
pub(crate) mod settle;
mod told;
pub(crate) mod unsettled;

use crate::{
    channel::Channel,
    files::FileChannels,
    launcher::Launcher,
    runner::{READY, RunnerError},
    veil::Scanned,
};
use palisade_plan::{
    cell::Ready,
    launcher::{Request, SessionNumber},
};
use std::{
    os::fd::AsFd as _,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{sync::Mutex, time::timeout};

/// How long it may take to find out what was changed, and to have it done.
const SETTLE: Duration = Duration::from_secs(120);

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
    /// There was one.
    had: OnceLock<()>,
    ahead: Mutex<Ahead>,
}

/// What is ready for the next call.
#[derive(Debug, Default)]
struct Ahead {
    /// A transaction, which will say when it is ready, and what is hidden in it.
    next: Option<((Channel, Channel), Generation)>,
    /// What was last found to be hidden.
    scanned: Option<Arc<Scanned>>,
}

/// Which of the things that were found to be hidden; none if nothing ever is.
type Generation = Option<u64>;

impl Transactions {
    pub(crate) fn new(launcher: Arc<Launcher>, session: SessionNumber) -> Self {
        let (none, had) = (OnceLock::new(), OnceLock::new());
        Self { launcher, session, none, had, ahead: Mutex::default() }
    }

    /// Why there are none, if so.
    pub(crate) fn none(&self) -> Option<&str> {
        self.none.get().map(String::as_str)
    }

    /// Whether there was one in this session.
    pub(crate) fn were_had(&self) -> bool {
        self.had.get().is_some()
    }

    /// There are none from here on; the first reason counts.
    pub(crate) fn give_up(&self, why: impl Into<String>) {
        let why = self.none.get_or_init(|| why.into());
        tracing::info!(session = self.session, why, "no transactions: commands are held by text");
    }

    async fn ask(&self, scanned: Option<&Scanned>) -> Result<(Channel, Channel), RunnerError> {
        let (run, run_end) = Channel::pair()?;
        let (files, files_end) = Channel::pair()?;
        let request = Request::Transaction { session: self.session };
        let mut descriptors = vec![run_end.as_fd(), files_end.as_fd()];
        descriptors.extend(scanned.map(|scanned| scanned.file.as_fd()));
        self.launcher.send(&request, &descriptors).await?;
        Ok((run, files))
    }

    /// Asks for one ahead of the call that needs it. Until its program is started nobody looks into
    /// what it lays over the workspace, so that the program finds there what is there by then. If it
    /// can not be had, that call says why.
    pub(crate) async fn prepare(&self) {
        let mut ahead = self.ahead.lock().await;
        if ahead.next.is_none() {
            let scanned = ahead.scanned.clone();
            match self.ask(scanned.as_deref()).await {
                Ok(channels) => ahead.next = Some((channels, generation(scanned.as_deref()))),
                Err(error) => tracing::debug!(%error, "no transaction ahead of its call"),
            }
        }
    }

    /// One that is ready, in which what was found is hidden.
    pub(crate) async fn take(&self, scanned: Option<Scanned>) -> Result<Transaction, RunnerError> {
        let scanned = scanned.map(Arc::new);
        let ahead = {
            let mut ahead = self.ahead.lock().await;
            ahead.scanned.clone_from(&scanned);
            ahead.next.take()
        };
        let scanned = scanned.as_deref();
        let taken = match ahead {
            // One that was lost while it waited says nothing of the next.
            Some((channels, hidden)) if hidden == generation(scanned) => {
                match ready(channels).await {
                    Err(RunnerError::Channel(_)) => ready(self.ask(scanned).await?).await,
                    ready => ready,
                }
            }
            // Something else is hidden by now.
            Some(_) | None => ready(self.ask(scanned).await?).await,
        };
        if taken.is_ok() {
            self.had.get_or_init(|| ());
        }
        taken
    }
}

fn generation(scanned: Option<&Scanned>) -> Generation {
    scanned.map(|scanned| scanned.generation)
}

async fn ready((mut run, files): (Channel, Channel)) -> Result<Transaction, RunnerError> {
    let ready = timeout(READY, run.receive()).await.map_err(|_| RunnerError::Silent)??;
    match ready {
        Ready::Confined(receipt) => {
            run.audit_session = receipt.audit_session;
            Ok(Transaction { run: Some(run), files: FileChannels::new(vec![files]) })
        }
        Ready::Failed { step, why, fault } => Err(RunnerError::Step { step, why, fault }),
    }
}
