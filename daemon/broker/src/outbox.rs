//! The way to a session's client, whichever connection that is on. Broker.

use palisade_protocol::ServerMessage;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// The queue of a connection; a slow reader fills it, and then only its own calls wait.
pub(crate) type Outbox = mpsc::Sender<ServerMessage>;

/// The way to a client; a slow reader fills it, and then only its own calls wait.
#[derive(Debug, Clone)]
pub(crate) struct ToClient(Arc<Mutex<mpsc::Sender<ServerMessage>>>);

/// Nobody listens there any more, or not now.
#[derive(Debug)]
pub(crate) struct Gone;

impl ToClient {
    pub(crate) fn new(queue: mpsc::Sender<ServerMessage>) -> Self {
        Self(Arc::new(Mutex::new(queue)))
    }

    /// The queue of the connection that there is now.
    pub(crate) fn queue(&self) -> mpsc::Sender<ServerMessage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends to the connection that there is now; waits while its client is slow.
    pub(crate) async fn send(&self, message: ServerMessage) -> Result<(), Gone> {
        self.queue().send(message).await.map_err(|_| Gone)
    }

    /// Sends if there is room.
    pub(crate) fn try_send(&self, message: ServerMessage) -> Result<(), Gone> {
        self.queue().try_send(message).map_err(|_| Gone)
    }

    /// From now on to another connection.
    pub(crate) fn redirect(&self, queue: mpsc::Sender<ServerMessage>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = queue;
    }
}
