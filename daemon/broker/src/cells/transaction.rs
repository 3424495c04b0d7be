//! Transactions of a session. Each is a process that runs one program on an overlay of the
//! workspace, and then reports what the program changed. Runs in the broker.

use crate::cells::{
    channel::Channel,
    files::FileChannels,
    hidden_names::ScanResult,
    launcher::Launcher,
    runner::{READY, RunnerError},
    spare::SpareShells,
};
use palisade_plan::{
    Path,
    cell::Ready,
    launcher::{Request, SessionNumber},
};
use std::{
    os::fd::AsFd as _,
    sync::{Arc, OnceLock},
};
use tokio::{sync::Mutex, time::timeout};

/// The process of one transaction. Dropping it ends the process and discards the changes.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// The channel for its one program; `None` while the program runs, or if its runner was lost.
    pub(crate) run: Option<Channel>,
    /// The channels for reading and committing what the program changed.
    pub(crate) files: FileChannels,
}

/// The transactions of a session.
#[derive(Debug)]
pub(crate) struct Transactions {
    launcher: Arc<Launcher>,
    session: SessionNumber,
    spares: Arc<SpareShells>,
    /// The reason that transactions are unavailable, if they are.
    unavailable: OnceLock<String>,
    /// Set once a transaction was started successfully.
    started: OnceLock<()>,
    ahead: Mutex<NextTransaction>,
}

/// The preparations for the next call.
#[derive(Debug, Default)]
struct NextTransaction {
    /// A transaction that was requested and will report when it is ready, with the generation of
    /// hidden paths in it.
    next: Option<((Channel, Channel), Generation)>,
    /// The hidden paths that were last found.
    scanned: Option<Arc<ScanResult>>,
}

/// The generation of the hidden paths; `None` if the profile hides nothing.
type Generation = Option<u64>;

impl Transactions {
    pub(crate) fn new(
        launcher: Arc<Launcher>,
        session: SessionNumber,
        spares: Arc<SpareShells>,
    ) -> Self {
        let (unavailable, started) = (OnceLock::new(), OnceLock::new());
        Self { launcher, session, spares, unavailable, started, ahead: Mutex::default() }
    }

    /// Returns the reason that transactions are unavailable; `None` if they are available.
    pub(crate) fn unavailable_reason(&self) -> Option<&str> {
        self.unavailable.get().map(String::as_str)
    }

    /// Returns `true` if a transaction was ever started in this session.
    pub(crate) fn ever_started(&self) -> bool {
        self.started.get().is_some()
    }

    /// Makes transactions unavailable from now on; the first reason is stored.
    pub(crate) fn give_up(&self, why: impl Into<String>) {
        let why = self.unavailable.get_or_init(|| why.into());
        tracing::info!(
            session = self.session,
            why,
            "transactions are unavailable: commands are judged by their text"
        );
    }

    async fn ask(&self, scanned: Option<&ScanResult>) -> Result<(Channel, Channel), RunnerError> {
        let (mut run, run_end) = Channel::pair()?;
        let (files, files_end) = Channel::pair()?;
        let request = Request::Transaction { session: self.session };
        let mut descriptors = vec![run_end.as_fd(), files_end.as_fd()];
        descriptors.extend(scanned.map(|scanned| scanned.file.as_fd()));
        self.launcher.send(&request, &descriptors).await?;
        self.spares.prepare(&mut run).await;
        Ok((run, files))
    }

    /// Returns a transaction for a program that watches: its changes of these directories are held
    /// back, and everything else is read-only for it.
    pub(crate) async fn watch(&self, directories: Vec<Path>) -> Result<Transaction, RunnerError> {
        let (run, run_end) = Channel::pair()?;
        let (files, files_end) = Channel::pair()?;
        let request = Request::Watch { session: self.session, directories };
        self.launcher.send(&request, &[run_end.as_fd(), files_end.as_fd()]).await?;
        ready((run, files)).await
    }

    /// Requests a transaction ahead of the call that needs it.
    ///
    /// Nobody reads its overlay before its program starts, so the program sees the workspace as it
    /// is then. If the request fails, the call reports why.
    pub(crate) async fn prepare(&self) {
        let mut ahead = self.ahead.lock().await;
        if ahead.next.is_none() {
            let scanned = ahead.scanned.clone();
            match self.ask(scanned.as_deref()).await {
                Ok(channels) => ahead.next = Some((channels, generation(scanned.as_deref()))),
                Err(error) => tracing::debug!(%error, "no transaction prepared for the next call"),
            }
        }
    }

    /// Returns `true` if the session uses transactions, and none was requested for the next call.
    pub(super) fn lacks_next(&self) -> bool {
        self.ever_started() && self.ahead.try_lock().is_ok_and(|ahead| ahead.next.is_none())
    }

    /// Returns a ready transaction in which the given paths are hidden.
    pub(crate) async fn take(
        &self,
        scanned: Option<ScanResult>,
    ) -> Result<Transaction, RunnerError> {
        let scanned = scanned.map(Arc::new);
        let ahead = {
            let mut ahead = self.ahead.lock().await;
            ahead.scanned.clone_from(&scanned);
            ahead.next.take()
        };
        let scanned = scanned.as_deref();
        let taken = match ahead {
            // If it failed when it was made, or died while it waited, another one may still work.
            Some((channels, hidden)) if hidden == generation(scanned) => {
                match ready(channels).await {
                    Err(RunnerError::Channel(_) | RunnerError::Step { .. }) => {
                        ready(self.ask(scanned).await?).await
                    }
                    ready => ready,
                }
            }
            // The set of hidden paths has changed.
            Some(_) | None => ready(self.ask(scanned).await?).await,
        };
        if taken.is_ok() {
            self.started.get_or_init(|| ());
        }
        taken
    }
}

fn generation(scanned: Option<&ScanResult>) -> Generation {
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
