//! The egress room of one user: started for the first session that needs it, started again when it
//! dies, ended with the last session. While there is no room, connections are refused. Runs in the
//! broker.

use super::{
    credentials::CredentialFile,
    decide::{self, ConnectionVerdict},
    error::NetworkError,
    link::RoomLink,
    session::{NetworkSession, RefusedConnection},
    source::RoomSource,
};
use crate::approval::service::ApprovalService;
use palisade_egress_protocol::{
    Asked, ConnectionResult, EgressReply, EgressRequest, EgressVerdict, RefusalKind, WebRequest,
    fetch::PageRequest, host::Target,
};
use palisade_plan::launcher::SessionNumber;
use std::{
    collections::BTreeMap,
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

/// The pause before a room that died is started again, at first; each failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause before a room is started again.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A room that ran for this long was healthy: the next pause is the first one again.
const HEALTHY: Duration = Duration::from_secs(10);

/// Why open connections end with their room.
const ROOM_ENDED: &str = "the egress room ended";

/// A command to the task of a user's room.
#[derive(Debug)]
pub(super) enum RoomCommand {
    /// Serve a session. The answer comes when the room has been told.
    Open(Arc<NetworkSession>, oneshot::Sender<Result<(), NetworkError>>),
    /// End a session's connections. The answer comes when they are recorded.
    Close(SessionNumber, oneshot::Sender<()>),
    /// Get a page for a session. The session's list of fetches hears the answer.
    Fetch(SessionNumber, u64, PageRequest),
    /// End a fetch that nobody waits for.
    EndFetch(SessionNumber, u64),
}

/// The counts of rooms, for the status and the metrics.
#[derive(Debug, Default)]
pub(super) struct RoomCounts {
    pub(super) running: AtomicU64,
    /// The rooms that died while sessions used them.
    pub(super) died: AtomicU64,
}

/// The egress room of one user.
#[derive(Debug)]
pub(super) struct UserRoom {
    source: Arc<RoomSource>,
    approvals: Arc<ApprovalService>,
    counts: Arc<RoomCounts>,
    sessions: BTreeMap<SessionNumber, Arc<NetworkSession>>,
    link: RoomState,
    pause: Duration,
}

#[derive(Debug)]
enum RoomState {
    /// There is no room, and no session needs one.
    Idle,
    Running {
        link: Arc<RoomLink>,
        since: Instant,
    },
    /// The room died. Its sessions' connections are refused until this time.
    Dead {
        until: Instant,
    },
}

impl UserRoom {
    pub(super) fn new(
        source: Arc<RoomSource>,
        approvals: Arc<ApprovalService>,
        counts: Arc<RoomCounts>,
    ) -> Self {
        let (sessions, link) = (BTreeMap::new(), RoomState::Idle);
        Self { source, approvals, counts, sessions, link, pause: FIRST_PAUSE }
    }

    /// Serves commands and the room's messages, until the daemon stops.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<RoomCommand>) {
        loop {
            let event = tokio::select! {
                command = commands.recv() => RoomEvent::Command(command),
                message = next(&self.link) => RoomEvent::Message(message),
                () = awaited(&self.link) => RoomEvent::Restart,
            };
            match event {
                RoomEvent::Command(None) => break,
                RoomEvent::Command(Some(RoomCommand::Open(session, done))) => {
                    // Whoever asked may be gone; then the session is closed next.
                    done.send(self.open(session).await).ok();
                }
                RoomEvent::Command(Some(RoomCommand::Close(number, done))) => {
                    self.close(number).await;
                    done.send(()).ok();
                }
                RoomEvent::Command(Some(RoomCommand::Fetch(number, fetch, request))) => {
                    let request = EgressRequest::Fetch { session: number, fetch, request };
                    if !self.tell_of(number, &request).await
                        && let Some(session) = self.sessions.get(&number)
                    {
                        session.fetches.forget(fetch);
                    }
                }
                RoomEvent::Command(Some(RoomCommand::EndFetch(number, fetch))) => {
                    self.tell_of(number, &EgressRequest::EndFetch { session: number, fetch }).await;
                }
                RoomEvent::Message(Ok(message)) => {
                    if let Err(error) = self.hear(message) {
                        self.died(&error);
                    }
                }
                RoomEvent::Message(Err(error)) => self.died(&error),
                RoomEvent::Restart => self.restart().await,
            }
        }
    }

    /// Serves a session, with a new room if there is none.
    async fn open(&mut self, session: Arc<NetworkSession>) -> Result<(), NetworkError> {
        let link = match &self.link {
            RoomState::Running { link, .. } => Arc::clone(link),
            RoomState::Idle | RoomState::Dead { .. } => match self.start().await {
                Ok(link) => link,
                Err(error) => {
                    self.refuse();
                    return Err(error);
                }
            },
        };
        if let Err(error) = tell(&link, &session).await {
            self.died(&error);
            return Err(error);
        }
        self.sessions.insert(session.number, session);
        Ok(())
    }

    /// Sends a request about a session that the room serves. Returns whether it did.
    async fn tell_of(&mut self, number: SessionNumber, request: &EgressRequest) -> bool {
        let RoomState::Running { link, .. } = &self.link else { return false };
        if !self.sessions.contains_key(&number) {
            return false;
        }
        match link.send(request, &[]).await {
            Ok(()) => true,
            Err(error) => {
                self.died(&error);
                false
            }
        }
    }

    /// Starts a room for all sessions.
    async fn start(&mut self) -> Result<Arc<RoomLink>, NetworkError> {
        let link = Arc::new(RoomLink::open(&self.source).await?);
        for session in self.sessions.values() {
            session.listeners.serve()?;
            tell(&link, session).await?;
        }
        self.counts.running.fetch_add(1, Ordering::Relaxed);
        self.link = RoomState::Running { link: Arc::clone(&link), since: Instant::now() };
        Ok(link)
    }

    /// Starts a room again for the sessions of one that died.
    async fn restart(&mut self) {
        if let Err(error) = self.start().await {
            tracing::error!(%error, "an egress room could not be started; connections are refused");
            self.refuse();
        }
    }

    /// Ends a session's connections; with the last session, the room.
    async fn close(&mut self, number: SessionNumber) {
        let Some(session) = self.sessions.remove(&number) else { return };
        if let RoomState::Running { link, .. } = &self.link {
            let told = link.send(&EgressRequest::Close { session: number }, &[]).await;
            if let Err(error) = told {
                self.died(&error);
            }
        }
        session.listeners.refuse();
        session.end(&self.approvals.telemetry, "the session ended");
        session.account(&self.approvals.telemetry);
        if self.sessions.is_empty() {
            self.stop();
        }
    }

    fn stop(&mut self) {
        if let RoomState::Running { link, .. } = std::mem::replace(&mut self.link, RoomState::Idle)
        {
            link.close();
            self.counts.running.fetch_sub(1, Ordering::Relaxed);
        }
        self.pause = FIRST_PAUSE;
    }

    /// Refuses all connections after the room has died, and has it started again if it is needed.
    fn died(&mut self, error: &NetworkError) {
        if let RoomState::Running { link, since } = &self.link {
            tracing::error!(%error, "an egress room is gone; connections are refused");
            link.close();
            if since.elapsed() >= HEALTHY {
                self.pause = FIRST_PAUSE;
            }
            self.counts.running.fetch_sub(1, Ordering::Relaxed);
            self.counts.died.fetch_add(1, Ordering::Relaxed);
        }
        self.refuse();
    }

    /// Refuses the connections of all sessions until the room is started again.
    fn refuse(&mut self) {
        for session in self.sessions.values() {
            session.listeners.refuse();
            session.end(&self.approvals.telemetry, ROOM_ENDED);
        }
        if self.sessions.is_empty() {
            self.link = RoomState::Idle;
            return;
        }
        self.link = RoomState::Dead { until: Instant::now() + self.pause };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Handles a message of the room. An error means that the room is broken.
    fn hear(&mut self, message: EgressReply) -> Result<(), NetworkError> {
        let number = match &message {
            EgressReply::Welcome { .. } => {
                return Err(NetworkError::Protocol("it greeted twice"));
            }
            EgressReply::Question { session, .. }
            | EgressReply::Withdrawn { session, .. }
            | EgressReply::Connected { session, .. }
            | EgressReply::Ended { session, .. }
            | EgressReply::Page { session, .. }
            | EgressReply::Fetched { session, .. }
            | EgressReply::Refused { session, .. } => *session,
        };
        // The last messages about a session may cross the request to close it.
        let Some(session) = self.sessions.get(&number) else { return Ok(()) };
        let telemetry = &self.approvals.telemetry;
        let end = |question: u64, result: ConnectionResult| {
            if let Some(record) = session.connections.end(&session.identity.id, question, result) {
                telemetry.metrics.ended_connection(&record);
                telemetry.audit.connection(&session.identity, record);
            }
        };
        match message {
            EgressReply::Welcome { .. } => {}
            EgressReply::Question { question, connection, target, asked, request, .. } => {
                let numbers = (question, connection);
                self.question(Arc::clone(session), numbers, target, (asked, request))?;
            }
            EgressReply::Withdrawn { question, .. } => {
                let failure = Some("the program did not wait for the answer".to_owned());
                let nothing = ConnectionResult { sent: 0, received: 0, server_name: None, failure };
                end(question, nothing);
            }
            EgressReply::Connected { question, address, .. } => {
                session.connections.connected(question, address)?;
            }
            EgressReply::Ended { question, result, .. } => end(question, result),
            EgressReply::Page { fetch, piece, .. } => session.fetches.add(fetch, &piece)?,
            EgressReply::Fetched { fetch, result, .. } => session.fetches.finish(fetch, result),
            EgressReply::Refused { target, reason, kind, .. } => {
                let calls = session.calls(telemetry);
                let calls = calls.into_iter().map(|call| call.call_id).collect();
                let refused = RefusedConnection { target, asked: None, calls, reason, kind };
                session.refuse(telemetry, refused);
            }
        }
        Ok(())
    }

    /// Decides about a question in a task of its own, and answers it.
    fn question(
        &self,
        session: Arc<NetworkSession>,
        (question, connection): (u64, u64),
        target: Target,
        (asked, request): (Asked, Option<WebRequest>),
    ) -> Result<(), NetworkError> {
        if matches!(asked, Asked::Request | Asked::Fetch) != request.is_some() {
            return Err(NetworkError::Protocol("it asks about a request without one"));
        }
        let RoomState::Running { link, .. } = &self.link else { return Ok(()) };
        let (approvals, link) = (Arc::clone(&self.approvals), Arc::clone(link));
        let running = session.calls(&approvals.telemetry);
        let calls: Vec<_> = running.iter().map(|call| call.call_id.clone()).collect();
        let cancel = session.connections.ask(question, target.clone(), asked, calls.clone())?;
        tokio::spawn(async move {
            let verdict = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                verdict = decide::decide(
                    &approvals, &session, (connection, &target), (asked, request.as_ref()), &running,
                ) => verdict,
            };
            let ConnectionVerdict { answer: verdict, grant, approver } = verdict;
            match (&verdict, asked) {
                (EgressVerdict::Allow { .. }, Asked::Lookup) => {
                    session.connections.answered(question);
                }
                (EgressVerdict::Allow { rule, .. }, _) => {
                    let approval = approver.map(|by| (connection, by));
                    if !session.connections.allow(question, rule, approval) {
                        return;
                    }
                }
                (EgressVerdict::Deny { reason }, _) => {
                    session.connections.answered(question);
                    let (target, reason) = (Some(target), reason.clone());
                    let (asked, kind) = (Some(asked), RefusalKind::Ordinary);
                    let refused = RefusedConnection { target, asked, calls, reason, kind };
                    session.refuse(&approvals.telemetry, refused);
                }
            }
            let answer = EgressRequest::Answer { session: session.number, question, verdict };
            if let Err(error) = link.send(&answer, &[]).await {
                tracing::debug!(%error, "an egress room did not take an answer");
                link.close();
            }
            let Some(grant) = grant else { return };
            // From here on, the token is cancelled when the connection has ended.
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = approvals.desk.ended(&grant) => {
                    let cut = EgressRequest::Cut { session: session.number, question };
                    if let Err(error) = link.send(&cut, &[]).await {
                        tracing::debug!(%error, "an egress room did not end a connection");
                        link.close();
                    }
                }
            }
        });
        Ok(())
    }
}

/// An event in the life of a room.
enum RoomEvent {
    Command(Option<RoomCommand>),
    Message(Result<EgressReply, NetworkError>),
    Restart,
}

/// Receives the room's next message; waits for ever if there is no room.
async fn next(state: &RoomState) -> Result<EgressReply, NetworkError> {
    match state {
        RoomState::Running { link, .. } => link.receive().await,
        RoomState::Idle | RoomState::Dead { .. } => std::future::pending().await,
    }
}

/// Waits until a room that died is to be started again.
async fn awaited(state: &RoomState) {
    match state {
        RoomState::Dead { until } => sleep_until(*until).await,
        RoomState::Idle | RoomState::Running { .. } => std::future::pending().await,
    }
}

/// Tells a room to serve a session.
async fn tell(link: &RoomLink, session: &NetworkSession) -> Result<(), NetworkError> {
    for CredentialFile { name, file } in session.credential_files() {
        let (session, name) = (session.number, name.clone());
        link.send(&EgressRequest::Credential { session, name }, &[file.as_fd()]).await?;
    }
    link.send(&session.open_request(), &session.listeners.sockets()).await
}
