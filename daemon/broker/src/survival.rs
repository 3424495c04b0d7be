//! How a session outlives its connection: who may take it over, and for how long. Broker.

use crate::{
    flight::Flights,
    outbox::ToClient,
    server::Server,
    session::{Peer, Session},
};
use palisade_protocol::{ErrorCode, RequestId, Resume, SessionId, WireError};
use std::{
    collections::HashMap,
    fmt::Write as _,
    io,
    mem::MaybeUninit,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot},
    task::{self, JoinSet},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

/// How long a connection that loses its session may take to let go of it.
const LET_GO: Duration = Duration::from_secs(5);

/// A session's right to outlive its connection.
#[derive(Debug)]
pub(crate) struct Survival {
    pub(crate) token: String,
    pub(crate) grace: Duration,
    /// Its connection is to let go of it.
    pub(crate) taken: Notify,
}

impl Survival {
    pub(crate) fn new(grace: Duration) -> io::Result<Self> {
        let mut random = [MaybeUninit::uninit(); 32];
        let (random, _) =
            rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
        let mut token = String::new();
        for byte in random.iter() {
            write!(token, "{byte:02x}").map_err(io::Error::other)?;
        }
        if token.len() != 64 {
            return Err(io::Error::other("the kernel gave too little that is random"));
        }
        Ok(Self { token, grace, taken: Notify::new() })
    }

    /// Whether this is the token; how long that takes says nothing about where they differ.
    fn opens(&self, token: &str) -> bool {
        let differs = self.token.bytes().zip(token.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        token.len() == self.token.len() && differs == 0
    }
}

/// A session and what is under way in it, between two connections or with one.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) client: ToClient,
    pub(crate) flights: Flights,
    pub(crate) calls: JoinSet<()>,
    /// Whose task is whose, for calls that end by a defect.
    pub(crate) tasks: HashMap<task::Id, RequestId>,
}

impl Work {
    pub(crate) fn new(client: ToClient) -> Self {
        Self {
            session: None,
            client,
            flights: Flights::default(),
            calls: JoinSet::new(),
            tasks: HashMap::new(),
        }
    }

    /// Ends what is under way, and the session.
    pub(crate) async fn end(mut self, server: &Server) {
        self.calls.shutdown().await;
        self.close(server).await;
    }

    /// Ends the session; returns when nothing of it is left.
    pub(crate) async fn close(&mut self, server: &Server) {
        if let Some(session) = self.session.take() {
            server.desk.end_session(&session.id);
            session.close().await;
            server.audit.closed(&session).await;
        }
    }

    /// Lets the session wait for its next connection, for as long as it may.
    pub(crate) async fn linger(mut self, server: &Server, shutdown: &CancellationToken) {
        let Some(session) = self.session.clone() else { return self.end(server).await };
        let Some(survival) = &session.survival else { return self.end(server).await };
        let until = Instant::now() + survival.grace;
        let mut claimed = server.lobby.enter(&session.id);
        loop {
            tokio::select! {
                biased;
                claim = &mut claimed => {
                    let Ok(claim) = claim else { break };
                    match claim.send(self) {
                        Ok(()) => return,
                        // Who wanted it is gone again.
                        Err(work) => self = work,
                    }
                    claimed = server.lobby.enter(&session.id);
                }
                Some(done) = self.calls.join_next_with_id() => {
                    let task = done.map_or_else(|error| error.id(), |(task, ())| task);
                    self.tasks.remove(&task);
                }
                () = session.over() => break,
                () = sleep_until(until) => break,
                () = server.draining.cancelled(), if self.calls.is_empty() => break,
                () = shutdown.cancelled() => break,
            }
        }
        server.lobby.leave(&session.id);
        self.end(server).await;
    }
}

/// Where to ask for a session that waits.
type Waiting = oneshot::Sender<oneshot::Sender<Work>>;

/// The sessions that wait to be taken over.
#[derive(Debug, Default)]
pub(crate) struct Lobby {
    waiting: Mutex<HashMap<SessionId, Waiting>>,
    came: Notify,
}

fn refused() -> WireError {
    WireError::new(
        ErrorCode::NotFound,
        "there is no such session to resume",
        "its grace time may be over, the daemon another since, or the token another's: open a new one",
    )
}

impl Lobby {
    fn waiting(&self) -> MutexGuard<'_, HashMap<SessionId, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a session wait; who takes it over says where it is to go.
    pub(crate) fn enter(&self, session: &SessionId) -> oneshot::Receiver<oneshot::Sender<Work>> {
        let (sender, receiver) = oneshot::channel();
        self.waiting().insert(session.clone(), sender);
        self.came.notify_waiters();
        receiver
    }

    /// It does not wait any more.
    pub(crate) fn leave(&self, session: &SessionId) {
        self.waiting().remove(session);
    }

    /// Takes over a session, from its connection if that still has it.
    pub(crate) async fn take(
        &self,
        session: Option<Arc<Session>>,
        resume: &Resume,
        peer: Peer,
    ) -> Result<Work, WireError> {
        let session = session.filter(|session| session.uid() == peer.uid).ok_or_else(refused)?;
        let survival = session.survival.as_ref().ok_or_else(refused)?;
        if !survival.opens(&resume.token) {
            return Err(refused());
        }
        let taken = async {
            loop {
                let came = self.came.notified();
                tokio::pin!(came);
                came.as_mut().enable();
                if let Some(waiting) = self.waiting().remove(&session.id) {
                    return waiting;
                }
                survival.taken.notify_one();
                came.await;
            }
        };
        let waiting = timeout(LET_GO, taken).await.map_err(|_| refused())?;
        let (sender, work) = oneshot::channel();
        waiting.send(sender).map_err(|_| refused())?;
        work.await.map_err(|_| refused())
    }
}
