//! A call that is made now, or was before, and the way of its reply. Broker.

use crate::{
    call, flight::Landing, kept::Repeat, outbox::ToClient, server::Server, session::Session,
    stages::asked::Asked,
};
use palisade_protocol::{CallResult, Reply, RequestId, ServerMessage, WireError};
use std::sync::{Arc, atomic::Ordering};

/// A call that is made now, or was before.
pub(super) enum Made {
    Now { server: Arc<Server>, asked: Box<Asked> },
    Before(Repeat),
}

impl Made {
    /// The key that it holds until it has a result.
    pub(super) fn key(&self) -> Option<String> {
        match self {
            Self::Now { asked, .. } => asked.call.options.idempotency_key.clone(),
            Self::Before(_) => None,
        }
    }

    /// Makes the call, unless it was made before; its result is told to those who repeat it.
    pub(super) async fn result(self, session: &Session) -> Result<CallResult, WireError> {
        let unsettled = Unsettled { session, key: self.key() };
        let result = match self {
            Self::Now { server, asked } => {
                let result = call::serve(&server, *asked).await;
                session.in_flight.fetch_sub(1, Ordering::Relaxed);
                result
            }
            Self::Before(repeat) => return repeat.result().await,
        };
        unsettled.settle(&result);
        Ok(result)
    }
}

/// A key whose call has no result yet. If it never gets one, the call may be made again.
struct Unsettled<'a> {
    session: &'a Session,
    key: Option<String>,
}

impl Unsettled<'_> {
    fn settle(mut self, result: &CallResult) {
        if let Some(key) = self.key.take() {
            self.session.kept.settle(&key, result);
        }
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.session.kept.abandon(&key);
        }
    }
}

/// Serves a call and sends its result.
pub(super) async fn answer(
    server: Arc<Server>,
    made: Made,
    session: Arc<Session>,
    id: RequestId,
    client: ToClient,
    landing: Landing,
) {
    let key = made.key();
    let reply = match made.result(&session).await {
        Ok(result) => Reply::Result(Box::new(result)),
        Err(error) => Reply::Error(error),
    };
    send(&server, reply, key.into_iter().collect(), &session, id, &client, landing).await;
}

/// Sends a reply, and keeps it where it may have to be sent again.
pub(super) async fn send(
    server: &Server,
    reply: Reply,
    keys: Vec<String>,
    session: &Session,
    id: RequestId,
    client: &ToClient,
    landing: Landing,
) {
    if session.survival.is_some() || !keys.is_empty() {
        session.kept.keep(id, keys, &reply);
    }
    // The id is free before the client can see the reply.
    drop(landing);
    // A client that is gone does not want it, or comes again for it.
    client.send(ServerMessage::Reply { id: Some(id), reply }).await.ok();
    server.audit.replied();
}
