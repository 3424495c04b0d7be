//! The source of the launcher, and the way to a new one when it is gone. Runs in the broker.

use crate::{
    base::{self, fair::FairQueue},
    cells::launcher::{Launcher, LauncherError},
};
use palisade_plan::launcher::SessionNumber;
use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Child,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::timeout,
};

/// The number of sessions that are made at once; users take turns.
const STARTS: usize = 8;

/// The source of the launcher.
#[derive(Debug)]
pub(crate) enum LauncherSource {
    /// A child of this daemon; it is not started again when it ends.
    Child(Mutex<Child>),
    /// The socket of a launcher that is its own service and can be connected to again.
    Path(PathBuf),
    /// No launcher, for tests of what works without one.
    #[cfg(test)]
    Nowhere,
}

/// The launcher in use, and the way to reach another one.
#[derive(Debug)]
pub(crate) struct Link {
    source: LauncherSource,
    current: tokio::sync::Mutex<Result<Arc<Launcher>, String>>,
    numbers: AtomicU32,
    questions: AtomicU32,
    /// The places of sessions that are being made.
    pub(crate) starts: FairQueue,
}

impl Link {
    /// Greets a launcher that this daemon started as its child.
    pub(crate) async fn child(child: Child, socket: OwnedFd) -> Result<Self, LauncherError> {
        let launcher = Launcher::greet(socket).await?;
        Ok(Self::new(LauncherSource::Child(Mutex::new(child)), Ok(launcher)))
    }

    /// Connects to a launcher that is its own service.
    pub(crate) async fn path(path: &Path) -> Result<Self, LauncherError> {
        let launcher = Launcher::greet(dial(path)?).await?;
        Ok(Self::new(LauncherSource::Path(path.to_owned()), Ok(launcher)))
    }

    /// Makes a link whose launcher is gone.
    #[cfg(test)]
    pub(crate) fn gone(why: &str) -> Self {
        Self::new(LauncherSource::Nowhere, Err(why.to_owned()))
    }

    fn new(source: LauncherSource, current: Result<Arc<Launcher>, String>) -> Self {
        let (numbers, questions) = (AtomicU32::new(1), AtomicU32::new(u32::MAX));
        let starts = FairQueue::new(STARTS);
        Self { source, current: tokio::sync::Mutex::new(current), numbers, questions, starts }
    }

    /// Returns the launcher; if it is a service and was gone, connects to it again first.
    pub(crate) async fn launcher(&self) -> Result<Arc<Launcher>, LauncherError> {
        let mut current = self.current.lock().await;
        let why = match &*current {
            Ok(launcher) => match launcher.gone() {
                None => return Ok(Arc::clone(launcher)),
                Some(why) => why.to_owned(),
            },
            Err(why) => why.clone(),
        };
        let LauncherSource::Path(path) = &self.source else {
            return Err(LauncherError::Gone(why));
        };
        let launcher = Launcher::greet(dial(path)?).await?;
        *current = Ok(Arc::clone(&launcher));
        Ok(launcher)
    }

    /// Returns the current launcher without connecting, or why there is none.
    pub(crate) fn state(&self) -> Result<Arc<Launcher>, String> {
        // A task that is connecting again holds the lock, perhaps for long.
        let Ok(current) = self.current.try_lock() else {
            return Err("the broker is still connecting to it".to_owned());
        };
        match &*current {
            Ok(launcher) => match launcher.gone() {
                None => Ok(Arc::clone(launcher)),
                Some(why) => Err(why.to_owned()),
            },
            Err(why) => Err(why.clone()),
        }
    }

    /// Returns an unused number for a request about a session that does not exist yet. These
    /// numbers count down from the top; those of sessions count up.
    pub(crate) fn next_question(&self) -> SessionNumber {
        self.questions.fetch_sub(1, Ordering::Relaxed)
    }

    /// Returns a session number that was not used before.
    pub(crate) fn next_number(&self) -> SessionNumber {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Closes the connection to the launcher. If this daemon started the launcher, waits up to
    /// `patience` for it to exit, so that no process of its sessions is left.
    pub(crate) async fn close(&self, patience: Duration) {
        let current = std::mem::replace(&mut *self.current.lock().await, Err("stopping".into()));
        if let Ok(launcher) = current {
            launcher.close();
        }
        let LauncherSource::Child(child) = &self.source else { return };
        match timeout(patience, end_of(child)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "can not wait for the launcher"),
            Err(_) => {
                tracing::warn!("the launcher is still running after {} s", patience.as_secs());
            }
        }
    }
}

/// Waits until a child has ended, and reaps it.
async fn end_of(child: &Mutex<Child>) -> io::Result<()> {
    // Before the first look, so that no end is missed.
    let mut ended = signal(SignalKind::child())?;
    while child.lock().unwrap_or_else(PoisonError::into_inner).try_wait()?.is_none() {
        // Whichever child it is that has ended.
        ended.recv().await;
    }
    Ok(())
}

fn dial(path: &Path) -> Result<OwnedFd, LauncherError> {
    base::dial::dial(path)
        .map_err(|source| LauncherError::Connect { path: path.to_owned(), source })
}
