//! A process that provides tools: the invocations sent to it and its answers. It learns what the
//! call says, and knows the session only by a label. Runs in the broker.

use crate::base::{error::CallError, outbox::Outbox, peer::ConnectionNumber};
use palisade_protocol::{
    ErrorCode, Event, Invocation, InvokeCancelled, InvokeProgress, InvokeResult, ServerMessage,
    SessionId, WireError,
};
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;

/// The most invocations of one provider that may be under way.
const IN_FLIGHT: usize = 64;
/// The most bytes that an invocation may send before its result, since they wait here for a slow
/// client.
const ROOM: usize = 1024 * 1024;
/// The bytes that each message counts for, besides its text.
const PIECE: usize = 256;

/// A connection that provides tools.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) number: ConnectionNumber,
    pub(crate) uid: u32,
    outbox: Outbox,
    /// Makes session labels differ between providers.
    secret: uuid::Uuid,
    state: Mutex<ProviderState>,
}

#[derive(Debug, Default)]
struct ProviderState {
    last: Invocation,
    waiting: HashMap<Invocation, InvocationSender>,
    gone: bool,
}

#[derive(Debug)]
struct InvocationSender {
    sender: mpsc::UnboundedSender<ProviderMessage>,
    room: usize,
}

/// A message of a provider about an invocation.
#[derive(Debug)]
pub(crate) enum ProviderMessage {
    Progress(InvokeProgress),
    Output(String),
    Result(Box<InvokeResult>),
    /// The provider sent more than it may; its further messages are refused.
    TooMuch,
}

impl ProviderMessage {
    fn cost(&self) -> usize {
        match self {
            Self::Progress(progress) => progress.message.len() + PIECE,
            Self::Output(text) => text.len() + PIECE,
            Self::Result(_) | Self::TooMuch => 0,
        }
    }
}

/// An invocation under way. If it is dropped without a result, the provider is told that it was
/// cancelled.
#[derive(Debug)]
pub(crate) struct PendingInvocation {
    provider: Arc<Provider>,
    pub(crate) number: Invocation,
    pub(crate) heard: mpsc::UnboundedReceiver<ProviderMessage>,
}

impl Provider {
    pub(crate) fn new(number: ConnectionNumber, uid: u32, outbox: Outbox) -> Self {
        Self { number, uid, outbox, secret: uuid::Uuid::now_v7(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the label by which this provider knows a session.
    pub(crate) fn label(&self, session: &SessionId) -> String {
        let mut hash = Sha256::new();
        hash.update(self.secret.as_bytes());
        hash.update(session.as_str().as_bytes());
        palisade_text::hex(&hash.finalize()[..12])
    }

    /// Begins an invocation. Fails if the provider has left or has too many under way.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<PendingInvocation, WireError> {
        let mut state = self.state();
        if state.gone {
            return Err(left().into());
        }
        if state.waiting.len() >= IN_FLIGHT {
            return Err(WireError::new(
                ErrorCode::LimitReached,
                format!("{IN_FLIGHT} calls of this provider's tools are already under way"),
                "wait for one of them to end",
            ));
        }
        let (sender, heard) = mpsc::unbounded_channel();
        state.last += 1;
        let number = state.last;
        state.waiting.insert(number, InvocationSender { sender, room: ROOM });
        Ok(PendingInvocation { provider: Arc::clone(self), number, heard })
    }

    /// Takes a message of the provider about an invocation.
    pub(crate) fn receive(
        &self,
        number: Invocation,
        heard: ProviderMessage,
    ) -> Result<(), WireError> {
        let mut state = self.state();
        let Some(waiting) = state.waiting.get_mut(&number) else {
            return Err(WireError::new(
                ErrorCode::NotFound,
                format!("no invocation {number} is under way"),
                "it was cancelled, already has a result, or never existed",
            ));
        };
        let (heard, over) = match (waiting.room.checked_sub(heard.cost()), &heard) {
            (None, _) => (ProviderMessage::TooMuch, true),
            (Some(room), heard_now) => {
                waiting.room = room;
                let over = matches!(heard_now, ProviderMessage::Result(_));
                (heard, over)
            }
        };
        // Fails if the call has just ended, which is fine.
        drop(waiting.sender.send(heard));
        if over {
            state.waiting.remove(&number);
        }
        Ok(())
    }

    /// Ends all invocations when the connection has ended: the channels of the waiting calls close.
    pub(crate) fn leave(&self) {
        let mut state = self.state();
        state.gone = true;
        state.waiting.clear();
    }
}

/// Returns the error for a provider that has disconnected.
pub(crate) fn left() -> CallError {
    CallError::Provider("the provider of the tool has disconnected".to_owned())
}

impl PendingInvocation {
    /// Sends an event to the provider; waits while it does not read.
    pub(crate) async fn send(&self, event: Event) -> Result<(), CallError> {
        self.provider.outbox.send(ServerMessage::Event(event).into()).await.map_err(|_| left())
    }
}

impl Drop for PendingInvocation {
    fn drop(&mut self) {
        if self.provider.state().waiting.remove(&self.number).is_some() {
            let event = Event::InvokeCancelled(InvokeCancelled { invocation: self.number });
            // If the queue is full, the provider learns of it when its answer is refused.
            self.provider.outbox.try_send(ServerMessage::Event(event).into()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::outbox::QueuedMessage;

    fn provider(uid: u32) -> (Arc<Provider>, mpsc::Receiver<QueuedMessage>) {
        let (outbox, queue) = mpsc::channel(8);
        (Arc::new(Provider::new(1, uid, outbox)), queue)
    }

    fn result(invocation: Invocation) -> ProviderMessage {
        let (output, data, error) = (String::new(), None, None);
        ProviderMessage::Result(Box::new(InvokeResult { invocation, output, data, error }))
    }

    #[test]
    fn one_result_each_and_none_for_what_never_was() {
        let (provider, mut queue) = provider(1);
        let mut invoked = provider.begin().unwrap();
        assert_eq!(provider.receive(9, result(9)).unwrap_err().code, ErrorCode::NotFound);
        provider.receive(1, result(1)).unwrap();
        assert_eq!(provider.receive(1, result(1)).unwrap_err().code, ErrorCode::NotFound);
        assert!(matches!(invoked.heard.try_recv(), Ok(ProviderMessage::Result(_))));
        drop(invoked);
        assert!(queue.try_recv().is_err(), "what has its result is not cancelled");
        drop(provider.begin().unwrap());
        let cancelled = Event::InvokeCancelled(InvokeCancelled { invocation: 2 });
        assert_eq!(queue.try_recv().unwrap().message, ServerMessage::Event(cancelled));
    }

    #[test]
    fn floods_and_crowds_are_bounded() {
        let (provider, _queue) = provider(1);
        let mut first = provider.begin().unwrap();
        let others: Vec<_> = (1..IN_FLIGHT).map(|_| provider.begin().unwrap()).collect();
        assert_eq!(provider.begin().unwrap_err().code, ErrorCode::LimitReached);
        let mut said = 0;
        while provider.receive(1, ProviderMessage::Output("x".repeat(65_536))).is_ok() {
            said += 1;
        }
        assert_eq!(said, 16);
        assert_eq!(std::iter::from_fn(|| first.heard.try_recv().ok()).count(), 16);
        drop(others);
        provider.leave();
        assert_eq!(provider.begin().unwrap_err().code, ErrorCode::ProviderFailed);
    }

    #[test]
    fn labels_are_of_one_session_and_one_provider() {
        let ((one, _), (other, _)) = (provider(1), provider(1));
        let (a, b): (SessionId, SessionId) = ("a".parse().unwrap(), "b".parse().unwrap());
        assert_eq!(one.label(&a), one.label(&a));
        assert_ne!(one.label(&a), one.label(&b));
        assert_ne!(one.label(&a), other.label(&a));
    }
}
