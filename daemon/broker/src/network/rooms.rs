//! The egress rooms of all users, and the sessions that they serve. Runs in the broker.

use super::{
    error::NetworkError,
    listeners::SessionListeners,
    room::{RoomCommand, RoomCounts, UserRoom},
    session::NetworkSession,
    source::RoomSource,
};
use crate::{approval::service::ApprovalService, cells::session::Session};
use palisade_plan::{launcher::SessionNumber, listeners::INWARD_SOCKETS};
use palisade_protocol::ConnectionInfo;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
};
use tokio::sync::{mpsc, oneshot};

/// The number of commands that wait for a room.
const COMMANDS: usize = 64;

/// The egress rooms of all users.
#[derive(Debug)]
pub(crate) struct EgressRooms {
    source: Arc<RoomSource>,
    approvals: Arc<ApprovalService>,
    counts: Arc<RoomCounts>,
    state: Mutex<RoomsState>,
}

#[derive(Debug, Default)]
struct RoomsState {
    /// The room of each user, by uid.
    users: HashMap<u32, mpsc::Sender<RoomCommand>>,
    sessions: Vec<Weak<NetworkSession>>,
}

/// The state of all rooms, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoomTotals {
    /// The rooms that run.
    pub(crate) running: u64,
    /// The rooms that died while sessions used them.
    pub(crate) died: u64,
    /// The connections that are open.
    pub(crate) connections: u64,
}

impl EgressRooms {
    pub(crate) fn new(source: RoomSource, approvals: Arc<ApprovalService>) -> Self {
        let (source, counts, state) = (Arc::new(source), Arc::default(), Mutex::default());
        Self { source, approvals, counts, state }
    }

    fn state(&self) -> MutexGuard<'_, RoomsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a session's network, if its profile has one by name. On an error, the session must be
    /// closed: its connections would lead nowhere.
    pub(crate) async fn open(&self, session: &Arc<Session>) -> Result<(), NetworkError> {
        let came = session.network.take_listeners();
        let Some(policy) = session.profile.egress() else { return Ok(()) };
        let held = session.receipt().network;
        if held.mode != "domains" || held.ports != policy.ports() {
            return Err(NetworkError::NotHeld(held.mode));
        }
        let credentials = self.source.credentials(&policy)?;
        let inward = if policy.published().is_empty() { 0 } else { INWARD_SOCKETS };
        let mut listeners = SessionListeners::check(policy.ports(), inward, came)?;
        listeners.publish(policy.published())?;
        let served = Arc::new(NetworkSession::new(session, policy, listeners, credentials));
        self.serve(session.uid(), Arc::clone(&served)).await?;
        served.record_published(&self.approvals.telemetry);
        Ok(())
    }

    /// Has a session served by the room of its user.
    pub(super) async fn serve(
        &self,
        uid: u32,
        session: Arc<NetworkSession>,
    ) -> Result<(), NetworkError> {
        let kept = Arc::downgrade(&session);
        let (done, opened) = oneshot::channel();
        let sent = self.user(uid).send(RoomCommand::Open(session, done)).await;
        sent.map_err(|_| stopping())?;
        opened.await.map_err(|_| stopping())??;
        let mut state = self.state();
        state.sessions.retain(|session| session.strong_count() > 0);
        state.sessions.push(kept);
        Ok(())
    }

    /// Returns the way to a user's room.
    pub(super) fn user(&self, uid: u32) -> mpsc::Sender<RoomCommand> {
        let mut state = self.state();
        let commands = state.users.entry(uid).or_insert_with(|| {
            let (sender, commands) = mpsc::channel(COMMANDS);
            let room = UserRoom::new(
                Arc::clone(&self.source),
                Arc::clone(&self.approvals),
                Arc::clone(&self.counts),
            );
            tokio::spawn(room.run(commands));
            sender
        });
        commands.clone()
    }

    /// Ends the connections of a session; returns when they are recorded.
    pub(crate) async fn close(&self, session: &Session) {
        self.end(session.uid(), session.number()).await;
    }

    pub(super) async fn end(&self, uid: u32, number: SessionNumber) {
        let commands = self.state().users.get(&uid).cloned();
        let Some(commands) = commands else { return };
        let (done, closed) = oneshot::channel();
        if commands.send(RoomCommand::Close(number, done)).await.is_ok() {
            // The task of the room ends only with the daemon.
            closed.await.ok();
        }
    }

    pub(super) fn sessions(&self) -> Vec<Arc<NetworkSession>> {
        self.state().sessions.iter().filter_map(Weak::upgrade).collect()
    }

    /// Lists the open connections: of one user's sessions, or of all.
    pub(crate) fn connections(&self, uid: Option<u32>) -> Vec<ConnectionInfo> {
        let mut sessions = self.sessions();
        sessions.retain(|session| uid.is_none_or(|uid| session.identity.uid() == uid));
        sessions.sort_by(|a, b| a.identity.id.cmp(&b.identity.id));
        sessions.iter().flat_map(|session| session.infos()).collect()
    }

    pub(crate) fn totals(&self) -> RoomTotals {
        let sessions = self.sessions();
        let connections: usize = sessions.iter().map(|session| session.connections.count()).sum();
        RoomTotals {
            running: self.counts.running.load(Ordering::Relaxed),
            died: self.counts.died.load(Ordering::Relaxed),
            connections: connections as u64,
        }
    }

    /// Describes the rooms for `doctor`.
    pub(crate) fn describe(&self) -> String {
        let RoomTotals { running, died, connections } = self.totals();
        let source = self.source.describe();
        match (running, died) {
            (0, 0) => format!("none running, {source}"),
            (running, 0) => format!("{running} running, {connections} connections, {source}"),
            (running, died) => {
                format!("{running} running, {connections} connections, {died} died, {source}")
            }
        }
    }
}

pub(super) fn stopping() -> NetworkError {
    NetworkError::Gone("the daemon is stopping".to_owned())
}
