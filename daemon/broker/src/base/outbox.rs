//! The queue of messages to a session's client, whichever connection the client is on. Runs in the
//! broker.

use super::results::HeldResult;
use palisade_protocol::ServerMessage;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// A message in the queue to a connection, with the bytes that it holds until it is written.
#[derive(Debug)]
pub(crate) struct QueuedMessage {
    pub(crate) message: ServerMessage,
    pub(crate) held: Option<HeldResult>,
}

impl From<ServerMessage> for QueuedMessage {
    fn from(message: ServerMessage) -> Self {
        Self { message, held: None }
    }
}

/// The queue of messages to a connection. A slow reader fills it, and then only its own calls wait.
pub(crate) type Outbox = mpsc::Sender<QueuedMessage>;

/// The queue of messages to a client, which stays valid when the client changes its connection. A
/// slow reader fills it, and then only its own calls wait.
#[derive(Debug, Clone)]
pub(crate) struct ClientOutbox(Arc<Mutex<Outbox>>);

/// The client has no connection (now or for good), or its queue has no room.
#[derive(Debug)]
pub(crate) struct ClientGone;

impl ClientOutbox {
    pub(crate) fn new(queue: Outbox) -> Self {
        Self(Arc::new(Mutex::new(queue)))
    }

    /// Returns the queue of the client's current connection.
    pub(crate) fn queue(&self) -> Outbox {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a message to the client's current connection; waits while the client is slow.
    pub(crate) async fn send(&self, message: impl Into<QueuedMessage>) -> Result<(), ClientGone> {
        self.queue().send(message.into()).await.map_err(|_| ClientGone)
    }

    /// Sends a message if the queue has room.
    pub(crate) fn try_send(&self, message: ServerMessage) -> Result<(), ClientGone> {
        self.queue().try_send(message.into()).map_err(|_| ClientGone)
    }

    /// Sends all further messages to another connection.
    pub(crate) fn redirect(&self, queue: Outbox) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = queue;
    }
}
