//! Sessions that outlived their connection and wait for the next one, with their calls under way.
//! Runs in the broker.

use crate::{
    base::{outbox::ClientOutbox, peer::Peer},
    cells::session::Session,
    front::flight::CallHandles,
};
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

/// The time limit for a connection to hand over a session that another connection resumes.
const LET_GO: Duration = Duration::from_secs(5);

/// A session and its calls under way, with or without a connection.
#[derive(Debug)]
pub(crate) struct SessionWork {
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) client: ClientOutbox,
    pub(crate) flights: CallHandles,
    pub(crate) calls: JoinSet<()>,
    /// The request of each running task, needed to report calls whose task panicked.
    pub(crate) tasks: HashMap<task::Id, RequestId>,
}

impl SessionWork {
    pub(crate) fn new(client: ClientOutbox) -> Self {
        Self {
            session: None,
            client,
            flights: CallHandles::default(),
            calls: JoinSet::new(),
            tasks: HashMap::new(),
        }
    }
}

/// The channel on which a connection asks for a waiting session.
type ResumeSender = oneshot::Sender<oneshot::Sender<SessionWork>>;

/// The sessions that wait to be resumed.
#[derive(Debug, Default)]
pub(crate) struct DetachedSessions {
    waiting: Mutex<HashMap<SessionId, ResumeSender>>,
    came: Notify,
}

/// Returns the error for every session that can not be resumed, the same for all reasons.
pub(crate) fn refused() -> WireError {
    WireError::new(
        ErrorCode::NotFound,
        "there is no such session that can be resumed",
        "its grace period may be over, the daemon may have restarted, or the token may be another \
         user's: open a new session",
    )
}

impl DetachedSessions {
    fn waiting(&self) -> MutexGuard<'_, HashMap<SessionId, ResumeSender>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a waiting session. The returned channel receives, from the connection that resumes
    /// it, where to send the session's [`SessionWork`].
    pub(crate) fn enter(
        &self,
        session: &SessionId,
    ) -> oneshot::Receiver<oneshot::Sender<SessionWork>> {
        let (sender, receiver) = oneshot::channel();
        self.waiting().insert(session.clone(), sender);
        self.came.notify_waiters();
        receiver
    }

    /// Unregisters a waiting session.
    pub(crate) fn leave(&self, session: &SessionId) {
        self.waiting().remove(session);
    }

    /// Takes over a session, also from a connection that still has it.
    ///
    /// The peer must have the session's uid and the resume token.
    pub(crate) async fn take(
        &self,
        session: Option<Arc<Session>>,
        resume: &Resume,
        peer: Peer,
    ) -> Result<SessionWork, WireError> {
        let session = session.filter(|session| session.uid() == peer.uid).ok_or_else(refused)?;
        let survival = session.survival.as_ref().ok_or_else(refused)?;
        if !survival.matches_token(&resume.token) {
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
