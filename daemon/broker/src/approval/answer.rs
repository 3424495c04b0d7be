//! Takes an answer of an approver. It must be to an open approval request, for its digest, the
//! first, in time and of the right kind; otherwise it is refused. Runs in the broker.

use super::{
    desk::Approvals,
    grants::{RememberedApproval, RememberedApprovals},
    open::{ApprovalsState, ApproverClass, ConnectedApprover, OpenRequest},
    poll::{Answerer, AskedApprover, PollState},
    verdict::Verdict,
};
use crate::base::path_set::PathSet;
use palisade_protocol::{
    Answer, Answered, ApprovalId, DecidedBy, Decision, Deny, ErrorCode, FileChange, HandlerId,
    Modified, Part, Remember, Replace, Review, WireError, Withhold,
};
use std::sync::MutexGuard;
use tokio::time::Instant;

/// The vote that an answer stands for.
enum Vote {
    Yes,
    Instead(Verdict),
    No { reason: String, guidance: String },
}

/// The approver whose answer is taken.
struct Voter {
    handler: HandlerId,
    name: String,
    by: DecidedBy,
    registration: Registration,
}

/// The two kinds of voters. An operator may answer a request without being asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Registration {
    /// Registered as an approver on this connection.
    Registered,
    /// An operator that is not.
    Unregistered,
}

fn stale(message: &str) -> WireError {
    WireError::new(
        ErrorCode::StaleApproval,
        message,
        "answer only approval requests that `pending` lists",
    )
}

impl Approvals {
    /// Takes an answer of an operator, registered or not. The decision counts even if the answer may
    /// not be remembered; the error then says both.
    pub(crate) fn answer(&self, from: Answerer, answer: Answer) -> Result<Answered, WireError> {
        Self::take(self.state(), from, answer)
    }

    /// Takes an answer of an agent's client, which must be registered as one. It is yes or no, and
    /// not remembered.
    pub(crate) fn answer_of_client(
        &self,
        from: Answerer,
        answer: Answer,
    ) -> Result<Answered, WireError> {
        let state = self.state();
        let is_client = |attached: &ConnectedApprover| {
            attached.from.connection == from.connection
                && matches!(attached.class, ApproverClass::AgentClient(_))
        };
        if !state.attached.iter().any(is_client) {
            return Err(WireError::new(
                ErrorCode::Forbidden,
                "this connection is not registered as an approver",
                "register first",
            ));
        }
        let is_plain = matches!(answer.decision, Decision::Approve | Decision::Deny(_));
        if !is_plain || answer.remember.is_some() {
            return Err(WireError::new(
                ErrorCode::Forbidden,
                "an agent's client can only approve or deny, and its answer is not remembered",
                "leave out `remember` and changed arguments",
            ));
        }
        Self::take(state, from, answer)
    }

    fn take(
        mut state: MutexGuard<'_, ApprovalsState>,
        from: Answerer,
        answer: Answer,
    ) -> Result<Answered, WireError> {
        let at = state.find(&answer.request)?;
        let voter = state.voter(from)?;
        state.fits(at, &voter.handler, &answer)?;
        let asked = state.take_vote(at, from, &voter)?;
        let (remember, refused) = state.rememberable(at, &answer);
        let answered = state.count(at, asked, answer.decision, remember, voter)?;
        refused.map_or(Ok(answered), Err)
    }
}

impl ApprovalsState {
    /// Counts a vote. Returns the id of the remembered approval that will result from it, and how
    /// many more approvals are needed.
    fn count(
        &mut self,
        at: usize,
        asked: AskedApprover,
        decision: Decision,
        remember: Option<Remember>,
        Voter { name, by, .. }: Voter,
    ) -> Result<Answered, WireError> {
        let Some(open) = self.open.get_mut(at) else {
            return Err(stale("the approval request has ended"));
        };
        let verdict = match vote(decision, &by) {
            Vote::No { reason, guidance } => Verdict::Denied { by, reason, guidance },
            vote @ (Vote::Yes | Vote::Instead(_)) => {
                open.remember.extend(remember.map(|remember| (remember, name)));
                match (open.poll.approve(asked), vote) {
                    (PollState::Open, _) => {
                        let missing = open.poll.missing();
                        self.tell_approved(at, &by);
                        return Ok(Answered { grant: None, missing });
                    }
                    (PollState::Lost(why), _) => open.denial(why, ""),
                    (PollState::Carried(_), Vote::Instead(verdict)) => verdict,
                    (PollState::Carried(by), Vote::Yes | Vote::No { .. }) => {
                        let kept = self.prepare(at)?;
                        Verdict::Approved { by, kept }
                    }
                }
            }
        };
        let grant = match &verdict {
            Verdict::Approved { kept, .. } => kept.last().map(RememberedApproval::id),
            Verdict::Modified { .. }
            | Verdict::Replaced { .. }
            | Verdict::Part { .. }
            | Verdict::Denied { .. } => None,
        };
        self.finish(at, verdict);
        Ok(Answered { grant, missing: 0 })
    }
}

fn vote(decision: Decision, by: &DecidedBy) -> Vote {
    let by = by.clone();
    match decision {
        Decision::Approve | Decision::Pass => Vote::Yes,
        Decision::ApproveModified(Modified { arguments }) => {
            Vote::Instead(Verdict::Modified { by, arguments })
        }
        Decision::Replace(Replace { output, data }) => {
            Vote::Instead(Verdict::Replaced { by, output, data })
        }
        Decision::ApprovePart(part) => Vote::Instead(Verdict::Part { by, part }),
        Decision::Deny(Deny { reason, guidance }) => Vote::No { reason, guidance },
        Decision::Withhold(Withhold { reason }) => Vote::No { reason, guidance: String::new() },
    }
}

const fn is_for(review: Review, decision: &Decision) -> bool {
    match decision {
        Decision::Approve | Decision::Deny(_) => {
            matches!(review, Review::Input | Review::Effects)
        }
        Decision::ApproveModified(_) => matches!(review, Review::Input),
        Decision::ApprovePart(_) => matches!(review, Review::Effects),
        Decision::Pass | Decision::Replace(_) | Decision::Withhold(_) => {
            matches!(review, Review::Output)
        }
    }
}

/// Checks that every path that is to be left out was in the change set that was shown.
fn known(part: &Part, changes: &[FileChange]) -> Result<(), WireError> {
    let paths = changes.iter().flat_map(|change| change.from.iter().chain([&change.path]));
    let shown: PathSet<'_> = paths.map(|path| path.0.as_slice()).collect();
    match part.without.iter().find(|path| !shown.has(&path.0)) {
        None => Ok(()),
        Some(path) => Err(WireError::new(
            ErrorCode::InvalidRequest,
            format!("{:?} is not in the change set", String::from_utf8_lossy(&path.0)),
            "give paths as listed in `view.changes`",
        )),
    }
}

impl ApprovalsState {
    pub(super) fn find(&self, id: &ApprovalId) -> Result<usize, WireError> {
        if let Some(at) = self.open.iter().position(|open| open.request.id == *id) {
            return Ok(at);
        }
        if self.over.contains(id) {
            return Err(stale(
                "the approval request has ended: it was answered, denied or withdrawn",
            ));
        }
        let hint = "`pending` lists the waiting approval requests";
        Err(WireError::new(ErrorCode::NotFound, format!("there is no approval request {id}"), hint))
    }

    /// Returns the voter: the approver of the connection, or an operator who is not registered as
    /// one.
    fn voter(&self, from: Answerer) -> Result<Voter, WireError> {
        let mut attached = self.attached.iter();
        if let Some(handler) = attached.find(|handler| handler.from.connection == from.connection) {
            return Ok(Voter {
                handler: handler.id.clone(),
                name: handler.register.name.clone(),
                by: handler.by.clone(),
                registration: Registration::Registered,
            });
        }
        let handler = HandlerId::try_from(format!("operator-{}", from.connection))
            .map_err(|error| WireError::new(ErrorCode::Internal, error.to_string(), ""))?;
        let name = format!("operator:{}", from.uid);
        let by = DecidedBy::Approver(name.clone());
        Ok(Voter { handler, name, by, registration: Registration::Unregistered })
    }

    /// Refuses an answer that does not fit the approval request. If the approver had been asked,
    /// the request is then denied: an approver that answers nonsense is not to be relied on.
    fn fits(&mut self, at: usize, handler: &HandlerId, answer: &Answer) -> Result<(), WireError> {
        let Some(open) = self.open.get(at) else {
            return Err(stale("the approval request has ended"));
        };
        let problem = if open.request.digest != answer.digest {
            Some((
                stale("the answer's digest does not match the approval request"),
                "the answer did not match the approval request",
            ))
        } else if !is_for(open.request.review, &answer.decision) {
            let hint = "approve or deny input and effects reviews; pass or withhold output reviews";
            let message = "the decision does not fit this kind of review";
            let error = WireError::new(ErrorCode::InvalidRequest, message, hint);
            Some((error, "the answer did not fit the kind of review"))
        } else {
            None
        };
        if let Some((error, reason)) = problem {
            let was_asked = open.poll.handlers().any(|asked| asked == handler);
            if was_asked {
                self.finish(at, Verdict::default(reason, "make the call again"));
            }
            return Err(error);
        }
        if let Decision::ApprovePart(part) = &answer.decision {
            known(part, &open.request.view.changes)?;
        }
        let changes = matches!(
            answer.decision,
            Decision::ApproveModified(_) | Decision::Replace(_) | Decision::ApprovePart(_)
        );
        if changes && (open.limits.quorum() > 1 || !open.poll.decides(handler)) {
            return Err(WireError::new(
                ErrorCode::InvalidRequest,
                "only an approver who decides alone may approve with changes",
                "deny, and use `guidance` to say what to do instead",
            ));
        }
        Ok(())
    }

    /// Returns what of an answer may be remembered, and the error where it may not.
    fn rememberable(&self, at: usize, answer: &Answer) -> (Option<Remember>, Option<WireError>) {
        let Some(remember) = answer.remember.clone() else { return (None, None) };
        let checked = match (self.open.get(at), &answer.decision) {
            (Some(open), Decision::Approve) => {
                RememberedApprovals::check(&open.claim, &remember, &open.limits)
            }
            (Some(_) | None, _) => Err(WireError::new(
                ErrorCode::Denied,
                "not remembered: only a plain approval can be",
                "leave out `remember`",
            )),
        };
        match checked {
            Ok(()) => (Some(remember), None),
            Err(error) => {
                let message = format!("the decision counts, but is {}", error.message);
                (None, Some(WireError { message, ..error }))
            }
        }
    }

    fn take_vote(
        &mut self,
        at: usize,
        from: Answerer,
        voter: &Voter,
    ) -> Result<AskedApprover, WireError> {
        let Some(open) = self.open.get_mut(at) else {
            return Err(stale("the approval request has ended"));
        };
        let Voter { handler, by, registration, .. } = voter;
        if open.poll.has_voted(handler, from, by) {
            return Err(stale("this approver has already answered; its first answer counts"));
        }
        match open.poll.take(handler) {
            Some(asked) if asked.until <= Instant::now() => {
                let lost = open.poll.state();
                if matches!(lost, PollState::Lost(_)) {
                    self.finish(
                        at,
                        Verdict::default("the answer came too late", "make the call again"),
                    );
                }
                Err(stale("the answer came after the approver's deadline"))
            }
            Some(asked) => Ok(asked),
            None if *registration == Registration::Unregistered => Ok(AskedApprover {
                handler: handler.clone(),
                from,
                by: by.clone(),
                priority: open.poll.top().unwrap_or_default(),
                until: Instant::now(),
            }),
            None => Err(WireError::new(
                ErrorCode::Forbidden,
                "this approver was not asked: its filter excludes the approval request",
                "register for the review and the tool",
            )),
        }
    }

    /// Prepares what the approvers of a carried request wanted remembered.
    fn prepare(&mut self, at: usize) -> Result<Vec<RememberedApproval>, WireError> {
        let Some(OpenRequest { remember, claim, .. }) = self.open.get_mut(at) else {
            return Ok(Vec::new());
        };
        let (wanted, claim, now) = (std::mem::take(remember), claim.clone(), Instant::now());
        let prepare = |(remember, name): (Remember, String)| {
            self.memory.prepare(&claim, remember, &name, now)
        };
        wanted.into_iter().map(prepare).collect()
    }
}
