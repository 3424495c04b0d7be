//! A process that provides tools: what it is asked, and what it answers. It is told of a call what
//! the call says, and of the session a label. Broker.

use crate::{error::CallError, outbox::Outbox, peer::ConnectionNumber};
use palisade_protocol::{
    ErrorCode, Event, Invocation, InvokeCancelled, InvokeProgress, InvokeResult, ServerMessage,
    SessionId, WireError,
};
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;

/// Invocations of one provider that are under way.
const IN_FLIGHT: usize = 64;
/// What an invocation may send before its result, in bytes: it waits here for a slow client.
const ROOM: usize = 1024 * 1024;
/// What a piece of it costs besides its text.
const PIECE: usize = 256;

/// A connection that provides tools.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) number: ConnectionNumber,
    pub(crate) uid: u32,
    outbox: Outbox,
    /// Makes its labels of sessions its own.
    secret: uuid::Uuid,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Invocation,
    waiting: HashMap<Invocation, Waiting>,
    gone: bool,
}

#[derive(Debug)]
struct Waiting {
    sender: mpsc::UnboundedSender<Heard>,
    room: usize,
}

/// What a provider says of an invocation.
#[derive(Debug)]
pub(crate) enum Heard {
    Progress(InvokeProgress),
    Output(String),
    Result(Box<InvokeResult>),
    /// More than it may; it is not heard any more.
    TooMuch,
}

impl Heard {
    fn cost(&self) -> usize {
        match self {
            Self::Progress(progress) => progress.message.len() + PIECE,
            Self::Output(text) => text.len() + PIECE,
            Self::Result(_) | Self::TooMuch => 0,
        }
    }
}

/// An invocation under way. Dropped without a result, the provider is told that nobody waits.
#[derive(Debug)]
pub(crate) struct Invoked {
    provider: Arc<Provider>,
    pub(crate) number: Invocation,
    pub(crate) heard: mpsc::UnboundedReceiver<Heard>,
}

impl Provider {
    pub(crate) fn new(number: ConnectionNumber, uid: u32, outbox: Outbox) -> Self {
        Self { number, uid, outbox, secret: uuid::Uuid::now_v7(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this provider knows a session by.
    pub(crate) fn label(&self, session: &SessionId) -> String {
        let mut hash = Sha256::new();
        hash.update(self.secret.as_bytes());
        hash.update(session.as_str().as_bytes());
        let mut label = String::new();
        for byte in hash.finalize().iter().take(12) {
            // Writing to a string does not fail.
            write!(label, "{byte:02x}").ok();
        }
        label
    }

    /// Begins an invocation.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Invoked, WireError> {
        let mut state = self.state();
        if state.gone {
            return Err(left().into());
        }
        if state.waiting.len() >= IN_FLIGHT {
            return Err(WireError::new(
                ErrorCode::LimitReached,
                format!("{IN_FLIGHT} calls of this provider's tools are under way already"),
                "wait for one of them to end",
            ));
        }
        let (sender, heard) = mpsc::unbounded_channel();
        state.last += 1;
        let number = state.last;
        state.waiting.insert(number, Waiting { sender, room: ROOM });
        Ok(Invoked { provider: Arc::clone(self), number, heard })
    }

    /// Takes what the provider says of an invocation.
    pub(crate) fn hear(&self, number: Invocation, heard: Heard) -> Result<(), WireError> {
        let mut state = self.state();
        let Some(waiting) = state.waiting.get_mut(&number) else {
            return Err(WireError::new(
                ErrorCode::NotFound,
                format!("no invocation {number} is under way"),
                "it was cancelled, has had its result, or never was",
            ));
        };
        let (heard, over) = match (waiting.room.checked_sub(heard.cost()), &heard) {
            (None, _) => (Heard::TooMuch, true),
            (Some(room), heard_now) => {
                waiting.room = room;
                let over = matches!(heard_now, Heard::Result(_));
                (heard, over)
            }
        };
        // A call that has just ended does not hear it.
        drop(waiting.sender.send(heard));
        if over {
            state.waiting.remove(&number);
        }
        Ok(())
    }

    /// The connection has ended: whoever waits is told by the end of their channel.
    pub(crate) fn leave(&self) {
        let mut state = self.state();
        state.gone = true;
        state.waiting.clear();
    }
}

/// The provider is not there any more.
pub(crate) fn left() -> CallError {
    CallError::Provider("the process that provides the tool has left".to_owned())
}

impl Invoked {
    /// Sends the provider something; waits while it does not read.
    pub(crate) async fn send(&self, event: Event) -> Result<(), CallError> {
        self.provider.outbox.send(ServerMessage::Event(event)).await.map_err(|_| left())
    }
}

impl Drop for Invoked {
    fn drop(&mut self) {
        if self.provider.state().waiting.remove(&self.number).is_some() {
            let event = Event::InvokeCancelled(InvokeCancelled { invocation: self.number });
            // One that does not read learns it when its answer is refused.
            self.provider.outbox.try_send(ServerMessage::Event(event)).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(uid: u32) -> (Arc<Provider>, mpsc::Receiver<ServerMessage>) {
        let (outbox, queue) = mpsc::channel(8);
        (Arc::new(Provider::new(1, uid, outbox)), queue)
    }

    fn result(invocation: Invocation) -> Heard {
        let (output, data, error) = (String::new(), None, None);
        Heard::Result(Box::new(InvokeResult { invocation, output, data, error }))
    }

    #[test]
    fn one_result_each_and_none_for_what_never_was() {
        let (provider, mut queue) = provider(1);
        let mut invoked = provider.begin().unwrap();
        assert_eq!(provider.hear(9, result(9)).unwrap_err().code, ErrorCode::NotFound);
        provider.hear(1, result(1)).unwrap();
        assert_eq!(provider.hear(1, result(1)).unwrap_err().code, ErrorCode::NotFound);
        assert!(matches!(invoked.heard.try_recv(), Ok(Heard::Result(_))));
        drop(invoked);
        assert!(queue.try_recv().is_err(), "what has its result is not cancelled");
        drop(provider.begin().unwrap());
        let cancelled = Event::InvokeCancelled(InvokeCancelled { invocation: 2 });
        assert_eq!(queue.try_recv().unwrap(), ServerMessage::Event(cancelled));
    }

    #[test]
    fn floods_and_crowds_are_bounded() {
        let (provider, _queue) = provider(1);
        let mut first = provider.begin().unwrap();
        let others: Vec<_> = (1..IN_FLIGHT).map(|_| provider.begin().unwrap()).collect();
        assert_eq!(provider.begin().unwrap_err().code, ErrorCode::LimitReached);
        let mut said = 0;
        while provider.hear(1, Heard::Output("x".repeat(65_536))).is_ok() {
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
