//! Who waits for which answer on one connection, and where the events of a call go.

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

/// What a waiting request gets.
pub(crate) type Answer = Result<Reply, Error>;

/// Where the events of a request go.
#[derive(Debug, Clone)]
pub(crate) enum Events {
    /// None are expected; any that come are dropped.
    Unwanted,
    /// To a queue of fixed length, while it is read.
    Queue(mpsc::Sender<Event>),
    /// The queue was full for too long: they are only counted.
    Counted,
}

#[derive(Debug)]
struct Waiting {
    answer: oneshot::Sender<Answer>,
    events: Events,
    lost: Arc<AtomicU64>,
    /// A call's place among those that may be under way.
    _place: Option<OwnedSemaphorePermit>,
}

/// Why a connection is over.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    /// The daemon said why.
    Refused(WireError),
    /// The daemon's bytes made no sense.
    Nonsense(String),
    /// It is just gone.
    Gone(String),
    /// It is gone, and has not read everything.
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
struct State {
    last: RequestId,
    waiting: HashMap<RequestId, Waiting>,
    ending: Option<Ending>,
    /// Calls of an earlier connection that this one goes on with.
    adopted: Vec<Entered>,
    /// What had no answer when the connection ended.
    unanswered: Vec<RequestId>,
}

/// The requests of one connection that have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Table {
    state: Mutex<State>,
}

/// A request that was entered in the table.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) id: RequestId,
    pub(crate) answer: oneshot::Receiver<Answer>,
    pub(crate) lost: Arc<AtomicU64>,
}

impl State {
    fn wait(
        &mut self,
        id: RequestId,
        events: Events,
        place: Option<OwnedSemaphorePermit>,
    ) -> Entered {
        self.last = self.last.max(id);
        let (sender, answer) = oneshot::channel();
        let lost = Arc::new(AtomicU64::new(0));
        let waiting = Waiting { answer: sender, events, lost: Arc::clone(&lost), _place: place };
        self.waiting.insert(id, waiting);
        Entered { id, answer, lost }
    }
}

impl Table {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and the table stays whole between two lines.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the request a number and waits for its answer.
    pub(crate) fn enter(
        &self,
        events: Events,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<Entered, Error> {
        let mut state = self.state();
        if let Some(ending) = &state.ending {
            return Err(ending.error());
        }
        let id = state.last + 1;
        Ok(state.wait(id, events, place))
    }

    /// The calls of an earlier connection that a `Resumed` named.
    pub(crate) fn adopted(&self) -> Vec<Entered> {
        std::mem::take(&mut self.state().adopted)
    }

    /// What has no answer, or had none when the connection ended.
    pub(crate) fn unanswered(&self) -> Vec<RequestId> {
        let state = self.state();
        state.unanswered.iter().chain(state.waiting.keys()).copied().collect()
    }

    /// Why nothing can be asked any more.
    pub(crate) fn ended(&self) -> Error {
        match &self.state().ending {
            Some(ending) => ending.error(),
            None => Error::Disconnected("this side closed it".to_owned()),
        }
    }

    /// Answers a request. One that nobody waits for any more is no mistake: it was given up.
    pub(crate) fn answer(&self, id: RequestId, answer: Answer) {
        let mut state = self.state();
        let waiting = state.waiting.remove(&id);
        if let Ok(Reply::Resumed(resumed)) = &answer {
            // Their answers follow at once, so they are waited for before this one is told.
            for id in resumed.running.iter().chain(&resumed.finished) {
                let entered = state.wait(*id, Events::Unwanted, None);
                state.adopted.push(entered);
            }
        }
        drop(state);
        if let Some(waiting) = waiting {
            // A receiver that is gone wanted no answer.
            drop(waiting.answer.send(answer));
        }
    }

    /// Takes back a request that was never sent.
    pub(crate) fn forget(&self, id: RequestId) {
        self.state().waiting.remove(&id);
    }

    /// Whether a request is still unanswered.
    pub(crate) fn waits(&self, id: RequestId) -> bool {
        self.state().waiting.contains_key(&id)
    }

    /// Whether anyone else waits on this connection.
    pub(crate) fn others_wait(&self, id: RequestId) -> bool {
        self.state().waiting.keys().any(|other| *other != id)
    }

    /// Where the events of a request go.
    pub(crate) fn events(&self, id: RequestId) -> Events {
        self.state().waiting.get(&id).map_or(Events::Unwanted, |waiting| waiting.events.clone())
    }

    /// Changes where the events of a request go.
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

    /// Whether the daemon is gone without having read everything.
    pub(crate) fn was_reset(&self) -> bool {
        matches!(self.state().ending, Some(Ending::Reset(_)))
    }

    /// Ends everything that waits, and all that will be asked.
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
