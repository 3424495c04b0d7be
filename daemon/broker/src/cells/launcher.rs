//! The broker's side of the launcher socket: one datagram per message, replies routed by session.

use crate::cells::{
    channel::{receive_with, send_with},
    records::Records,
};
use palisade_plan::{
    BUILD_ID, Facts,
    codec::{self, CodecError, MAX_PLAN},
    launcher::{Reply, Request, SessionNumber},
};
use rustix::net::{RecvFlags, recv};
use std::{
    collections::HashMap,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{io::Interest, net::UnixStream, sync::mpsc, time::timeout};

/// The time limit for a launcher to inspect the host and answer the greeting.
const GREETING: Duration = Duration::from_secs(30);

/// The largest reply that is accepted, in bytes.
const MAX_REPLY: usize = 32 * 1024;

/// A connection to a launcher.
#[derive(Debug)]
pub(crate) struct Launcher {
    socket: UnixStream,
    facts: Facts,
    records: Arc<Records>,
    routes: Mutex<HashMap<SessionNumber, mpsc::UnboundedSender<Reply>>>,
    gone: OnceLock<String>,
    /// True if this daemon closed the connection itself, so that its end is not an error.
    closing: AtomicBool,
}

/// An error from a request to the launcher.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// The launcher has ended or closed its socket.
    #[error("the launcher is gone: {0}")]
    Gone(String),
    /// The socket failed.
    #[error("the launcher's socket failed")]
    Io(#[from] io::Error),
    /// The launcher's socket could not be connected to.
    #[error("can not connect to the launcher at {path}")]
    Connect {
        /// The path of the socket.
        path: PathBuf,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// A message could not be encoded or decoded.
    #[error("the launcher sent an invalid reply: {0}")]
    Codec(#[from] CodecError),
    /// The launcher did not answer the greeting in time.
    #[error("the launcher did not answer the greeting within {} s", GREETING.as_secs())]
    Silent,
    /// The launcher and the daemon come from different builds.
    #[error(
        "the launcher is build {theirs}, but this daemon is build {BUILD_ID}; install both from \
         the same release and restart both"
    )]
    Build {
        /// The launcher's build id.
        theirs: String,
    },
    /// The launcher refused to serve, or did not answer the greeting with a welcome.
    #[error("the launcher can not serve: {0}")]
    Refused(String),
}

impl Launcher {
    /// Greets a launcher, then starts the task that routes its replies to sessions.
    pub(crate) async fn greet(socket: OwnedFd) -> Result<Arc<Self>, LauncherError> {
        // Tokio has no type for sequenced packets; a stream reports readiness in the same way.
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        let socket = UnixStream::from_std(socket)?;
        // A send error is returned only after the read below: a launcher that has already ended may
        // have sent its reason before.
        let greeted = send(&socket, &Request::Hello { build_id: BUILD_ID.to_owned() }, &[]).await;
        let mut came = Vec::new();
        let reply = timeout(GREETING, receive_first(&socket, &mut came))
            .await
            .map_err(|_| LauncherError::Silent)??;
        let facts = match reply {
            Reply::Welcome { build_id, facts } if build_id == BUILD_ID => *facts,
            Reply::Welcome { build_id, .. } => {
                return Err(LauncherError::Build { theirs: build_id });
            }
            Reply::Fatal { why } => return Err(LauncherError::Refused(why)),
            other @ (Reply::Identified { .. }
            | Reply::Started { .. }
            | Reply::Refused { .. }
            | Reply::Ended { .. }) => {
                return Err(LauncherError::Refused(format!(
                    "it sent an unexpected reply: {other:?}"
                )));
            }
        };
        greeted?;
        let records = Records::read(&facts.records, came.pop());
        let launcher = Arc::new(Self {
            socket,
            facts,
            records,
            routes: Mutex::default(),
            gone: OnceLock::new(),
            closing: AtomicBool::new(false),
        });
        tokio::spawn(Arc::clone(&launcher).route());
        Ok(launcher)
    }

    /// Hands each reply to its session until the launcher is gone, then closes every session's
    /// route.
    async fn route(self: Arc<Self>) {
        let why = loop {
            let reply = match receive(&self.socket).await {
                Ok(reply) => reply,
                Err(LauncherError::Gone(why)) => break why,
                Err(error) => break error.to_string(),
            };
            let session = match &reply {
                Reply::Identified { session, .. }
                | Reply::Started { session, .. }
                | Reply::Refused { session, .. }
                | Reply::Ended { session } => *session,
                Reply::Fatal { why } => break why.clone(),
                Reply::Welcome { .. } => break "it sent a second greeting".to_owned(),
            };
            let route = self.routes().get(&session).cloned();
            if route.is_none_or(|route| route.send(reply).is_err()) {
                tracing::debug!(session, "ignored a reply for a session that has ended");
            }
        };
        if !self.closing.load(Ordering::Relaxed) {
            tracing::error!(why, "the launcher is gone: no call can be confined, so none will run");
        }
        // Set before the routes close, so that whoever notices the end finds the reason.
        self.gone.get_or_init(|| why);
        self.records.close();
        self.routes().clear();
    }

    fn routes(&self) -> MutexGuard<'_, HashMap<SessionNumber, mpsc::UnboundedSender<Reply>>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the host can enforce, as the launcher reported it.
    pub(crate) const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the kernel's records of what it refused to processes of this launcher.
    pub(crate) const fn records(&self) -> &Arc<Records> {
        &self.records
    }

    /// Returns why the launcher is gone, or `None` while it is connected.
    pub(crate) fn gone(&self) -> Option<&str> {
        self.gone.get().map(String::as_str)
    }

    /// Shuts down the socket, so that the launcher sees this broker end although the routing task
    /// still holds the socket.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        if let Err(error) = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both) {
            tracing::debug!(%error, "the launcher's socket was closed already");
        }
    }

    /// Returns a channel of the replies about a session from now on. It closes when the launcher is
    /// gone.
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

    /// Sends a request with descriptors; fails if the launcher is gone.
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

/// Receives the answer to the greeting, and the descriptor that may come with it.
async fn receive_first(
    socket: &UnixStream,
    came: &mut Vec<OwnedFd>,
) -> Result<Reply, LauncherError> {
    let mut buffer = vec![0_u8; MAX_REPLY];
    let length = receive_with(socket, &mut buffer, came, 1).await?;
    if length == 0 {
        return Err(LauncherError::Gone("it closed its socket".to_owned()));
    }
    Ok(codec::decode(buffer.get(..length).unwrap_or_default())?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::{CgroupFacts, Found, OverlayFacts};
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
        socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn say(socket: &OwnedFd, reply: &Reply) {
        rustix::net::send(socket, &codec::encode(reply).unwrap(), SendFlags::empty()).unwrap();
    }

    fn welcome(build_id: &str) -> Reply {
        let facts = Facts {
            kernel: "6.18".into(),
            privileged: false,
            user_namespace: Found::Yes(String::new()),
            layers: Vec::new(),
            landlock_abi: 7,
            landlock_errata: 0,
            overlay: OverlayFacts::all(Found::Yes(String::new())),
            records: Found::No(String::new()),
            audit_session: Found::No(String::new()),
            cgroup: CgroupFacts::default(),
            ports: Found::No(String::new()),
        };
        Reply::Welcome { build_id: build_id.into(), facts: Box::new(facts) }
    }

    #[tokio::test]
    async fn a_launcher_of_another_build_is_refused_with_both_ids() {
        let (ours, theirs) = pair();
        say(&theirs, &welcome("another"));
        let error = Launcher::greet(ours).await.unwrap_err();
        assert!(matches!(&error, LauncherError::Build { theirs } if theirs == "another"));
        let text = error.to_string();
        assert!(text.contains("another") && text.contains(BUILD_ID), "{text}");
    }

    #[tokio::test]
    async fn a_launcher_that_refuses_or_leaves_is_no_launcher() {
        let (ours, theirs) = pair();
        say(&theirs, &Reply::Fatal { why: "not you".into() });
        assert!(
            matches!(Launcher::greet(ours).await, Err(LauncherError::Refused(why)) if why == "not you")
        );
        let (ours, theirs) = pair();
        let greet = tokio::spawn(Launcher::greet(ours));
        tokio::task::yield_now().await;
        drop(theirs);
        assert!(matches!(greet.await.unwrap(), Err(LauncherError::Gone(_) | LauncherError::Io(_))));
    }

    #[tokio::test]
    async fn replies_find_their_session_and_the_end_finds_all() {
        let (ours, theirs) = pair();
        say(&theirs, &welcome(BUILD_ID));
        let launcher = Launcher::greet(ours).await.unwrap();
        let (mut one, mut two) = (launcher.enroll(1).unwrap(), launcher.enroll(2).unwrap());
        for session in [9, 2, 1] {
            say(&theirs, &Reply::Ended { session });
        }
        assert_eq!(one.recv().await, Some(Reply::Ended { session: 1 }));
        assert_eq!(two.recv().await, Some(Reply::Ended { session: 2 }));
        drop(theirs);
        assert_eq!(one.recv().await, None);
        assert!(launcher.gone().is_some());
        assert!(matches!(launcher.enroll(3), Err(LauncherError::Gone(_))));
        let end = launcher.send(&Request::End { session: 1 }, &[]).await;
        assert!(matches!(end, Err(LauncherError::Gone(_))));
    }
}
