//! The desk where approval requests wait for their answers: connected approvers, open requests,
//! remembered approvals. Anything but a clear approval ends in a denial with its own reason. Runs
//! in the broker.

use super::{
    coverage::ComparedRequest,
    grants::{ApprovalKey, RememberedApproval},
    history::HistoryQuery,
    open::{ApprovalsState, ApproverClass, ConnectedApprover, OpenRequest},
    poll::{Answerer, Poll},
    prepared::PreparedRequest,
    verdict::{DecidedRequest, Verdict},
};
use crate::{
    base::{outbox::Outbox, peer::ConnectionNumber},
    telemetry::audit::docket::review_word,
};
use palisade_protocol::{
    ApprovalId, ApprovalRequest, DecidedBy, ErrorCode, Grant, GrantId, HandlerId, NameError,
    Register, Scope, SessionId, WireError,
};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};

/// The way in which approvers reach this daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ApproverAccess {
    /// By the operator socket.
    #[default]
    Socket,
    /// Only by the client that started this private daemon.
    PrivateClient,
}

impl ApproverAccess {
    /// The hint where nobody could answer.
    pub(super) const fn hint(self) -> &'static str {
        match self {
            Self::Socket => "connect an approver with `palisade approve`",
            Self::PrivateClient => {
                "`palisade approve` can not reach this private daemon: `palisade run` at a terminal \
                 asks there, a program can give its session an approver, a running palisaded takes \
                 approvers, and the profile `autonomous` keeps losses for undo instead of asking"
            }
        }
    }
}

/// The connected approvers, the open approval requests and the remembered approvals.
#[derive(Debug, Default)]
pub(crate) struct Approvals {
    state: Mutex<ApprovalsState>,
    /// Notified when a remembered approval is gone before its time.
    fewer: Notify,
}

impl Approvals {
    /// Creates a desk without approvers and requests.
    pub(crate) fn new(access: ApproverAccess) -> Self {
        let state = ApprovalsState { access, ..ApprovalsState::default() };
        Self { state: Mutex::new(state), ..Self::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ApprovalsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects an approver, or changes its registration. It is sent the requests that are waiting
    /// already.
    pub(crate) fn attach(
        &self,
        from: Answerer,
        register: Register,
        outbox: Outbox,
    ) -> Result<HandlerId, WireError> {
        self.attach_as(ApproverClass::Operator, from, register, outbox)
    }

    /// Connects the client of an agent as an approver for requests of its own session.
    pub(crate) fn attach_client(
        &self,
        session: SessionId,
        from: Answerer,
        register: Register,
        outbox: Outbox,
    ) -> Result<HandlerId, WireError> {
        self.attach_as(ApproverClass::AgentClient(session), from, register, outbox)
    }

    fn attach_as(
        &self,
        class: ApproverClass,
        from: Answerer,
        register: Register,
        outbox: Outbox,
    ) -> Result<HandlerId, WireError> {
        let by = match &class {
            ApproverClass::Operator => DecidedBy::Approver(register.name.clone()),
            ApproverClass::AgentClient(_) => DecidedBy::AgentClient(register.name.clone()),
        };
        let register = ranked(&class, register)?;
        let mut state = self.state();
        state.detach(from.connection, "the approver changed its registration");
        state.count += 1;
        let id = HandlerId::try_from(format!("h-{}", state.count))
            .map_err(|error| WireError::new(ErrorCode::Internal, error.to_string(), ""))?;
        let heard = Instant::now();
        let attached =
            ConnectedApprover { id: id.clone(), from, class, by, register, outbox, heard };
        for open in &mut state.open {
            open.offer(&attached, heard);
        }
        state.attached.push(attached);
        Ok(id)
    }

    /// Removes an approver that has disconnected, for whatever reason.
    pub(crate) fn detach(&self, connection: ConnectionNumber) {
        self.state().detach(connection, "the approver disconnected before it answered");
    }

    /// Notes that a connection sent a message, as a sign of life of its approver.
    pub(crate) fn heard(&self, connection: ConnectionNumber) {
        let mut state = self.state();
        let mut attached = state.attached.iter_mut();
        if let Some(attached) = attached.find(|attached| attached.from.connection == connection) {
            attached.heard = Instant::now();
        }
    }

    /// The waiting approval requests, oldest first.
    pub(crate) fn pending(&self) -> Vec<ApprovalRequest> {
        let now = Instant::now();
        self.state().open.iter().map(|open| open.shown(open.expires(), now)).collect()
    }

    /// A waiting request and scopes for it, to be compared with earlier requests.
    pub(crate) fn history_query(
        &self,
        request: &ApprovalId,
        scopes: Vec<Scope>,
    ) -> Result<HistoryQuery, WireError> {
        let state = self.state();
        let open = state.open.get(state.find(request)?).ok_or_else(|| {
            WireError::new(ErrorCode::NotFound, "the approval request has ended", "")
        })?;
        let (id, compared) = (request.to_string(), ComparedRequest::of(&open.claim));
        Ok(HistoryQuery { id, review: review_word(open.request.review), compared, scopes })
    }

    /// The remembered approvals.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        self.state().memory.list(Instant::now())
    }

    /// Revokes a remembered approval and returns it.
    pub(crate) fn revoke(&self, id: &GrantId) -> Result<Grant, WireError> {
        let revoked = self.state().memory.revoke(id);
        self.fewer.notify_waiters();
        revoked
    }

    /// Returns when a remembered approval has expired, was revoked, or was dropped.
    pub(crate) async fn ended(&self, id: &GrantId) {
        loop {
            let mut fewer = std::pin::pin!(self.fewer.notified());
            fewer.as_mut().enable();
            let lifetime = self.state().memory.lifetime(id);
            match lifetime {
                None => return,
                Some(None) => fewer.await,
                Some(Some(until)) if until <= Instant::now() => return,
                Some(Some(until)) => tokio::select! {
                    () = fewer => {}
                    () = sleep_until(until) => {}
                },
            }
        }
    }

    /// Returns `true` if an approval is remembered already.
    pub(crate) fn holds(&self, kept: &RememberedApproval) -> bool {
        self.state().memory.holds(kept)
    }

    /// Remembers an approval that is recorded in the audit log.
    pub(crate) fn keep(&self, kept: RememberedApproval) {
        self.state().memory.keep(kept, Instant::now());
        // The oldest is dropped if there are too many.
        self.fewer.notify_waiters();
    }

    /// The remembered approval that would cover a call; its use is not counted.
    pub(crate) fn covering(&self, claim: &ApprovalKey) -> Option<GrantId> {
        self.state().memory.covering(claim)
    }

    /// The remembered approval that covers a call, and who gave it; its use is counted.
    pub(crate) fn remembered(&self, claim: &ApprovalKey) -> Option<(GrantId, String)> {
        self.state().memory.find(claim, Instant::now())
    }

    /// Drops the approvals that were remembered for a session that has ended, and denies its
    /// waiting requests.
    pub(crate) fn end_session(&self, session: &SessionId) {
        let mut state = self.state();
        state.memory.end_session(session);
        while let Some(at) = state.open.iter().position(|open| open.claim.session == *session) {
            state.finish(at, Verdict::default("the session has ended", ""));
        }
    }

    /// Gives an approval request its id, or that of the same request if it is waiting already.
    /// Returns the names of the approvers that will be asked.
    pub(crate) fn announce(
        &self,
        prepared: &mut PreparedRequest,
    ) -> Result<Vec<String>, WireError> {
        let state = self.state();
        if let Some(open) = state.same(prepared) {
            prepared.request.id = open.request.id.clone();
        } else {
            let id = format!("q-{}", uuid::Uuid::now_v7());
            prepared.request.id = id.try_into().map_err(|error: NameError| {
                WireError::new(ErrorCode::Internal, error.to_string(), "")
            })?;
        }
        let wants = |attached: &&ConnectedApprover| {
            attached.wants(&prepared.request, &prepared.limits, prepared.stakes)
        };
        let asked = state.attached.iter().filter(wants);
        Ok(asked.map(|attached| attached.register.name.clone()).collect())
    }

    /// Sends an announced approval request and waits until it is decided.
    pub(crate) async fn ask(&self, prepared: PreparedRequest) -> DecidedRequest {
        self.ask_telling(prepared, |_, _| {}).await
    }

    /// Does the same as [`ask`](Self::ask). Tells the time after which the request is denied as
    /// things are and the number of approvals that were given, first and whenever one has changed.
    pub(crate) async fn ask_telling(
        &self,
        prepared: PreparedRequest,
        mut tell: impl FnMut(Duration, u64),
    ) -> DecidedRequest {
        let (id, mut outcome) = match self.put(prepared) {
            Ok(waiting) => waiting,
            Err(verdict) => return verdict.into(),
        };
        let _leaving = WaitGuard { desk: self, id: id.clone() };
        let mut told = None;
        loop {
            if let Some(decided) = outcome.borrow().clone() {
                return decided;
            }
            let wakes = {
                let state = self.state();
                state.wake(&id).zip(state.denied_at(&id)).zip(state.approvals(&id))
            };
            let Some(((wake, denied_at), approvals)) = wakes else {
                return Verdict::default("the approval request was lost", "").into();
            };
            let left = denied_at.saturating_duration_since(Instant::now());
            let news = (denied_at, approvals);
            if !left.is_zero() && told.replace(news) != Some(news) {
                tell(left, approvals);
            }
            tokio::select! {
                changed = outcome.changed() => if changed.is_err() {
                    return Verdict::default("the approval request was lost", "").into();
                },
                () = sleep_until(wake) => self.state().check_deadlines(&id, Instant::now()),
            }
        }
    }

    fn put(
        &self,
        prepared: PreparedRequest,
    ) -> Result<(ApprovalId, watch::Receiver<Option<DecidedRequest>>), Verdict> {
        let mut state = self.state();
        if let Some(open) = state.same(&prepared) {
            return Ok((open.request.id.clone(), open.outcome.subscribe()));
        }
        let time = prepared.time();
        let PreparedRequest { request, claim, limits, stakes, .. } = prepared;
        if state.over.contains(&request.id) {
            return Err(Verdict::default(
                "the same approval request was decided in the meantime",
                "make the call again",
            ));
        }
        let of_session = |open: &&OpenRequest| open.claim.session == claim.session;
        let waiting = state.open.iter().filter(of_session).count() as u64;
        if waiting >= limits.max_pending() {
            return Err(Verdict::default(
                format!("{waiting} approval requests of this session are already waiting"),
                "wait for an answer before making more calls; the profile's handlers.max_pending \
                 is the limit",
            ));
        }
        let (id, now) = (request.id.clone(), Instant::now());
        let limit = now + time;
        let grace = now + Duration::from_millis(limits.grace_ms());
        let (outcome, receiver) = watch::channel(None);
        let poll = Poll::new(limits.quorum());
        let remember = Vec::new();
        let mut open =
            OpenRequest { request, claim, limits, poll, remember, stakes, grace, limit, outcome };
        for attached in &state.attached {
            open.offer(attached, now);
        }
        state.open.push(open);
        Ok((id, receiver))
    }
}

/// Gives a registration the name and priority of its class: every operator is above an agent's
/// client, and has no name of that class.
fn ranked(class: &ApproverClass, register: Register) -> Result<Register, WireError> {
    let Register { name, priority, .. } = &register;
    match class {
        ApproverClass::Operator if name.starts_with(DecidedBy::AGENT_CLIENT) => {
            let message = format!("the name {name:?} is that of an agent's client");
            Err(WireError::new(ErrorCode::InvalidRequest, message, "choose another name"))
        }
        ApproverClass::Operator => {
            let priority = (*priority).max(i32::MIN + 1);
            Ok(Register { priority, ..register })
        }
        ApproverClass::AgentClient(_) => {
            let name = format!("{}{name}", DecidedBy::AGENT_CLIENT);
            Ok(Register { name, priority: i32::MIN, ..register })
        }
    }
}

/// A call that stops waiting when this is dropped; with the last one the approval request ends.
struct WaitGuard<'a> {
    desk: &'a Approvals,
    id: ApprovalId,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.desk.state();
        // The receiver of the call that stops waiting is still counted here.
        let alone =
            |open: &OpenRequest| open.request.id == self.id && open.outcome.receiver_count() <= 1;
        if let Some(at) = state.open.iter().position(alone) {
            state.finish(at, Verdict::default("the call was cancelled", ""));
        }
    }
}

#[cfg(test)]
mod tests;
