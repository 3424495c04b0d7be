//! The waiting approval requests, the approvers that are asked, and how a request ends. Runs in the
//! broker.

use super::{
    desk::ApproverAccess,
    grants::{ApprovalKey, RememberedApprovals},
    poll::{Answerer, AskedApprover, Poll, PollState},
    prepared::{PreparedRequest, Stakes},
    verdict::{DecidedRequest, Verdict},
};
use crate::base::{outbox::Outbox, peer::ConnectionNumber};
use palisade_policy::Handlers;
use palisade_protocol::{
    ApprovalClosed, ApprovalGiven, ApprovalId, ApprovalRequest, DecidedBy, Event, HandlerId,
    Register, Remember, ServerMessage, SessionId,
};
use std::{collections::VecDeque, time::Duration};
use tokio::{sync::watch, time::Instant};

/// The number of finished approval requests remembered, to tell late answers from wrong ids.
const OVER: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct ApprovalsState {
    pub(super) access: ApproverAccess,
    pub(super) attached: Vec<ConnectedApprover>,
    pub(super) open: Vec<OpenRequest>,
    pub(super) over: VecDeque<ApprovalId>,
    pub(super) memory: RememberedApprovals,
    pub(super) count: u64,
}

/// A connected approver.
#[derive(Debug)]
pub(super) struct ConnectedApprover {
    pub(super) id: HandlerId,
    pub(super) from: Answerer,
    pub(super) class: ApproverClass,
    /// The approver in the outcome of what it decides.
    pub(super) by: DecidedBy,
    pub(super) register: Register,
    pub(super) outbox: Outbox,
    pub(super) heard: Instant,
}

/// The class of an approver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApproverClass {
    /// Connected to the operator socket.
    Operator,
    /// The client of an agent, for requests of this session only. It may approve by itself, so it is
    /// asked only where nothing can be lost, and never together with others for a quorum.
    AgentClient(SessionId),
}

/// An approval request that waits for its answer.
#[derive(Debug)]
pub(super) struct OpenRequest {
    pub(super) request: ApprovalRequest,
    pub(super) claim: ApprovalKey,
    pub(super) limits: Handlers,
    pub(super) poll: Poll,
    /// The approvals to remember if the request is approved, each with the name of the approver who
    /// wants it.
    pub(super) remember: Vec<(Remember, String)>,
    pub(super) stakes: Stakes,
    pub(super) grace: Instant,
    pub(super) limit: Instant,
    pub(super) outcome: watch::Sender<Option<DecidedRequest>>,
}

impl ConnectedApprover {
    /// Returns `true` if the approver may be asked, and wants such requests.
    pub(super) fn wants(
        &self,
        request: &ApprovalRequest,
        limits: &Handlers,
        stakes: Stakes,
    ) -> bool {
        let Register { tools, session, .. } = &self.register;
        let may_answer = match &self.class {
            ApproverClass::Operator => true,
            ApproverClass::AgentClient(session) => {
                request.asker.session == *session
                    && limits.agent_client()
                    && limits.quorum() == 1
                    && stakes == Stakes::NoLoss
            }
        };
        may_answer
            && self.register.reviews.contains(&request.review)
            && (tools.is_empty() || tools.contains(&request.tool))
            && session.as_ref().is_none_or(|session| *session == request.asker.session)
    }

    /// The time at which the approver counts as hung; `None` without a heartbeat.
    pub(super) fn hung_at(&self) -> Option<Instant> {
        self.register.heartbeat_ms.map(|ms| self.heard + Duration::from_millis(ms))
    }
}

impl OpenRequest {
    /// Asks an approver, if it wants such requests, has not approved this one already, has not hung,
    /// and its outbox takes the message.
    pub(super) fn offer(&mut self, attached: &ConnectedApprover, now: Instant) {
        let wants = attached.wants(&self.request, &self.limits, self.stakes);
        let has_voted =
            self.poll.has_approval_of(attached.from, &attached.by, attached.register.priority);
        if !wants || has_voted || attached.hung_at().is_some_and(|at| at <= now) {
            return;
        }
        let own = attached.register.deadline_ms.map(|ms| now + Duration::from_millis(ms));
        let until = own.map_or(self.limit, |own| own.min(self.limit));
        let event = Event::ApprovalRequest(Box::new(self.shown(until, now)));
        if attached.outbox.try_send(ServerMessage::Event(event).into()).is_ok() {
            self.poll.ask(AskedApprover {
                handler: attached.id.clone(),
                from: attached.from,
                by: attached.by.clone(),
                priority: attached.register.priority,
                until,
            });
            self.wake_waiters();
        }
    }

    /// Wakes the calls that wait for this request: who may still answer has changed, and so has the
    /// time to wait.
    pub(super) fn wake_waiters(&self) {
        self.outcome.send_modify(|_| {});
    }

    pub(super) fn shown(&self, until: Instant, now: Instant) -> ApprovalRequest {
        let left = until.saturating_duration_since(now).as_millis();
        let expires_in_ms = u64::try_from(left).unwrap_or(u64::MAX);
        let approved_by = self.poll.approved().map(DecidedBy::to_string).collect();
        ApprovalRequest { expires_in_ms, approved_by, ..self.request.clone() }
    }

    /// Adds to the reason of a denial which approvals were given, if the profile requires several.
    fn with_approvals(&self, reason: impl Into<String>) -> String {
        let (mut reason, quorum) = (reason.into(), self.limits.quorum());
        let approved: Vec<String> = self.poll.approved().map(DecidedBy::to_string).collect();
        if quorum > 1 && !approved.is_empty() {
            let (given, by) = (self.poll.given(), approved.join(", "));
            reason += &format!("; it had {given} of the {quorum} required approvals ({by})");
        }
        reason
    }

    /// Returns the denial of a request that can not be approved any more, with the approvals that it
    /// was given.
    pub(super) fn denial(&self, reason: impl Into<String>, guidance: impl Into<String>) -> Verdict {
        Verdict::default(self.with_approvals(reason), guidance)
    }

    /// The time at which the request is denied if nobody has answered.
    pub(super) fn expires(&self) -> Instant {
        self.poll.until().map_or(self.limit, |until| until.min(self.limit))
    }
}

impl ApprovalsState {
    /// Returns the open request that equals this one and is of the same session, if there is one.
    pub(super) fn same(&self, prepared: &PreparedRequest) -> Option<&OpenRequest> {
        self.open.iter().find(|open| {
            open.claim.session == prepared.claim.session
                && open.request.digest == prepared.request.digest
                && open.request.review == prepared.request.review
        })
    }

    pub(super) fn detach(&mut self, connection: ConnectionNumber, why: &str) {
        let gone = self.attached.extract_if(.., |attached| attached.from.connection == connection);
        let gone: Vec<HandlerId> = gone.map(|attached| attached.id).collect();
        gone.iter().for_each(|handler| self.leave(handler, why));
    }

    pub(super) fn leave(&mut self, handler: &HandlerId, why: &str) {
        let mut at = 0;
        while let Some(open) = self.open.get_mut(at) {
            match open.poll.leave(handler) {
                PollState::Lost(_) => {
                    let verdict = open.denial(why, self.access.hint());
                    self.finish(at, verdict);
                }
                PollState::Open | PollState::Carried(_) => {
                    open.wake_waiters();
                    at += 1;
                }
            }
        }
    }

    /// The time at which a request has to be checked next.
    pub(super) fn wake(&self, id: &ApprovalId) -> Option<Instant> {
        let open = self.open.iter().find(|open| open.request.id == *id)?;
        let settled = open.poll.can_carry();
        let grace = (!settled).then_some(open.grace.min(open.limit));
        let asked: Vec<&HandlerId> = open.poll.handlers().collect();
        let lapses = self.attached.iter().filter(|attached| asked.contains(&&attached.id));
        let next = lapses.filter_map(ConnectedApprover::hung_at).chain(grace).min();
        Some(next.map_or(open.expires(), |next| next.min(open.expires())))
    }

    /// The time at which a request is denied if nothing happens: also if no approver connects.
    pub(super) fn denied_at(&self, id: &ApprovalId) -> Option<Instant> {
        let open = self.open.iter().find(|open| open.request.id == *id)?;
        let expires = open.expires();
        Some(if open.poll.can_carry() { expires } else { expires.min(open.grace) })
    }

    /// The number of approvals that a request was given.
    pub(super) fn approvals(&self, id: &ApprovalId) -> Option<u64> {
        let open = self.open.iter().find(|open| open.request.id == *id)?;
        Some(open.poll.given())
    }

    /// Ends a request whose time is over, and drops approvers that have hung.
    pub(super) fn check_deadlines(&mut self, id: &ApprovalId, now: Instant) {
        let hung =
            self.attached.extract_if(.., |handler| handler.hung_at().is_some_and(|at| at <= now));
        let hung: Vec<HandlerId> = hung.map(|attached| attached.id).collect();
        hung.iter().for_each(|id| self.leave(id, "the approver stopped responding"));
        let Some(at) = self.open.iter().position(|open| open.request.id == *id) else {
            return;
        };
        let Some(open) = self.open.get(at) else { return };
        let verdict = if !open.poll.can_carry() && open.grace.min(open.limit) <= now {
            self.nobody(open)
        } else if open.expires() <= now {
            let guidance = match open.limits.quorum() {
                1 => "make the call again when an approver can answer".to_owned(),
                more => format!("make the call again when {more} approvers can answer"),
            };
            open.denial("no answer came in time", guidance)
        } else {
            return;
        };
        self.finish(at, verdict);
    }

    /// The denial of a request that the asked approvers could not carry.
    pub(super) fn nobody(&self, open: &OpenRequest) -> Verdict {
        if !open.poll.is_empty() {
            let reason = format!(
                "fewer approvers are connected than the {} that the profile requires",
                open.limits.quorum()
            );
            return open.denial(reason, self.access.hint());
        }
        let wants =
            |attached: &ConnectedApprover| attached.wants(&open.request, &open.limits, open.stakes);
        if self.attached.iter().any(wants) {
            return Verdict::default("no connected approver is ready", self.access.hint());
        }
        Verdict::default("no approver is connected", self.access.hint())
    }

    /// Tells the other approvers of a request, and the calls that wait for it, that one has approved.
    pub(super) fn tell_approved(&self, at: usize, by: &DecidedBy) {
        let Some(open) = self.open.get(at) else { return };
        let request = open.request.id.clone();
        let approved = ApprovalGiven { request, by: by.clone(), missing: open.poll.missing() };
        let asked: Vec<&HandlerId> = open.poll.waiting().collect();
        for attached in self.attached.iter().filter(|attached| asked.contains(&&attached.id)) {
            // An approver that does not read finds out by `pending`.
            let event = Event::ApprovalGiven(approved.clone());
            attached.outbox.try_send(ServerMessage::Event(event).into()).ok();
        }
        open.wake_waiters();
    }

    /// Ends a request, and tells its approvers and the calls that wait for it.
    pub(super) fn finish(&mut self, at: usize, verdict: Verdict) {
        let open = self.open.remove(at);
        let (outcome, by) = verdict.outcome();
        let over = ApprovalClosed { request: open.request.id.clone(), outcome, by: by.clone() };
        let asked: Vec<&HandlerId> = open.poll.handlers().collect();
        let voters = self.attached.iter().filter(|attached| asked.contains(&&attached.id));
        for attached in voters {
            // An approver that does not read finds out when it answers.
            let event = Event::ApprovalClosed(over.clone());
            attached.outbox.try_send(ServerMessage::Event(event).into()).ok();
        }
        self.over.push_back(over.request);
        if self.over.len() > OVER {
            self.over.pop_front();
        }
        let approvals = open.poll.approved().cloned().collect();
        open.outcome.send_replace(Some(DecidedRequest { verdict, approvals }));
    }
}
