//! The requests of operators. Runs in the broker.

use super::Connection;
use crate::{
    approval::poll::Answerer,
    base::roles::Role,
    stores::undo::UndoError,
    telemetry::{
        audit::search::{VisibleCalls, records_of},
        observers::Subscriber,
    },
};
use palisade_audit::Timestamp;
use palisade_protocol::{
    Answer, ApprovalRequest, CallId, ErrorCode, Forget, Forgotten, GrantId, Pending, RecordQuery,
    Register, Registered, Reply, ScopeQuery, SessionId, Subscribe, WireError, limits::MAX_FRAME,
};
use std::time::Duration;

/// The most bytes of approval requests in one reply; the others are shown once these are answered.
const PENDING: usize = MAX_FRAME / 2;

impl Connection {
    pub(super) fn register(&self, register: Register) -> Result<Reply, WireError> {
        let desk = &self.server.calls.approvals.desk;
        let (from, outbox) = (self.answerer(), self.outbox.clone());
        let own = match self.role {
            Role::Agent => Some(self.own_requests()?),
            Role::Operator | Role::Provider => None,
        };
        if let Some(wanted) = &register.session {
            let exists = match &own {
                Some(own) => own == wanted,
                None => self.server.host.session(wanted).is_some(),
            };
            if !exists {
                return Err(no_session(wanted));
            }
        }
        tracing::info!(uid = self.peer.uid, name = ?register.name, "an approver connected");
        let handler = match own {
            Some(own) => desk.attach_client(own, from, register, outbox)?,
            None => desk.attach(from, register, outbox)?,
        };
        Ok(Reply::Registered(Registered { handler }))
    }

    pub(super) fn answer(&self, answer: Answer) -> Result<Reply, WireError> {
        let (desk, from) = (&self.server.calls.approvals.desk, self.answerer());
        let answered = match self.role {
            Role::Agent => desk.answer_of_client(from, answer),
            Role::Operator | Role::Provider => desk.answer(from, answer),
        };
        answered.map(Reply::Answered)
    }

    pub(super) fn withdraw(&self) -> Result<Reply, WireError> {
        if self.role == Role::Agent {
            self.own_requests()?;
        }
        self.server.calls.approvals.desk.detach(self.number);
        Ok(Reply::Done)
    }

    /// The session whose approval requests its own client may answer, if the profile lets it.
    fn own_requests(&self) -> Result<SessionId, WireError> {
        let message = match &self.work.session {
            Some(session) if session.profile.handlers().agent_client() => {
                return Ok(session.id.clone());
            }
            Some(session) => format!(
                "profile {:?} does not let an agent's client answer approval requests",
                session.profile.name()
            ),
            None => "an agent's client can answer approval requests only of its session".to_owned(),
        };
        let hint = "connect to the operator socket, or set handlers.agent_client in the profile";
        Err(WireError::new(ErrorCode::Forbidden, message, hint))
    }

    const fn answerer(&self) -> Answerer {
        Answerer { connection: self.number, uid: self.peer.uid, pid: self.peer.pid }
    }

    /// Revokes a remembered approval. It is revoked even if that can not be recorded, which is then
    /// an error.
    pub(super) async fn revoke(&self, id: &GrantId) -> Result<Reply, WireError> {
        let grant = self.server.calls.approvals.desk.revoke(id)?;
        let by = format!("operator:{}", self.peer.uid);
        self.server.telemetry.audit.revoked(&grant, &by).await?;
        Ok(Reply::Done)
    }

    /// The waiting approval requests, oldest first, as many as fit into a reply.
    pub(super) fn pending(&self) -> Reply {
        let mut room = PENDING;
        let size = |request: &ApprovalRequest| {
            request.arguments.as_str().len()
                + request.output.as_ref().map_or(0, String::len)
                + request.view.diff.as_ref().map_or(0, String::len)
                + request.view.lines.iter().map(|line| line.text.len()).sum::<usize>()
        };
        let fits = |request: &ApprovalRequest| match room.checked_sub(size(request)) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        };
        let requests =
            self.server.calls.approvals.desk.pending().into_iter().take_while(fits).collect();
        Reply::Pending(Pending { requests })
    }

    /// Counts the earlier approval requests that scopes would have covered.
    pub(super) async fn scope_history(&self, query: ScopeQuery) -> Result<Reply, WireError> {
        let ScopeQuery { request, scopes } = query;
        let wanted = self.server.calls.approvals.desk.history_query(&request, scopes)?;
        let log = self.server.telemetry.audit.written()?;
        let place = self.server.log_searches.enter(self.peer.uid).await;
        let counted = tokio::task::spawn_blocking(move || {
            let _place = place;
            wanted.count(&log, Timestamp::now())
        });
        let failed = |why: String| WireError::new(ErrorCode::Internal, why, "see the daemon's log");
        let counted = counted.await.map_err(|error| failed(error.to_string()))?;
        counted.map(Reply::ScopeHistory).map_err(|error| failed(error.to_string()))
    }

    /// Reads the audit records of a call: an agent's user those of their own, an operator all.
    pub(super) async fn records(&self, query: RecordQuery) -> Result<Reply, WireError> {
        let visible = match self.role {
            Role::Agent | Role::Provider => VisibleCalls::Own(self.peer.uid),
            Role::Operator => VisibleCalls::All,
        };
        let log = self.server.telemetry.audit.written()?;
        let place = self.server.log_searches.enter(self.peer.uid).await;
        let found = tokio::task::spawn_blocking(move || {
            let _place = place;
            records_of(&log, query.prefix.as_ref(), visible)
        });
        let failed = |error: tokio::task::JoinError| {
            WireError::new(ErrorCode::Internal, error.to_string(), "see the daemon's log")
        };
        found.await.map_err(failed)?.map(Reply::Records)
    }

    /// Subscribes to events: an agent to sessions of its own user, an operator to all sessions.
    pub(super) fn subscribe(&self, subscribe: Subscribe) -> Result<Reply, WireError> {
        let session = match (self.role, subscribe.session) {
            (Role::Operator, None) => None,
            (Role::Operator, Some(id)) => Some(id),
            (Role::Agent | Role::Provider, None) => match &self.work.session {
                Some(session) => Some(session.id.clone()),
                None => {
                    let hint = "open a session first, or name one";
                    let code = ErrorCode::OutOfOrder;
                    return Err(WireError::new(code, "there is no session", hint));
                }
            },
            (Role::Agent | Role::Provider, Some(id)) => {
                let known = self.server.host.session(&id);
                let own = known.filter(|session| session.uid() == self.peer.uid);
                Some(own.ok_or_else(|| no_session(&id))?.id.clone())
            }
        };
        self.server.telemetry.observers.add(Subscriber {
            connection: self.number,
            role: self.role,
            session,
            outbox: self.outbox.clone(),
        });
        Ok(Reply::Done)
    }

    /// Ends a session: its approval requests are denied, its calls are killed.
    pub(super) async fn abort(&self, id: &SessionId) -> Result<Reply, WireError> {
        let session = self.server.host.session(id).ok_or_else(|| no_session(id))?;
        tracing::info!(uid = self.peer.uid, session = %id, "an operator ends a session");
        self.server.calls.approvals.desk.end_session(id);
        session.abort().await;
        Ok(Reply::Done)
    }

    /// Deletes stored outputs and undo records of calls, which is recorded first.
    pub(super) async fn forget(&self, forget: Forget) -> Result<Reply, WireError> {
        let by = format!("operator:{}", self.peer.uid);
        self.server.telemetry.audit.forgetting(&forget, &by).await?;
        let (spools, undos) = (self.server.spools.clone(), self.server.undos.clone());
        let age = Duration::from_millis(forget.older_than_ms);
        let work = move || -> Result<Forgotten, WireError> {
            let mut gone = Forgotten::default();
            if forget.spools {
                let (count, bytes) = spools.forget(forget.uid, age).map_err(UndoError::Io)?;
                gone = Forgotten { spools: count, bytes, ..gone };
            }
            if forget.undo {
                let (calls, bytes) = undos.release(forget.uid, age)?;
                gone = Forgotten { calls, bytes: gone.bytes + bytes, ..gone };
            }
            Ok(gone)
        };
        let gone = tokio::task::spawn_blocking(work).await;
        gone.map_err(|error| WireError::new(ErrorCode::Internal, error.to_string(), ""))?
            .map(Reply::Forgotten)
    }

    /// Ends a call: its processes are killed, and its agent gets the error that an operator did it.
    pub(super) fn kill(&self, call: &CallId) -> Result<Reply, WireError> {
        if self.server.telemetry.calls_in_progress.abort(call) {
            tracing::info!(uid = self.peer.uid, %call, "an operator ends a call");
            return Ok(Reply::Done);
        }
        let message = format!("no call {call} is under way");
        Err(WireError::new(ErrorCode::NotFound, message, "it has ended, or never existed"))
    }
}

fn no_session(id: &SessionId) -> WireError {
    WireError::new(ErrorCode::NotFound, format!("there is no session {id}"), "")
}
