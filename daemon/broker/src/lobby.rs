//! Where sessions wait that outlive their connections, with what is under way in them. Broker.

use crate::{flight::Flights, outbox::ToClient, peer::Peer, session::Session};
use palisade_protocol::{ErrorCode, RequestId, Resume, SessionId, WireError};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot},
    task::{self, JoinSet},
    time::timeout,
};

/// How long a connection that loses its session may take to let go of it.
const LET_GO: Duration = Duration::from_secs(5);

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
}

/// Where to ask for a session that waits.
type Waiting = oneshot::Sender<oneshot::Sender<Work>>;

/// The sessions that wait to be taken over.
#[derive(Debug, Default)]
pub(crate) struct Lobby {
    waiting: Mutex<HashMap<SessionId, Waiting>>,
    came: Notify,
}

/// The one answer to all that can not be resumed, whatever the reason.
pub(crate) fn refused() -> WireError {
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
