//! The broker's side of the launcher socket: one datagram a message, replies routed by session.

use crate::channel::send_with;
use palisade_plan::{
    BUILD_ID, Facts,
    codec::{self, CodecError, MAX_PLAN},
    launcher::{Reply, Request, SessionNumber},
};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with,
};
use std::{
    collections::HashMap,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    process::Child,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{io::Interest, net::UnixStream, sync::mpsc, time::timeout};

/// How long a launcher may take to look at its host and answer.
const GREETING: Duration = Duration::from_secs(30);

/// The largest reply.
const MAX_REPLY: usize = 32 * 1024;

/// A connection to a launcher.
#[derive(Debug)]
pub(crate) struct Launcher {
    socket: UnixStream,
    facts: Facts,
    routes: Mutex<HashMap<SessionNumber, mpsc::UnboundedSender<Reply>>>,
    gone: OnceLock<String>,
    /// This daemon has no more use for it.
    let_go: AtomicBool,
}

/// Why the launcher can not be used.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// It is not there.
    #[error("the launcher is gone: {0}")]
    Gone(String),
    /// The socket failed.
    #[error("the launcher's socket failed")]
    Io(#[from] io::Error),
    /// It could not be reached.
    #[error("can not connect to the launcher at {path}")]
    Connect {
        /// Where.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Not a message.
    #[error("the launcher sent something that is not a reply: {0}")]
    Codec(#[from] CodecError),
    /// No answer to the greeting.
    #[error("the launcher did not answer the greeting within {} s", GREETING.as_secs())]
    Silent,
    /// Another build.
    #[error(
        "the launcher is of build {theirs} and this daemon of build {BUILD_ID}; install both from the same build and start both anew"
    )]
    Build {
        /// The launcher's.
        theirs: String,
    },
    /// It answered something else.
    #[error("the launcher refused the greeting: {0}")]
    Refused(String),
}

impl Launcher {
    /// Greets a launcher; from then on its replies are routed.
    async fn greet(socket: OwnedFd) -> Result<Arc<Self>, LauncherError> {
        // Tokio has no sequenced packets of its own; a stream's readiness is the same.
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        send(&socket, &Request::Hello { build_id: BUILD_ID.to_owned() }, &[]).await?;
        let reply =
            timeout(GREETING, receive(&socket)).await.map_err(|_| LauncherError::Silent)??;
        let facts = match reply {
            Reply::Welcome { build_id, facts } if build_id == BUILD_ID => *facts,
            Reply::Welcome { build_id, .. } => {
                return Err(LauncherError::Build { theirs: build_id });
            }
            Reply::Fatal { why } => return Err(LauncherError::Refused(why)),
            other @ (Reply::Started { .. } | Reply::Refused { .. } | Reply::Ended { .. }) => {
                return Err(LauncherError::Refused(format!("it answered {other:?}")));
            }
        };
        let launcher = Arc::new(Self {
            socket,
            facts,
            routes: Mutex::default(),
            gone: OnceLock::new(),
            let_go: AtomicBool::new(false),
        });
        tokio::spawn(Arc::clone(&launcher).route());
        Ok(launcher)
    }

    /// Hands each reply to its session until the launcher is gone; then every session learns it.
    async fn route(self: Arc<Self>) {
        let why = loop {
            let reply = match receive(&self.socket).await {
                Ok(reply) => reply,
                Err(error) => break error.to_string(),
            };
            let session = match &reply {
                Reply::Started { session, .. }
                | Reply::Refused { session, .. }
                | Reply::Ended { session } => *session,
                Reply::Fatal { why } => break why.clone(),
                Reply::Welcome { .. } => break "it greeted twice".to_owned(),
            };
            let route = self.routes().get(&session).cloned();
            if route.is_none_or(|route| route.send(reply).is_err()) {
                tracing::debug!(session, "a reply for a session that is over");
            }
        };
        if !self.let_go.load(Ordering::Relaxed) {
            tracing::error!(why, "nothing can be confined any more, so nothing will run");
        }
        // Set before the routes close, so that whoever notices finds the reason.
        self.gone.get_or_init(|| why);
        self.routes().clear();
    }

    fn routes(&self) -> MutexGuard<'_, HashMap<SessionNumber, mpsc::UnboundedSender<Reply>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the host can enforce.
    pub(crate) const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Why it is gone, if it is.
    pub(crate) fn gone(&self) -> Option<&str> {
        self.gone.get().map(String::as_str)
    }

    /// The replies about a session, from now on. They end when the launcher is gone.
    pub(crate) fn enroll(
        &self,
        session: SessionNumber,
    ) -> Result<mpsc::UnboundedReceiver<Reply>, LauncherError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut routes = self.routes();
        if let Some(why) = self.gone() {
            return Err(LauncherError::Gone(why.to_owned()));
        }
        routes.insert(session, sender);
        Ok(receiver)
    }

    /// Stops routing replies to a session.
    pub(crate) fn forget(&self, session: SessionNumber) {
        self.routes().remove(&session);
    }

    /// Sends a request.
    pub(crate) async fn send(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), LauncherError> {
        match self.gone() {
            Some(why) => Err(LauncherError::Gone(why.to_owned())),
            None => send(&self.socket, request, descriptors).await,
        }
    }
}

async fn send(
    socket: &UnixStream,
    request: &Request,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), LauncherError> {
    let bytes = codec::encode(request)?;
    if bytes.len() > MAX_PLAN {
        return Err(CodecError::TooLarge(bytes.len(), MAX_PLAN).into());
    }
    match send_with(socket, &bytes, descriptors).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(LauncherError::Gone("it closed its socket".to_owned()))
        }
        Err(error) => Err(error.into()),
    }
}

async fn receive(socket: &UnixStream) -> Result<Reply, LauncherError> {
    let mut buffer = vec![0_u8; MAX_REPLY];
    let length = socket
        .async_io(Interest::READABLE, || {
            let (_, length) = recv(socket, buffer.as_mut_slice(), RecvFlags::TRUNC)?;
            Ok(length)
        })
        .await?;
    if length == 0 {
        return Err(LauncherError::Gone("it closed its socket".to_owned()));
    }
    let bytes = buffer.get(..length).ok_or(CodecError::TooLarge(length, MAX_REPLY))?;
    Ok(codec::decode(bytes)?)
}

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
        Self { source, current: tokio::sync::Mutex::new(current), numbers: AtomicU32::new(1) }
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
    pub(crate) async fn state(&self) -> Result<Arc<Launcher>, String> {
        match &*self.current.lock().await {
            Ok(launcher) => match launcher.gone() {
                None => Ok(Arc::clone(launcher)),
                Some(why) => Err(why.to_owned()),
            },
            Err(why) => Err(why.clone()),
        }
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
            launcher.let_go.store(true, Ordering::Relaxed);
            // The routing task holds the socket too: the launcher must see the end of it now.
            if let Err(error) = rustix::net::shutdown(&launcher.socket, rustix::net::Shutdown::Both)
            {
                tracing::debug!(%error, "the launcher's socket was closed already");
            }
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
    let flags = SocketFlags::CLOEXEC;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed)?;
    connect(&socket, &SocketAddrUnix::new(path).map_err(failed)?).map_err(failed)?;
    Ok(socket)
}
