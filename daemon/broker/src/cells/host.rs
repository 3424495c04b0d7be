//! The host of all sessions: the parts that they are made of, and their counts. Runs in the broker.

use crate::{
    base::{census::Census, live::SettingsInForce},
    cells::{
        analyst::ExpectedCalls, commit_lock::CommitLocks, hidden_names::ScanStates, link::Link,
        session::Session,
    },
    stores::undo::Undos,
    telemetry::audit::Audit,
};
use palisade_protocol::SessionId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The parts that sessions are made of, and the sessions that exist.
#[derive(Debug)]
pub(crate) struct SessionHost {
    pub(crate) live: Arc<SettingsInForce>,
    pub(crate) link: Link,
    pub(crate) census: Census,
    pub(crate) scans: ScanStates,
    pub(crate) commits: CommitLocks,
    /// The undo store, without which no change is made.
    pub(crate) undos: Undos,
    /// The audit log, without which nothing is run.
    pub(crate) audit: Audit,
    /// The number of calls for which sessions prepare.
    pub(crate) expected_calls: ExpectedCalls,
    sessions: Mutex<Vec<Weak<Session>>>,
}

impl SessionHost {
    pub(crate) fn new(
        live: Arc<SettingsInForce>,
        link: Link,
        undos: Undos,
        audit: Audit,
        expected_calls: ExpectedCalls,
    ) -> Self {
        let (census, scans, commits, sessions) = Default::default();
        Self { live, link, census, scans, commits, undos, audit, expected_calls, sessions }
    }

    fn known(&self) -> MutexGuard<'_, Vec<Weak<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session with this id.
    pub(crate) fn session(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.known().iter().filter_map(Weak::upgrade).find(|session| session.id == *id)
    }

    /// Remembers a session, for as long as it lives, so that it can be found and listed.
    pub(crate) fn note(&self, session: &Arc<Session>) {
        let mut sessions = self.known();
        sessions.retain(|known| known.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
    }

    /// Returns all sessions.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.known().iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the sessions of a user.
    pub(crate) fn sessions_of(&self, uid: u32) -> Vec<Arc<Session>> {
        let all = self.known();
        all.iter().filter_map(Weak::upgrade).filter(|session| session.uid() == uid).collect()
    }
}
