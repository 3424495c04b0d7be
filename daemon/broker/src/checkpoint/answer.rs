//! Takes an answer: to an open question, for its digest, once, in time, and of the right kind, or it
//! is refused. Broker.

use super::{
    desk::{ConnectionNumber, Desk, State, Verdict},
    grants::Memory,
    poll::{Asked, Standing},
};
use palisade_protocol::{
    Answer, Answered, Decision, Deny, ErrorCode, GrantId, HandlerId, Modified, QuestionId, Replace,
    Review, WireError, Withhold,
};
use tokio::time::Instant;

/// Who answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answerer {
    pub(crate) connection: ConnectionNumber,
    pub(crate) uid: u32,
}

/// What an answer comes to.
enum Vote {
    Yes,
    Instead(Verdict),
    No { reason: String, guidance: String },
}

fn stale(message: &str) -> WireError {
    WireError::new(ErrorCode::StaleApproval, message, "answer the questions that `pending` shows")
}

impl Desk {
    /// Takes an answer.
    pub(crate) fn answer(&self, from: Answerer, answer: Answer) -> Result<Answered, WireError> {
        let mut state = self.state();
        let at = state.find(&answer.question)?;
        let (handler, name) = state.voter(from)?;
        state.fits(at, &handler, &answer)?;
        let asked = state.take_vote(at, &handler, &name)?;
        let Answer { decision, remember, .. } = answer;
        let by = format!("handler:{name}");
        let Some(open) = state.open.get_mut(at) else { return Err(stale("it is over")) };
        let verdict = match vote(decision, &by) {
            Vote::No { reason, guidance } => Verdict::Denied { by, reason, guidance },
            vote @ (Vote::Yes | Vote::Instead(_)) => {
                open.remember.extend(remember.map(|remember| (remember, name)));
                match (open.poll.approve(asked), vote) {
                    (Standing::Open, _) => return Ok(Answered { grant: None }),
                    (Standing::Lost(why), _) => Verdict::default(why, ""),
                    (Standing::Carried(_), Vote::Instead(verdict)) => verdict,
                    (Standing::Carried(name), Vote::Yes | Vote::No { .. }) => {
                        Verdict::Approved { by: format!("handler:{name}") }
                    }
                }
            }
        };
        let grant = state.keep(at, &verdict)?;
        state.finish(at, verdict);
        Ok(Answered { grant })
    }
}

fn vote(decision: Decision, by: &str) -> Vote {
    let by = by.to_owned();
    match decision {
        Decision::Approve | Decision::Pass => Vote::Yes,
        Decision::ApproveModified(Modified { arguments }) => {
            Vote::Instead(Verdict::Modified { by, arguments })
        }
        Decision::Replace(Replace { output }) => Vote::Instead(Verdict::Replaced { by, output }),
        Decision::Deny(Deny { reason, guidance }) => Vote::No { reason, guidance },
        Decision::Withhold(Withhold { reason }) => Vote::No { reason, guidance: String::new() },
    }
}

const fn is_for(review: Review, decision: &Decision) -> bool {
    match decision {
        Decision::Approve | Decision::ApproveModified(_) | Decision::Deny(_) => {
            matches!(review, Review::Input)
        }
        Decision::Pass | Decision::Replace(_) | Decision::Withhold(_) => {
            matches!(review, Review::Output)
        }
    }
}

impl State {
    fn find(&self, id: &QuestionId) -> Result<usize, WireError> {
        if let Some(at) = self.open.iter().position(|open| open.question.question == *id) {
            return Ok(at);
        }
        if self.over.contains(id) {
            return Err(stale("the question is over: it was answered, denied or withdrawn"));
        }
        let hint = "`pending` shows the questions that wait";
        Err(WireError::new(ErrorCode::NotFound, format!("there is no question {id}"), hint))
    }

    /// Who votes: the handler of the connection, or an operator who is attached as none.
    fn voter(&self, from: Answerer) -> Result<(HandlerId, String), WireError> {
        let mut attached = self.attached.iter();
        if let Some(handler) = attached.find(|handler| handler.connection == from.connection) {
            return Ok((handler.id.clone(), handler.register.name.clone()));
        }
        let id = HandlerId::try_from(format!("operator-{}", from.connection))
            .map_err(|error| WireError::new(ErrorCode::Internal, error.to_string(), ""))?;
        Ok((id, format!("operator:{}", from.uid)))
    }

    /// Refuses an answer to something else. A handler that was asked and answers nonsense has
    /// denied: it is not to be relied on.
    fn fits(&mut self, at: usize, handler: &HandlerId, answer: &Answer) -> Result<(), WireError> {
        let Some(open) = self.open.get(at) else { return Err(stale("it is over")) };
        let problem = if open.question.digest != answer.digest {
            Some((stale("the answer is to another digest"), "the answer was to something else"))
        } else if !is_for(open.question.review, &answer.decision) {
            let hint = "input reviews are approved or denied, output reviews passed or withheld";
            let message = "the decision does not belong to this kind of review";
            let error = WireError::new(ErrorCode::InvalidRequest, message, hint);
            Some((error, "the answer was of the wrong kind"))
        } else {
            None
        };
        if let Some((error, reason)) = problem {
            let was_asked = open.poll.handlers().any(|asked| asked == handler);
            if was_asked {
                self.finish(at, Verdict::default(reason, "ask again"));
            }
            return Err(error);
        }
        let changes =
            matches!(answer.decision, Decision::ApproveModified(_) | Decision::Replace(_));
        if changes && (open.limits.quorum() > 1 || !open.poll.decides(handler)) {
            return Err(WireError::new(
                ErrorCode::InvalidRequest,
                "only the one who decides alone may change something",
                "deny, and say in `guidance` what should be done instead",
            ));
        }
        match &answer.remember {
            None => Ok(()),
            Some(remember) if matches!(answer.decision, Decision::Approve) => {
                Memory::check(&open.claim, remember, &open.limits)
            }
            Some(_) => Err(WireError::new(
                ErrorCode::InvalidRequest,
                "only a plain approval is remembered",
                "leave out `remember`",
            )),
        }
    }

    fn take_vote(
        &mut self,
        at: usize,
        handler: &HandlerId,
        name: &str,
    ) -> Result<Asked, WireError> {
        let Some(open) = self.open.get_mut(at) else { return Err(stale("it is over")) };
        if open.poll.has_voted(handler) {
            return Err(stale("this handler has answered already; its first answer counts"));
        }
        match open.poll.take(handler) {
            Some(asked) if asked.until <= Instant::now() => {
                let lost = open.poll.standing();
                if matches!(lost, Standing::Lost(_)) {
                    self.finish(at, Verdict::default("the answer came too late", "ask again"));
                }
                Err(stale("the answer comes after the handler's deadline"))
            }
            Some(asked) => Ok(asked),
            None if handler.as_str().starts_with("operator-") => {
                let (handler, name, priority) =
                    (handler.clone(), name.to_owned(), open.poll.top().unwrap_or_default());
                Ok(Asked { handler, name, priority, until: Instant::now() })
            }
            None => Err(WireError::new(
                ErrorCode::Forbidden,
                "this handler was not asked: the question is not in its filter",
                "register for the review and the tool",
            )),
        }
    }

    /// Remembers what the handlers wanted remembered, once it is carried.
    fn keep(&mut self, at: usize, verdict: &Verdict) -> Result<Option<GrantId>, WireError> {
        let Some(open) = self.open.get_mut(at) else { return Ok(None) };
        let wanted = std::mem::take(&mut open.remember);
        if !matches!(verdict, Verdict::Approved { .. }) {
            return Ok(None);
        }
        let (claim, now) = (open.claim.clone(), Instant::now());
        let mut grant = None;
        for (remember, name) in wanted {
            grant = Some(self.memory.keep(&claim, remember, &name, now)?);
        }
        Ok(grant)
    }
}
