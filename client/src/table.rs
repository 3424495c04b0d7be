//! The table of one connection's unanswered requests, and where the events of each go.

use crate::{Error, Event};
use palisade_protocol::{Reply, RequestId, WireError};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// The answer to a waiting request.
pub(crate) type ReplyResult = Result<Reply, Error>;

/// The destination of a request's events.
#[derive(Debug, Clone)]
pub(crate) enum Events {
    /// No events are expected; any that come are dropped.
    Unwanted,
    /// A queue of fixed length, for as long as it is read.
    Queue(mpsc::Sender<Event>),
    /// The queue was full for too long: events are only counted.
    Counted,
}

#[derive(Debug)]
struct TableEntry {
    answer: oneshot::Sender<ReplyResult>,
    events: Events,
    lost: Arc<AtomicU64>,
    /// The permit that counts the call among those that may run at the same time.
    _place: Option<OwnedSemaphorePermit>,
}

/// The reason a connection ended.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    /// The daemon gave a reason.
    Refused(WireError),
    /// The daemon's bytes were not a valid message.
    Nonsense(String),
    /// The connection was closed.
    Gone(String),
    /// The connection was reset: the daemon ended without having read everything.
    Reset(String),
}

impl Ending {
    fn error(&self) -> Error {
        match self {
            Self::Refused(error) => Error::Remote(error.clone()),
            Self::Nonsense(what) => Error::Protocol(what.clone()),
            Self::Gone(why) | Self::Reset(why) => Error::Disconnected(why.clone()),
        }
    }
}

#[derive(Debug, Default)]
struct TableState {
    last: RequestId,
    waiting: HashMap<RequestId, TableEntry>,
    ending: Option<Ending>,
    /// Calls of an earlier connection that this connection took over.
    adopted: Vec<PendingRequest>,
    /// Requests that had no answer when the connection ended.
    unanswered: Vec<RequestId>,
}

/// The requests of one connection that have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Table {
    state: Mutex<TableState>,
}

/// A request that was entered in the table.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) id: RequestId,
    pub(crate) answer: oneshot::Receiver<ReplyResult>,
    pub(crate) lost: Arc<AtomicU64>,
}

impl TableState {
    fn wait(
        &mut self,
        id: RequestId,
        events: Events,
        place: Option<OwnedSemaphorePermit>,
    ) -> PendingRequest {
        self.last = self.last.max(id);
        let (sender, answer) = oneshot::channel();
        let lost = Arc::new(AtomicU64::new(0));
        let waiting = TableEntry { answer: sender, events, lost: Arc::clone(&lost), _place: place };
        self.waiting.insert(id, waiting);
        PendingRequest { id, answer, lost }
    }
}

impl Table {
    fn state(&self) -> MutexGuard<'_, TableState> {
        // No code panics while it holds the lock, and every statement leaves the table consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a request under a new id, to wait for its answer.
    pub(crate) fn enter(
        &self,
        events: Events,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<PendingRequest, Error> {
        let mut state = self.state();
        if let Some(ending) = &state.ending {
            return Err(ending.error());
        }
        let id = state.last + 1;
        Ok(state.wait(id, events, place))
    }

    /// Takes the calls of an earlier connection that a `Resumed` reply named.
    pub(crate) fn adopted(&self) -> Vec<PendingRequest> {
        std::mem::take(&mut self.state().adopted)
    }

    /// Returns the requests that have no answer, or had none when the connection ended.
    pub(crate) fn unanswered(&self) -> Vec<RequestId> {
        let state = self.state();
        state.unanswered.iter().chain(state.waiting.keys()).copied().collect()
    }

    /// Returns the reason that no more requests can be made.
    pub(crate) fn ended(&self) -> Error {
        match &self.state().ending {
            Some(ending) => ending.error(),
            None => Error::Disconnected("the client closed it".to_owned()),
        }
    }

    /// Answers a request. It is not an error if nobody waits for the answer any more: the caller
    /// gave up.
    pub(crate) fn answer(&self, id: RequestId, answer: ReplyResult) {
        let mut state = self.state();
        let waiting = state.waiting.remove(&id);
        if let Ok(Reply::Resumed(resumed)) = &answer {
            // The answers of these calls follow at once, so they must be entered before this answer
            // is delivered.
            for id in resumed.running.iter().chain(&resumed.finished) {
                let entered = state.wait(*id, Events::Unwanted, None);
                state.adopted.push(entered);
            }
        }
        drop(state);
        if let Some(waiting) = waiting {
            // A receiver that is gone needs no answer.
            drop(waiting.answer.send(answer));
        }
    }

    /// Removes a request that was never sent.
    pub(crate) fn forget(&self, id: RequestId) {
        self.state().waiting.remove(&id);
    }

    /// Returns `true` if a request is still unanswered.
    pub(crate) fn waits(&self, id: RequestId) -> bool {
        self.state().waiting.contains_key(&id)
    }

    /// Returns `true` if another request waits on this connection.
    pub(crate) fn others_wait(&self, id: RequestId) -> bool {
        self.state().waiting.keys().any(|other| *other != id)
    }

    /// Returns the destination of a request's events.
    pub(crate) fn events(&self, id: RequestId) -> Events {
        self.state().waiting.get(&id).map_or(Events::Unwanted, |waiting| waiting.events.clone())
    }

    /// Changes the destination of a request's events.
    pub(crate) fn redirect(&self, id: RequestId, events: Events) {
        if let Some(waiting) = self.state().waiting.get_mut(&id) {
            waiting.events = events;
        }
    }

    /// Counts bytes that were not delivered.
    pub(crate) fn count_lost(&self, id: RequestId, bytes: usize) {
        if let Some(waiting) = self.state().waiting.get(&id) {
            waiting.lost.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the connection was reset: the daemon ended without having read everything.
    pub(crate) fn was_reset(&self) -> bool {
        matches!(self.state().ending, Some(Ending::Reset(_)))
    }

    /// Ends the connection: fails all waiting and all future requests.
    pub(crate) fn end(&self, ending: Ending) {
        let waiting = {
            let mut state = self.state();
            state.ending.get_or_insert(ending.clone());
            let waiting = std::mem::take(&mut state.waiting);
            state.unanswered.extend(waiting.keys());
            waiting
        };
        for entry in waiting.into_values() {
            drop(entry.answer.send(Err(ending.error())));
        }
    }
}
