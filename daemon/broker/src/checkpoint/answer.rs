//! Takes an answer: to an open question, for its digest, once, in time, and of the right kind, or it
//! is refused. Broker.

use super::{
    desk::Desk,
    grants::{Kept, Memory},
    open::{Open, State},
    poll::{Answerer, Asked, Standing},
    verdict::Verdict,
};
use palisade_protocol::{
    Answer, Answered, Decision, Deny, ErrorCode, FileChange, GrantId, HandlerId, Modified, Part,
    QuestionId, RawPath, Remember, Replace, Review, WireError, Withhold,
};
use tokio::time::Instant;

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
    /// Takes an answer. A decision counts even if what it wants remembered is not; the error then
    /// says both.
    pub(crate) fn answer(&self, from: Answerer, answer: Answer) -> Result<Answered, WireError> {
        let mut state = self.state();
        let at = state.find(&answer.question)?;
        let (handler, name) = state.voter(from)?;
        state.fits(at, &handler, &answer)?;
        let asked = state.take_vote(at, from, &handler, &name)?;
        let (remember, refused) = state.memorable(at, &answer);
        let grant = state.count(at, asked, answer.decision, remember, name)?;
        refused.map_or(Ok(Answered { grant }), Err)
    }
}

impl State {
    /// Counts a vote; the grant that will come of it.
    fn count(
        &mut self,
        at: usize,
        asked: Asked,
        decision: Decision,
        remember: Option<Remember>,
        name: String,
    ) -> Result<Option<GrantId>, WireError> {
        let by = format!("handler:{name}");
        let Some(open) = self.open.get_mut(at) else { return Err(stale("it is over")) };
        let verdict = match vote(decision, &by) {
            Vote::No { reason, guidance } => Verdict::Denied { by, reason, guidance },
            vote @ (Vote::Yes | Vote::Instead(_)) => {
                open.remember.extend(remember.map(|remember| (remember, name)));
                match (open.poll.approve(asked), vote) {
                    (Standing::Open, _) => {
                        open.stir();
                        return Ok(None);
                    }
                    (Standing::Lost(why), _) => Verdict::default(why, ""),
                    (Standing::Carried(_), Vote::Instead(verdict)) => verdict,
                    (Standing::Carried(name), Vote::Yes | Vote::No { .. }) => {
                        let kept = self.prepare(at)?;
                        Verdict::Approved { by: format!("handler:{name}"), kept }
                    }
                }
            }
        };
        let grant = match &verdict {
            Verdict::Approved { kept, .. } => kept.last().map(Kept::id),
            Verdict::Modified { .. }
            | Verdict::Replaced { .. }
            | Verdict::Part { .. }
            | Verdict::Denied { .. } => None,
        };
        self.finish(at, verdict);
        Ok(grant)
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

/// Whether everything that is to be left out was shown.
fn known(part: &Part, changes: &[FileChange]) -> Result<(), WireError> {
    let is = |path: &RawPath| {
        changes.iter().any(|change| change.path == *path || change.from.as_ref() == Some(path))
    };
    match part.without.iter().find(|path| !is(path)) {
        None => Ok(()),
        Some(path) => Err(WireError::new(
            ErrorCode::InvalidRequest,
            format!("{:?} is not in the change set", String::from_utf8_lossy(&path.0)),
            "name paths as `view.changes` has them",
        )),
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
        if let Some(handler) = attached.find(|handler| handler.from.connection == from.connection) {
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
            let hint = "input and effects reviews are approved or denied, output reviews passed or \
                        withheld";
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
        if let Decision::ApprovePart(part) = &answer.decision {
            known(part, &open.question.view.changes)?;
        }
        let changes = matches!(
            answer.decision,
            Decision::ApproveModified(_) | Decision::Replace(_) | Decision::ApprovePart(_)
        );
        if changes && (open.limits.quorum() > 1 || !open.poll.decides(handler)) {
            return Err(WireError::new(
                ErrorCode::InvalidRequest,
                "only the one who decides alone may change something",
                "deny, and say in `guidance` what should be done instead",
            ));
        }
        Ok(())
    }

    /// What of an answer may be remembered, and what is to be said where it may not.
    fn memorable(&self, at: usize, answer: &Answer) -> (Option<Remember>, Option<WireError>) {
        let Some(remember) = answer.remember.clone() else { return (None, None) };
        let checked = match (self.open.get(at), &answer.decision) {
            (Some(open), Decision::Approve) if open.question.review == Review::Effects => {
                Err(WireError::new(
                    ErrorCode::Denied,
                    "not remembered: what a command did says nothing of what it does next",
                    "leave out `remember`",
                ))
            }
            (Some(open), Decision::Approve) => Memory::check(&open.claim, &remember, &open.limits),
            (Some(_) | None, _) => Err(WireError::new(
                ErrorCode::Denied,
                "not remembered: only a plain approval is",
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
                Ok(Asked { handler, from, name, priority, until: Instant::now() })
            }
            None => Err(WireError::new(
                ErrorCode::Forbidden,
                "this handler was not asked: the question is not in its filter",
                "register for the review and the tool",
            )),
        }
    }

    /// What the handlers wanted remembered of a question that is carried.
    fn prepare(&mut self, at: usize) -> Result<Vec<Kept>, WireError> {
        let Some(Open { remember, claim, .. }) = self.open.get_mut(at) else {
            return Ok(Vec::new());
        };
        let (wanted, claim, now) = (std::mem::take(remember), claim.clone(), Instant::now());
        let prepare = |(remember, name): (Remember, String)| {
            self.memory.prepare(&claim, remember, &name, now)
        };
        wanted.into_iter().map(prepare).collect()
    }
}
