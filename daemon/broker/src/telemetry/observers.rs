//! Connections that subscribed to events of calls and decisions. One that does not keep up loses
//! events and is told how many; it never holds up a call. Runs in the broker.

use crate::base::{outbox::Outbox, peer::ConnectionNumber, roles::Role};
use palisade_protocol::{Event, ServerMessage, SessionId};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All subscribed connections.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    all: Mutex<Vec<Observer>>,
}

/// The roles that may receive an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventAudience {
    Everybody,
    /// Only operators: agents may not see it before it was reviewed.
    Operators,
    Nobody,
}

/// A connection that subscribed, and to which session.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) connection: ConnectionNumber,
    pub(crate) role: Role,
    /// The session whose events are wanted; `None` means every session.
    pub(crate) session: Option<SessionId>,
    pub(crate) outbox: Outbox,
}

#[derive(Debug)]
struct Observer {
    subscriber: Subscriber,
    /// The events lost since the last one that was queued, and the bytes of output in them.
    lost: (u64, u64),
}

impl EventAudience {
    fn has(self, role: Role) -> bool {
        match self {
            Self::Everybody => true,
            Self::Operators => role == Role::Operator,
            Self::Nobody => false,
        }
    }
}

impl Observer {
    /// Queues an event if there is room.
    ///
    /// The connection's queue also carries replies and approval requests. So output may fill only
    /// half of it, and other events three quarters.
    fn receive(&mut self, event: Event) {
        let outbox = &self.subscriber.outbox;
        let (bytes, kept) = match &event {
            Event::CallOutput { data, .. } => (data.0.len() as u64, outbox.max_capacity() / 2),
            Event::Output { .. }
            | Event::Progress { .. }
            | Event::ApprovalRequest(_)
            | Event::ApprovalClosed(_)
            | Event::ApprovalGiven(_)
            | Event::ToolApproval(_)
            | Event::CallStarted(_)
            | Event::CallEnded(_)
            | Event::Denied(_)
            | Event::Invoke(_)
            | Event::InvokeCancelled(_)
            | Event::Lost { .. } => (0, outbox.max_capacity() / 4),
        };
        let room = outbox.capacity() > kept && self.catch_up();
        if !room || self.subscriber.outbox.try_send(ServerMessage::Event(event).into()).is_err() {
            self.lost.0 += 1;
            self.lost.1 += bytes;
        }
    }

    /// Reports lost events to the observer, if there are any. Returns false if even that did not
    /// fit.
    fn catch_up(&mut self) -> bool {
        let (events, bytes) = self.lost;
        let told = events == 0
            || self
                .subscriber
                .outbox
                .try_send(ServerMessage::Event(Event::Lost { events, bytes }).into())
                .is_ok();
        if told {
            self.lost = (0, 0);
        }
        told
    }
}

impl Observers {
    fn all(&self) -> MutexGuard<'_, Vec<Observer>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber; a second subscription of a connection replaces its first.
    pub(crate) fn add(&self, subscriber: Subscriber) {
        self.remove(subscriber.connection);
        self.all().push(Observer { subscriber, lost: (0, 0) });
    }

    pub(crate) fn remove(&self, connection: ConnectionNumber) {
        self.all().retain(|observer| observer.subscriber.connection != connection);
    }

    /// Sends an event to all observers of this session. The event is built only if there are any.
    pub(crate) fn tell(&self, session: &SessionId, event: impl FnOnce() -> Event) {
        self.send_to(session, EventAudience::Everybody, event);
    }

    /// Sends an event to those observers of this session whose role is in `audience`.
    pub(crate) fn send_to(
        &self,
        session: &SessionId,
        audience: EventAudience,
        event: impl FnOnce() -> Event,
    ) {
        let mut all = self.all();
        let wants = |observer: &&mut Observer| {
            let Subscriber { session: wanted, role, .. } = &observer.subscriber;
            audience.has(*role) && wanted.as_ref().is_none_or(|id| id == session)
        };
        let mut listening = all.iter_mut().filter(wants).peekable();
        if listening.peek().is_none() {
            return;
        }
        let event = event();
        for observer in listening {
            observer.receive(event.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::outbox::QueuedMessage;
    use palisade_protocol::{Bytes, Stream};
    use tokio::sync::mpsc::{self, Receiver};

    fn news() -> Event {
        Event::Progress { call: 1, message: String::new(), done: 0, total: None }
    }

    fn output(text: &str) -> Event {
        let (session, call_id) = ("s1".parse().unwrap(), "c1".parse().unwrap());
        let data = Bytes(text.as_bytes().to_vec());
        Event::CallOutput { session, call_id, stream: Stream::Stdout, data }
    }

    fn subscribed(
        observers: &Observers,
        connection: ConnectionNumber,
        role: Role,
        session: Option<&SessionId>,
        queue: usize,
    ) -> Receiver<QueuedMessage> {
        let (outbox, heard) = mpsc::channel(queue);
        observers.add(Subscriber { connection, role, session: session.cloned(), outbox });
        heard
    }

    fn heard(queue: &mut Receiver<QueuedMessage>) -> Vec<Event> {
        std::iter::from_fn(|| queue.try_recv().ok())
            .map(|queued| match queued.message {
                ServerMessage::Event(event) => event,
                ServerMessage::Reply { .. } => panic!("{queued:?}"),
            })
            .collect()
    }

    #[test]
    fn each_hears_of_what_it_asked_for_and_nobody_waits() {
        let observers = Observers::default();
        let (first, second): (SessionId, SessionId) =
            ("s1".parse().unwrap(), "s2".parse().unwrap());
        let mut all = subscribed(&observers, 1, Role::Operator, None, 1);
        let mut own = subscribed(&observers, 2, Role::Agent, Some(&first), 8);
        for session in [&first, &second, &second] {
            observers.send_to(session, EventAudience::Everybody, news);
        }
        assert_eq!((heard(&mut all).len(), heard(&mut own).len()), (1, 1));
        observers.remove(1);
        observers.remove(2);
        observers.send_to(&first, EventAudience::Everybody, || panic!("nobody listens"));
    }

    #[test]
    fn what_is_to_be_reviewed_first_is_for_operators() {
        let observers = Observers::default();
        let session: SessionId = "s1".parse().unwrap();
        let mut operator = subscribed(&observers, 1, Role::Operator, Some(&session), 8);
        let mut agent = subscribed(&observers, 2, Role::Agent, Some(&session), 8);
        observers.send_to(&session, EventAudience::Operators, || output("secret"));
        observers.send_to(&session, EventAudience::Nobody, || panic!("for nobody"));
        assert_eq!(heard(&mut operator), [output("secret")]);
        assert_eq!(heard(&mut agent), []);
    }

    #[test]
    fn one_that_lags_is_told_how_much_it_missed_and_where() {
        let observers = Observers::default();
        let session: SessionId = "s1".parse().unwrap();
        let mut queue = subscribed(&observers, 1, Role::Agent, Some(&session), 8);
        for text in ["1", "2", "3", "4", "five", "six"] {
            observers.send_to(&session, EventAudience::Everybody, || output(text));
        }
        // Output takes half of the queue, so the event of a call's end still fits.
        observers.send_to(&session, EventAudience::Everybody, news);
        let lost = Event::Lost { events: 2, bytes: 7 };
        let kept = [output("1"), output("2"), output("3"), output("4"), lost, news()];
        assert_eq!(heard(&mut queue), kept);
        observers.send_to(&session, EventAudience::Everybody, || output("7"));
        assert_eq!(heard(&mut queue), [output("7")]);
    }
}
