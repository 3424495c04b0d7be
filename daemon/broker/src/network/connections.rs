//! The questions and connections of a session that are open. Runs in the broker. Pure: the clock is
//! the only thing that is read.

use super::error::NetworkError;
use palisade_audit::{CleanText, ConnectionVerdict, Count};
use palisade_egress_protocol::{Asked, ConnectionResult, host::Target};
use palisade_protocol::{CallId, ConnectionInfo, SessionId};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Most questions and connections of a session at once. A room that has more is broken: a session's
/// own limit of connections is below it.
const MOST: usize = 4096;

/// The open questions and connections of a session.
#[derive(Debug, Default)]
pub(super) struct OpenConnections(Mutex<BTreeMap<u64, OpenConnection>>);

/// A question of the egress room, or the connection that it became.
#[derive(Debug)]
pub(super) struct OpenConnection {
    pub(super) target: Target,
    pub(super) asked: Asked,
    /// The calls that ran when it was asked for.
    pub(super) calls: Vec<CallId>,
    since: Instant,
    state: ConnectionState,
}

#[derive(Debug)]
enum ConnectionState {
    /// It is being decided. Cancelling this stops that.
    Asked(CancellationToken),
    /// It was allowed by this rule. The token is cancelled when it has ended.
    Allowed { rule: String, address: Option<SocketAddr>, _over: DropGuard },
}

impl OpenConnections {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, OpenConnection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a question. The token is cancelled when nobody waits for its answer any more, and when the
    /// connection that it became has ended.
    pub(super) fn ask(
        &self,
        question: u64,
        target: Target,
        asked: Asked,
        calls: Vec<CallId>,
    ) -> Result<CancellationToken, NetworkError> {
        let mut all = self.all();
        if all.len() >= MOST {
            return Err(NetworkError::Protocol("it asks too much at once"));
        }
        let cancel = CancellationToken::new();
        let state = ConnectionState::Asked(cancel.clone());
        let open = OpenConnection { target, asked, calls, since: Instant::now(), state };
        match all.insert(question, open) {
            None => Ok(cancel),
            Some(_) => Err(NetworkError::Protocol("it uses the number of a question twice")),
        }
    }

    /// Removes a question that was answered and does not become a connection.
    pub(super) fn answered(&self, question: u64) {
        self.all().remove(&question);
    }

    /// Turns a question into a connection. Returns whether somebody still waits for it.
    pub(super) fn allow(&self, question: u64, rule: &str) -> bool {
        match self.all().get_mut(&question) {
            Some(open) => {
                if let ConnectionState::Asked(token) = &open.state {
                    let (rule, _over) = (rule.to_owned(), token.clone().drop_guard());
                    open.state = ConnectionState::Allowed { rule, address: None, _over };
                }
                true
            }
            None => false,
        }
    }

    /// Notes the address that was dialled for an allowed connection.
    pub(super) fn connected(&self, question: u64, dialled: SocketAddr) -> Result<(), NetworkError> {
        match self.all().get_mut(&question).map(|open| &mut open.state) {
            Some(ConnectionState::Allowed { address, .. }) => {
                *address = Some(dialled);
                Ok(())
            }
            Some(ConnectionState::Asked(_)) | None => {
                Err(NetworkError::Protocol("it made a connection that was not allowed"))
            }
        }
    }

    /// Removes a question or connection, and stops deciding about it. Returns the record of a
    /// connection.
    pub(super) fn end(
        &self,
        session: &SessionId,
        question: u64,
        result: ConnectionResult,
    ) -> Option<palisade_audit::Connection> {
        let open = self.all().remove(&question)?;
        open.record(session, result)
    }

    /// Removes all of them. Returns the records of connections.
    pub(super) fn end_all(
        &self,
        session: &SessionId,
        failure: &str,
    ) -> Vec<palisade_audit::Connection> {
        let all = std::mem::take(&mut *self.all());
        let ended = all.into_values().filter_map(|open| {
            let failure = Some(failure.to_owned());
            let result = ConnectionResult { sent: 0, received: 0, server_name: None, failure };
            open.record(session, result)
        });
        ended.collect()
    }

    /// Describes the connections, oldest first.
    pub(super) fn infos(&self, session: &SessionId) -> Vec<ConnectionInfo> {
        let all = self.all();
        let mut infos: Vec<_> = all.values().filter_map(|open| open.info(session)).collect();
        infos.sort_by_key(|info| std::cmp::Reverse(info.time_ms));
        infos
    }

    /// Returns the number of connections.
    pub(super) fn count(&self) -> usize {
        let is_allowed =
            |open: &&OpenConnection| matches!(open.state, ConnectionState::Allowed { .. });
        self.all().values().filter(is_allowed).count()
    }
}

impl OpenConnection {
    fn record(
        self,
        session: &SessionId,
        result: ConnectionResult,
    ) -> Option<palisade_audit::Connection> {
        let (rule, address) = match self.state {
            ConnectionState::Asked(cancel) => {
                cancel.cancel();
                return None;
            }
            ConnectionState::Allowed { rule, address, .. } => (rule, address),
        };
        Some(palisade_audit::Connection {
            session: session.to_string(),
            calls: self.calls.iter().map(ToString::to_string).collect(),
            host: CleanText::new(&self.target.host.to_string()),
            port: self.target.port,
            asked: name(self.asked).to_owned(),
            verdict: ConnectionVerdict::Allow,
            rule: CleanText::new(&rule),
            address: address.map(|address| address.to_string()),
            server_name: result.server_name.map(|name| CleanText::new(name.as_str())),
            sent_bytes: result.sent,
            received_bytes: result.received,
            duration_us: u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX),
            failure: result.failure.as_deref().map(CleanText::new),
            count: Count::default(),
            alarm: None,
            denial: None,
        })
    }

    fn info(&self, session: &SessionId) -> Option<ConnectionInfo> {
        let ConnectionState::Allowed { rule, address, .. } = &self.state else { return None };
        Some(ConnectionInfo {
            session: session.clone(),
            call_ids: self.calls.clone(),
            host: self.target.host.to_string(),
            port: self.target.port,
            asked: name(self.asked).to_owned(),
            rule: rule.clone(),
            address: address.map(|address| address.to_string()),
            time_ms: millis(self.since.elapsed()),
        })
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the name of the way in which a program asked, for records and lists.
pub(super) const fn name(asked: Asked) -> &'static str {
    match asked {
        Asked::Lookup => "lookup",
        Asked::Connect => "connect",
        Asked::Http => "http",
        Asked::Socks => "socks",
        Asked::Direct => "direct",
        Asked::Published => "published",
        Asked::Request => "request",
        Asked::Fetch => "web_fetch",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_egress_protocol::host::{Host, HostName};

    fn target() -> Target {
        Target { host: Host::Name(HostName::new("a.example").unwrap()), port: 443 }
    }

    fn result() -> ConnectionResult {
        ConnectionResult { sent: 3, received: 5, server_name: None, failure: None }
    }

    #[test]
    fn a_connection_has_one_record_and_a_question_none() {
        let (open, session) = (OpenConnections::default(), "s-1".parse().unwrap());
        let calls = vec!["c-1".parse().unwrap()];
        let cancel = open.ask(1, target(), Asked::Connect, calls).unwrap();
        assert!(open.infos(&session).is_empty());
        let address = "203.0.113.7:443".parse().unwrap();
        assert!(open.connected(1, address).is_err(), "it was not allowed yet");
        assert!(open.allow(1, "net.allow \"a.example\""));
        assert!(!cancel.is_cancelled());
        open.connected(1, address).unwrap();
        let infos = open.infos(&session);
        assert_eq!(infos[0].address.as_deref(), Some("203.0.113.7:443"));
        assert_eq!(open.count(), 1);
        let record = open.end(&session, 1, result()).unwrap();
        assert_eq!((record.sent_bytes, record.received_bytes), (3, 5));
        assert_eq!((record.calls, record.asked.as_str()), (vec!["c-1".to_owned()], "connect"));
        assert!(open.end(&session, 1, result()).is_none());
        assert!(cancel.is_cancelled(), "whoever waits for its end is told");
        let cancel = open.ask(2, target(), Asked::Socks, Vec::new()).unwrap();
        assert!(open.end(&session, 2, result()).is_none());
        assert!(cancel.is_cancelled());
        assert!(!open.allow(2, "too late"));
    }

    #[test]
    fn a_number_is_used_once_and_the_room_is_bounded() {
        let open = OpenConnections::default();
        let ask = |number| open.ask(number, target(), Asked::Connect, Vec::new());
        assert!(ask(0).is_ok());
        assert!(ask(0).is_err());
        for number in 1..MOST as u64 {
            assert!(ask(number).is_ok());
        }
        assert!(ask(u64::MAX).is_err());
    }
}
