//! Decides about one connection or lookup of a session: the profile first, then approvers. One
//! approval request stands for all sockets that wait for the same host and port, and for all requests
//! on one connection of a program. Runs in the broker.

use super::session::NetworkSession;
use crate::approval::{
    connection::{self, ConnectionDecision, ConnectionReview},
    service::ApprovalService,
};
use palisade_egress_protocol::{
    Asked, EgressVerdict, Tunnel, WebRequest,
    host::{Host, Target},
};
use palisade_policy::EgressDecision;
use palisade_protocol::{CallOverview, DecidedBy, GrantId};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Most approval requests of a session within [`PERIOD`]. A program must not be able to wear
/// approvers down.
const MOST_REQUESTS: usize = 30;

/// The period in which approval requests are counted.
const PERIOD: Duration = Duration::from_secs(60);

/// The time for which an approver's denial of a host also denies further attempts.
const DENIAL_HOLDS: Duration = Duration::from_secs(60);

/// Most denials that are remembered.
const MOST_DENIALS: usize = 256;

/// The answer to the room, and the approval that allows the connection, if one does.
#[derive(Debug)]
pub(super) struct ConnectionVerdict {
    pub(super) answer: EgressVerdict,
    pub(super) grant: Option<GrantId>,
    /// The approver whose approval is not remembered: it holds for the program's connection.
    pub(super) approver: Option<DecidedBy>,
}

impl From<EgressVerdict> for ConnectionVerdict {
    fn from(answer: EgressVerdict) -> Self {
        Self { answer, grant: None, approver: None }
    }
}

/// The approval requests of a session about connections.
#[derive(Debug, Default)]
pub(super) struct Asking(Mutex<AskingState>);

#[derive(Debug, Default)]
struct AskingState {
    open: BTreeMap<Target, Weak<SharedRequest>>,
    /// Hosts that an approver denied, until when, and the reason.
    denied: BTreeMap<Target, (Instant, String)>,
    /// The times of the last approval requests.
    asked: VecDeque<Instant>,
}

/// An approval request that several sockets may wait for. When the last of them is gone, it is
/// withdrawn.
#[derive(Debug)]
struct SharedRequest {
    outcome: watch::Receiver<Option<ConnectionDecision>>,
    _withdraw: DropGuard,
}

impl Asking {
    fn state(&self) -> MutexGuard<'_, AskingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AskingState {
    /// Returns why nobody is asked about a host now, if so; otherwise counts the request.
    fn admit(&mut self, target: &Target, now: Instant) -> Result<(), String> {
        self.denied.retain(|_, (until, _)| now < *until);
        if let Some((_, reason)) = self.denied.get(target) {
            return Err(format!("{reason}; the approver is not asked again within a minute"));
        }
        while self.asked.front().is_some_and(|asked| now >= *asked + PERIOD) {
            self.asked.pop_front();
        }
        if self.asked.len() >= MOST_REQUESTS {
            return Err(format!(
                "approvers were asked about {MOST_REQUESTS} connections of this session within a \
                 minute; try again later, or add the host to net.allow"
            ));
        }
        self.asked.push_back(now);
        Ok(())
    }

    /// Remembers the denial of an approver.
    fn deny(&mut self, target: Target, reason: String, now: Instant) {
        if self.denied.len() < MOST_DENIALS {
            self.denied.insert(target, (now + DENIAL_HOLDS, reason));
        }
    }
}

/// Decides about a connection or lookup. `number` is that of the program's connection.
pub(super) async fn decide(
    approvals: &Arc<ApprovalService>,
    session: &Arc<NetworkSession>,
    (number, target): (u64, &Target),
    (asked, request): (Asked, Option<&WebRequest>),
    calls: &[CallOverview],
) -> ConnectionVerdict {
    if let Some(why) = approvals.telemetry.audit.fault() {
        let reason = format!("connections are refused while they can not be recorded: {why}");
        return EgressVerdict::Deny { reason }.into();
    }
    let decision = match (asked, request, &target.host) {
        (Asked::Lookup, _, Host::Name(name)) => session.policy.lookup(name),
        (Asked::Published, _, _) => session.policy.decide_inward(target.port),
        (Asked::Fetch, Some(request), _) => session.policy.decide_fetch(target, request),
        (_, Some(request), _) => session.policy.decide_request(target, request),
        (_, None, _) => session.policy.decide(target),
    };
    let verdict = match decision {
        EgressDecision::Allow { rule, tunnel } => EgressVerdict::Allow { rule, tunnel }.into(),
        EgressDecision::Deny { reason } => EgressVerdict::Deny { reason }.into(),
        EgressDecision::Ask { tunnel } => {
            consult(approvals, session, (number, target), calls, tunnel).await
        }
    };
    if let EgressVerdict::Allow { .. } = verdict.answer {
        session.note_used(target, asked);
    }
    verdict
}

/// Asks approvers, or waits for the answer to the same request. An approval that is not remembered
/// holds for the connection of the program.
async fn consult(
    approvals: &Arc<ApprovalService>,
    session: &Arc<NetworkSession>,
    (number, target): (u64, &Target),
    calls: &[CallOverview],
    tunnel: Tunnel,
) -> ConnectionVerdict {
    if let Some(by) = session.connections.approver(number, target) {
        let rule = format!("approved by {by}, for this connection");
        return EgressVerdict::Allow { rule, tunnel }.into();
    }
    let shared = match join(approvals, session, target, calls) {
        Ok(shared) => shared,
        Err(reason) => return EgressVerdict::Deny { reason }.into(),
    };
    let mut outcome = shared.outcome.clone();
    let decision = match outcome.wait_for(Option::is_some).await {
        Ok(decision) => decision.clone(),
        Err(_) => None,
    };
    match decision {
        Some(ConnectionDecision::Approved { by, grant }) => {
            let answer = EgressVerdict::Allow { rule: format!("approved by {by}"), tunnel };
            let approver = grant.is_none().then_some(by);
            ConnectionVerdict { answer, grant, approver }
        }
        Some(ConnectionDecision::Denied { by, reason, guidance }) => {
            EgressVerdict::Deny { reason: denied(target, &by, &reason, &guidance) }.into()
        }
        None => EgressVerdict::Deny { reason: "the approval request was lost".to_owned() }.into(),
    }
}

fn denied(target: &Target, by: &DecidedBy, reason: &str, guidance: &str) -> String {
    let mut text = match by.approver() {
        Some(name) => format!("{name} denied the connection to {target}: {reason}"),
        None => format!("the connection to {target} needs approval, and {reason}"),
    };
    if !guidance.is_empty() {
        text.push_str("; ");
        text.push_str(guidance);
    }
    text
}

/// Returns the approval request about a host, which is sent if none waits already.
fn join(
    approvals: &Arc<ApprovalService>,
    session: &Arc<NetworkSession>,
    target: &Target,
    calls: &[CallOverview],
) -> Result<Arc<SharedRequest>, String> {
    let mut state = session.asking.state();
    state.open.retain(|_, open| open.strong_count() > 0);
    if let Some(shared) = state.open.get(target).and_then(Weak::upgrade) {
        return Ok(shared);
    }
    let review = ConnectionReview { session: &session.identity, cwd: &session.cwd, target, calls };
    if !connection::is_remembered(approvals, &review) {
        state.admit(target, Instant::now())?;
    }
    let (sender, outcome) = watch::channel(None);
    let withdrawn = CancellationToken::new();
    let shared = Arc::new(SharedRequest { outcome, _withdraw: withdrawn.clone().drop_guard() });
    state.open.insert(target.clone(), Arc::downgrade(&shared));
    let (approvals, session) = (Arc::clone(approvals), Arc::clone(session));
    let (target, calls) = (target.clone(), calls.to_vec());
    tokio::spawn(async move {
        let review = ConnectionReview {
            session: &session.identity,
            cwd: &session.cwd,
            target: &target,
            calls: &calls,
        };
        let decision = tokio::select! {
            biased;
            decision = connection::ask(&approvals, review) => decision,
            () = withdrawn.cancelled() => return,
        };
        let mut state = session.asking.state();
        state.open.remove(&target);
        if let ConnectionDecision::Denied { by, reason, guidance } = &decision
            && by.approver().is_some()
        {
            let reason = denied(&target, by, reason, guidance);
            state.deny(target, reason, Instant::now());
        }
        drop(state);
        sender.send_replace(Some(decision));
    });
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_egress_protocol::host::HostName;

    fn target(number: usize) -> Target {
        let name = HostName::new(format!("n{number}.example")).unwrap();
        Target { host: Host::Name(name), port: 443 }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_limited_in_time_and_a_denial_holds_for_a_while() {
        let (mut state, start) = (AskingState::default(), Instant::now());
        for number in 0..MOST_REQUESTS {
            assert_eq!(state.admit(&target(number), start), Ok(()));
        }
        let refused = state.admit(&target(99), start).unwrap_err();
        assert!(refused.contains("30 connections"), "{refused}");
        let later = start + PERIOD;
        assert_eq!(state.admit(&target(99), later), Ok(()));
        state.deny(target(99), "alice denied it".to_owned(), later);
        let refused = state.admit(&target(99), later).unwrap_err();
        assert!(refused.starts_with("alice denied it; "), "{refused}");
        assert_eq!(state.admit(&target(98), later), Ok(()), "another host");
        assert_eq!(state.admit(&target(99), later + DENIAL_HOLDS), Ok(()));
    }
}
