//! Those who want to hear of calls and decisions as they happen. One that does not keep up loses
//! events; it never holds up a call. Broker.

use crate::{checkpoint::desk::ConnectionNumber, context::Outbox, session::Session};
use palisade_protocol::{Event, ServerMessage, SessionId};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Everybody who subscribed.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    all: Mutex<Vec<Observer>>,
}

#[derive(Debug)]
struct Observer {
    connection: ConnectionNumber,
    /// None means every session.
    session: Option<SessionId>,
    outbox: Outbox,
}

impl Observers {
    fn all(&self) -> MutexGuard<'_, Vec<Observer>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more; a second subscription of a connection takes the place of its first.
    pub(crate) fn add(
        &self,
        connection: ConnectionNumber,
        session: Option<SessionId>,
        outbox: Outbox,
    ) {
        self.remove(connection);
        self.all().push(Observer { connection, session, outbox });
    }

    pub(crate) fn remove(&self, connection: ConnectionNumber) {
        self.all().retain(|observer| observer.connection != connection);
    }

    /// Tells those who want to hear of this session; the event is made only if there are any.
    pub(crate) fn tell(&self, session: &Session, event: impl FnOnce() -> Event) {
        self.tell_of(&session.id, event);
    }

    fn tell_of(&self, session: &SessionId, event: impl FnOnce() -> Event) {
        let all = self.all();
        let wants = |observer: &&Observer| observer.session.as_ref().is_none_or(|id| id == session);
        let mut listening = all.iter().filter(wants).peekable();
        if listening.peek().is_none() {
            return;
        }
        let event = event();
        for observer in listening {
            // A full queue loses this event for this observer.
            observer.outbox.try_send(ServerMessage::Event(event.clone())).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    fn event() -> Event {
        Event::Progress { call: 1, message: String::new(), done: 0, total: None }
    }

    #[tokio::test]
    async fn each_hears_of_what_it_asked_for_and_nobody_waits() {
        let observers = Observers::default();
        let (everything, mut all) = mpsc::channel(1);
        let (one, mut own) = mpsc::channel(8);
        let (first, second): (SessionId, SessionId) =
            ("s1".parse().unwrap(), "s2".parse().unwrap());
        observers.add(1, None, everything);
        observers.add(2, Some(first.clone()), one);
        for session in [&first, &second, &second] {
            observers.tell_of(session, event);
        }
        assert!(all.try_recv().is_ok() && all.try_recv().is_err());
        assert!(own.try_recv().is_ok() && own.try_recv().is_err());
        observers.remove(1);
        observers.remove(2);
        observers.tell_of(&first, || panic!("nobody listens"));
    }
}
