//! The questions and connections of a session that are open. Runs in the broker. Pure: the clock is
//! the only thing that is read.

use super::error::NetworkError;
use palisade_audit::{CleanText, ConnectionVerdict, Count};
use palisade_egress_protocol::{Asked, ConnectionResult, host::Target};
use palisade_protocol::{CallId, ConnectionInfo, DecidedBy, SessionId};
use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Most questions and connections of a session at once. A room that has more is broken: a session's
/// own limit of connections is below it.
const MOST: usize = 4096;

/// Most approvals of programs' connections that are known. With more, a request on the connection with
/// the oldest is asked about again.
const MOST_APPROVED: usize = 1024;

/// The open questions and connections of a session.
#[derive(Debug, Default)]
pub(super) struct OpenConnections(Mutex<OpenState>);

#[derive(Debug, Default)]
struct OpenState {
    all: BTreeMap<u64, OpenConnection>,
    /// The approvals that are not remembered. Each holds for one connection of a program, on which
    /// further requests may come, and for one host.
    approved: VecDeque<ApprovedConnection>,
}

/// A connection of a program, by its number, that an approver approved.
#[derive(Debug)]
struct ApprovedConnection {
    number: u64,
    target: Target,
    by: DecidedBy,
}

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
    fn state(&self) -> MutexGuard<'_, OpenState> {
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
        let all = &mut self.state().all;
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
        self.state().all.remove(&question);
    }

    /// Turns a question into a connection. Returns whether somebody still waits for it. An approval of
    /// the program's connection with a number holds for further requests on it to the same host.
    pub(super) fn allow(
        &self,
        question: u64,
        rule: &str,
        approval: Option<(u64, DecidedBy)>,
    ) -> bool {
        let OpenState { all, approved } = &mut *self.state();
        let Some(open) = all.get_mut(&question) else { return false };
        if let ConnectionState::Asked(token) = &open.state {
            let (rule, _over) = (rule.to_owned(), token.clone().drop_guard());
            open.state = ConnectionState::Allowed { rule, address: None, _over };
        }
        let is_known = |(number, _): &(u64, DecidedBy)| {
            approved.iter().any(|one| one.number == *number && one.target == open.target)
        };
        if let Some((number, by)) = approval.filter(|approval| !is_known(approval)) {
            if approved.len() >= MOST_APPROVED {
                approved.pop_front();
            }
            approved.push_back(ApprovedConnection { number, target: open.target.clone(), by });
        }
        true
    }

    /// Returns who approved requests to a host on a program's connection.
    pub(super) fn approver(&self, number: u64, target: &Target) -> Option<DecidedBy> {
        let state = self.state();
        let mut approved = state.approved.iter();
        let found = approved.find(|one| one.number == number && one.target == *target);
        found.map(|one| one.by.clone())
    }

    /// Notes the address that was dialled for an allowed connection.
    pub(super) fn connected(&self, question: u64, dialled: SocketAddr) -> Result<(), NetworkError> {
        match self.state().all.get_mut(&question).map(|open| &mut open.state) {
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
        let open = self.state().all.remove(&question)?;
        open.record(session, result)
    }

    /// Removes all of them. Returns the records of connections.
    pub(super) fn end_all(
        &self,
        session: &SessionId,
        failure: &str,
    ) -> Vec<palisade_audit::Connection> {
        // Another room gives its connections the same numbers.
        let OpenState { all, approved: _ } = std::mem::take(&mut *self.state());
        let ended = all.into_values().filter_map(|open| {
            let failure = Some(failure.to_owned());
            let result = ConnectionResult { sent: 0, received: 0, server_name: None, failure };
            open.record(session, result)
        });
        ended.collect()
    }

    /// Describes the connections, oldest first.
    pub(super) fn infos(&self, session: &SessionId) -> Vec<ConnectionInfo> {
        let all = &self.state().all;
        let mut infos: Vec<_> = all.values().filter_map(|open| open.info(session)).collect();
        infos.sort_by_key(|info| std::cmp::Reverse(info.time_ms));
        infos
    }

    /// Returns the number of connections.
    pub(super) fn count(&self) -> usize {
        let is_allowed =
            |open: &&OpenConnection| matches!(open.state, ConnectionState::Allowed { .. });
        self.state().all.values().filter(is_allowed).count()
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
        assert!(open.allow(1, "net.allow \"a.example\"", None));
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
        assert!(!open.allow(2, "too late", None));
    }

    #[test]
    fn an_approval_holds_for_its_connection_and_host_until_the_room_ends() {
        let (open, session) = (OpenConnections::default(), "s-1".parse().unwrap());
        let ann = DecidedBy::Approver("ann".to_owned());
        let approve = |question, number| {
            open.ask(question, target(), Asked::Http, Vec::new()).unwrap();
            assert!(open.allow(question, "approved", Some((number, ann.clone()))));
            open.end(&session, question, result()).unwrap();
        };
        approve(0, 7);
        assert_eq!(open.approver(7, &target()), Some(ann.clone()));
        assert_eq!(open.approver(8, &target()), None, "another connection");
        let port = Target { port: 80, ..target() };
        assert_eq!(open.approver(7, &port), None, "another port");
        assert!(!open.allow(1, "nobody waits", Some((9, ann.clone()))));
        assert_eq!(open.approver(9, &target()), None, "nobody waited");
        for number in 1..=MOST_APPROVED as u64 {
            approve(number, 100 + number);
        }
        assert_eq!(open.approver(7, &target()), None, "the oldest");
        assert_eq!(open.approver(101, &target()), Some(ann.clone()));
        open.end_all(&session, "the room ended");
        assert_eq!(open.approver(101, &target()), None, "another room counts anew");
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
