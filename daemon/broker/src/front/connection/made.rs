//! A call that is made now, or a repetition of an earlier one, and the sending of its reply. Runs
//! in the broker.

use crate::{
    base::{
        census::HeldBytes,
        outbox::{ClientOutbox, QueuedMessage},
        results::HeldResult,
    },
    cells::{
        kept::{RepeatedResult, weight},
        session::Session,
    },
    front::{flight::CallHandleGuard, server::Server},
    pipeline::{call, stages::asked::RequestedCall},
};
use palisade_protocol::{Call, CallResult, Reply, RequestId, ServerMessage, WireError};
use std::sync::{Arc, atomic::Ordering};

/// A call that is made now, or a repetition of an earlier one with the same idempotency key.
pub(super) enum NewOrRepeatedCall {
    Now { server: Arc<Server>, asked: Box<RequestedCall>, underway: CountedCall },
    Before { repeat: RepeatedResult, session: Arc<Session> },
}

impl NewOrRepeatedCall {
    /// The idempotency key that the call occupies until it has a result.
    pub(super) fn key(&self) -> Option<String> {
        match self {
            Self::Now { underway, .. } => underway.key.clone(),
            Self::Before { .. } => None,
        }
    }

    /// Makes the call, unless it is a repetition. Repetitions get the same result. It counts as unread
    /// until the second value is dropped.
    pub(super) async fn result(self) -> Result<(CallResult, HeldResult), WireError> {
        match self {
            Self::Now { server, asked, underway } => {
                let room = asked.context.room.clone();
                let result = call::serve(&server.calls, *asked).await;
                underway.settle(&result);
                let held = room.settle(weight(&result));
                Ok((result, held))
            }
            Self::Before { repeat, session } => {
                let result = repeat.result().await?;
                let held = session.calls.results.reserve(weight(&result)).await;
                Ok((CallResult::clone(&result), held))
            }
        }
    }
}

/// A call that its session counts as under way. However it ends, it no longer counts, and a key that
/// has no result by then is free for another try.
pub(super) struct CountedCall {
    session: Arc<Session>,
    key: Option<String>,
    _bytes: HeldBytes,
}

impl CountedCall {
    /// Counts a call whose key, if it has one, was just taken.
    pub(super) fn new(session: &Arc<Session>, call: &Call, bytes: HeldBytes) -> Self {
        session.calls.in_flight.fetch_add(1, Ordering::Relaxed);
        let key = call.options.idempotency_key.clone();
        Self { session: Arc::clone(session), key, _bytes: bytes }
    }

    fn settle(mut self, result: &CallResult) {
        if let Some(key) = self.key.take() {
            self.session.calls.replies.settle(&key, result);
        }
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.session.calls.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(key) = self.key.take() {
            self.session.calls.replies.abandon(&key);
        }
    }
}

/// Serves a call and sends its result.
pub(super) async fn answer(
    server: Arc<Server>,
    made: NewOrRepeatedCall,
    session: Arc<Session>,
    id: RequestId,
    client: ClientOutbox,
    landing: CallHandleGuard,
) {
    let key = made.key();
    let (reply, held) = match made.result().await {
        Ok((result, held)) => (Reply::Result(Box::new(result)), Some(held)),
        Err(error) => (Reply::Error(error), None),
    };
    let keys = key.into_iter().collect();
    send(&server, (reply, held), keys, &session, id, &client, landing).await;
}

/// Sends a reply, and stores it if it may have to be sent again.
pub(super) async fn send(
    server: &Server,
    (reply, held): (Reply, Option<HeldResult>),
    keys: Vec<String>,
    session: &Session,
    id: RequestId,
    client: &ClientOutbox,
    landing: CallHandleGuard,
) {
    if session.survival.is_some() || !keys.is_empty() {
        session.calls.replies.keep(id, keys, &reply);
    }
    // A client that is gone does not want the reply, or reconnects for it.
    let place = client.queue().reserve_owned().await;
    // The request id is free, and the call is no longer counted, before the client can see the reply.
    drop(landing);
    if let Ok(place) = place {
        let message = ServerMessage::Reply { id: Some(id), reply };
        place.send(QueuedMessage { message, held });
    }
    server.telemetry.audit.replied();
}
