//! Where the launcher comes from, and how to get another when it is gone. Broker.

use crate::launcher::{Launcher, LauncherError};
use palisade_plan::launcher::SessionNumber;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::Child,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

/// Where the launcher comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Started by this daemon; there is no second one.
    Child(Mutex<Child>),
    /// A service of its own that can be connected to again.
    Path(PathBuf),
    /// None at all, for tests of what can be said without one.
    #[cfg(test)]
    Nowhere,
}

/// The launcher in use, and how to get another.
#[derive(Debug)]
pub(crate) struct Link {
    source: Source,
    current: tokio::sync::Mutex<Result<Arc<Launcher>, String>>,
    numbers: AtomicU32,
    questions: AtomicU32,
}

impl Link {
    /// Greets a launcher that this daemon started.
    pub(crate) async fn child(child: Child, socket: OwnedFd) -> Result<Self, LauncherError> {
        let launcher = Launcher::greet(socket).await?;
        Ok(Self::new(Source::Child(Mutex::new(child)), Ok(launcher)))
    }

    /// Connects to a launcher that is a service of its own.
    pub(crate) async fn path(path: &Path) -> Result<Self, LauncherError> {
        let launcher = Launcher::greet(dial(path)?).await?;
        Ok(Self::new(Source::Path(path.to_owned()), Ok(launcher)))
    }

    /// A link whose launcher is gone.
    #[cfg(test)]
    pub(crate) fn gone(why: &str) -> Self {
        Self::new(Source::Nowhere, Err(why.to_owned()))
    }

    fn new(source: Source, current: Result<Arc<Launcher>, String>) -> Self {
        let (numbers, questions) = (AtomicU32::new(1), AtomicU32::new(u32::MAX));
        Self { source, current: tokio::sync::Mutex::new(current), numbers, questions }
    }

    /// The launcher, connected to anew if it is a service that was gone.
    pub(crate) async fn launcher(&self) -> Result<Arc<Launcher>, LauncherError> {
        let mut current = self.current.lock().await;
        let why = match &*current {
            Ok(launcher) => match launcher.gone() {
                None => return Ok(Arc::clone(launcher)),
                Some(why) => why.to_owned(),
            },
            Err(why) => why.clone(),
        };
        let Source::Path(path) = &self.source else {
            return Err(LauncherError::Gone(why));
        };
        let launcher = Launcher::greet(dial(path)?).await?;
        *current = Ok(Arc::clone(&launcher));
        Ok(launcher)
    }

    /// The launcher as it is, or why there is none.
    pub(crate) fn state(&self) -> Result<Arc<Launcher>, String> {
        // Whoever connects anew holds the lock, perhaps for long.
        let Ok(current) = self.current.try_lock() else {
            return Err("it is being connected to".to_owned());
        };
        match &*current {
            Ok(launcher) => match launcher.gone() {
                None => Ok(Arc::clone(launcher)),
                Some(why) => Err(why.to_owned()),
            },
            Err(why) => Err(why.clone()),
        }
    }

    /// A number for a question about a session that is not there yet: those of sessions are counted
    /// from the other end.
    pub(crate) fn next_question(&self) -> SessionNumber {
        self.questions.fetch_sub(1, Ordering::Relaxed)
    }

    /// A number that no session had before.
    pub(crate) fn next_number(&self) -> SessionNumber {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets go of the launcher; one that this daemon started is waited for, so that nothing of
    /// its sessions is left when this returns.
    pub(crate) async fn close(&self, patience: Duration) {
        let current = std::mem::replace(&mut *self.current.lock().await, Err("stopping".into()));
        if let Ok(launcher) = current {
            launcher.let_go();
        }
        let Source::Child(child) = &self.source else { return };
        let ended = async {
            while !has_ended(child) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if timeout(patience, ended).await.is_err() {
            tracing::warn!("the launcher is still there after {} s", patience.as_secs());
        }
    }
}

fn has_ended(child: &Mutex<Child>) -> bool {
    let status = child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
    match status {
        Ok(None) => false,
        Ok(Some(_)) => true,
        Err(error) => {
            tracing::warn!(%error, "can not wait for the launcher");
            true
        }
    }
}

fn dial(path: &Path) -> Result<OwnedFd, LauncherError> {
    let failed = |errno: rustix::io::Errno| LauncherError::Connect {
        path: path.to_owned(),
        source: errno.into(),
    };
    // A launcher that is busy with another broker must not hold up this one.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed)?;
    connect(&socket, &SocketAddrUnix::new(path).map_err(failed)?).map_err(failed)?;
    Ok(socket)
}
