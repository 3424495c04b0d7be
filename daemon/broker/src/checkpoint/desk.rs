//! Where questions wait for their answers: who is attached, what is open, what is remembered. Every
//! way that is not a clear yes ends in a no with its own reason. Broker.

use super::{
    grants::{Claim, Kept},
    inquiry::Inquiry,
    open::{Attached, Open, State},
    poll::{Answerer, Poll},
    verdict::Verdict,
};
use crate::{outbox::Outbox, peer::ConnectionNumber};
use palisade_protocol::{
    ErrorCode, Grant, GrantId, HandlerId, NameError, Question, QuestionId, Register, SessionId,
    WireError,
};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Handlers, open questions and memory.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
}

impl Desk {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches a handler, or changes how it is attached; it is asked what waits already.
    pub(crate) fn attach(
        &self,
        from: Answerer,
        register: Register,
        outbox: Outbox,
    ) -> Result<HandlerId, WireError> {
        let mut state = self.state();
        state.detach(from.connection, "the handler changed its registration");
        state.count += 1;
        let id = HandlerId::try_from(format!("h-{}", state.count))
            .map_err(|error| WireError::new(ErrorCode::Internal, error.to_string(), ""))?;
        let heard = Instant::now();
        let attached = Attached { id: id.clone(), from, register, outbox, heard };
        for open in &mut state.open {
            open.offer(&attached, heard);
        }
        state.attached.push(attached);
        Ok(id)
    }

    /// A handler is gone, for whatever reason.
    pub(crate) fn detach(&self, connection: ConnectionNumber) {
        self.state().detach(connection, "the handler disconnected before it answered");
    }

    /// A connection said something.
    pub(crate) fn heard(&self, connection: ConnectionNumber) {
        let mut state = self.state();
        let mut attached = state.attached.iter_mut();
        if let Some(attached) = attached.find(|attached| attached.from.connection == connection) {
            attached.heard = Instant::now();
        }
    }

    /// The questions that wait, oldest first.
    pub(crate) fn pending(&self) -> Vec<Question> {
        let now = Instant::now();
        self.state().open.iter().map(|open| open.shown(open.expires(), now)).collect()
    }

    /// What is answered from memory.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        self.state().memory.list(Instant::now())
    }

    /// Takes a grant back, and says what it was.
    pub(crate) fn revoke(&self, id: &GrantId) -> Result<Grant, WireError> {
        self.state().memory.revoke(id)
    }

    /// Whether an approval is remembered already.
    pub(crate) fn holds(&self, kept: &Kept) -> bool {
        self.state().memory.holds(kept)
    }

    /// Remembers an approval that is in the log.
    pub(crate) fn keep(&self, kept: Kept) {
        self.state().memory.keep(kept, Instant::now());
    }

    /// The grant that would cover a call. That does not use it.
    pub(crate) fn covering(&self, claim: &Claim) -> Option<GrantId> {
        self.state().memory.covering(claim)
    }

    /// The grant that covers a call, and who gave it.
    pub(crate) fn remembered(&self, claim: &Claim) -> Option<(GrantId, String)> {
        self.state().memory.find(claim, Instant::now())
    }

    /// Forgets what was for a session that is over, and denies what it still asks.
    pub(crate) fn end_session(&self, session: &SessionId) {
        let mut state = self.state();
        state.memory.end_session(session);
        while let Some(at) = state.open.iter().position(|open| open.claim.session == *session) {
            state.finish(at, Verdict::default("the session is over", ""));
        }
    }

    /// Gives a question its id, or that of the same one that waits already; who will be asked.
    pub(crate) fn announce(&self, inquiry: &mut Inquiry) -> Result<Vec<String>, WireError> {
        let state = self.state();
        if let Some(open) = state.same(inquiry) {
            inquiry.question.question = open.question.question.clone();
        } else {
            let id = format!("q-{}", uuid::Uuid::now_v7());
            inquiry.question.question = id.try_into().map_err(|error: NameError| {
                WireError::new(ErrorCode::Internal, error.to_string(), "")
            })?;
        }
        let wants = |attached: &&Attached| attached.wants(&inquiry.question);
        let asked = state.attached.iter().filter(wants);
        Ok(asked.map(|attached| attached.register.name.clone()).collect())
    }

    /// Asks what was announced, and waits for what becomes of it.
    pub(crate) async fn ask(&self, inquiry: Inquiry) -> Verdict {
        let (id, mut outcome) = match self.put(inquiry) {
            Ok(waiting) => waiting,
            Err(verdict) => return verdict,
        };
        let _leaving = Leaving { desk: self, id: id.clone() };
        loop {
            if let Some(verdict) = outcome.borrow().clone() {
                return verdict;
            }
            let Some(wake) = self.state().wake(&id) else {
                return Verdict::default("the question was lost", "");
            };
            tokio::select! {
                changed = outcome.changed() => if changed.is_err() {
                    return Verdict::default("the question was lost", "");
                },
                () = sleep_until(wake) => self.state().look_after(&id, Instant::now()),
            }
        }
    }

    fn put(
        &self,
        inquiry: Inquiry,
    ) -> Result<(QuestionId, watch::Receiver<Option<Verdict>>), Verdict> {
        let mut state = self.state();
        if let Some(open) = state.same(&inquiry) {
            return Ok((open.question.question.clone(), open.outcome.subscribe()));
        }
        let time = inquiry.time();
        let Inquiry { question, claim, limits, .. } = inquiry;
        if state.over.contains(&question.question) {
            return Err(Verdict::default("the same question was decided meanwhile", "ask again"));
        }
        let of_session = |open: &&Open| open.claim.session == claim.session;
        let waiting = state.open.iter().filter(of_session).count() as u64;
        if waiting >= limits.max_pending() {
            return Err(Verdict::default(
                format!("{waiting} questions of this session wait for an answer already"),
                "wait for an answer before you ask for more; handlers.max_pending is the limit",
            ));
        }
        let (id, now) = (question.question.clone(), Instant::now());
        let limit = now + time;
        let grace = now + Duration::from_millis(limits.grace_ms());
        let (outcome, receiver) = watch::channel(None);
        let poll = Poll::new(limits.quorum());
        let remember = Vec::new();
        let mut open = Open { question, claim, limits, poll, remember, grace, limit, outcome };
        for attached in &state.attached {
            open.offer(attached, now);
        }
        state.open.push(open);
        Ok((id, receiver))
    }
}

/// A call that does not wait any more; with the last of them the question is over.
struct Leaving<'a> {
    desk: &'a Desk,
    id: QuestionId,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.desk.state();
        // The receiver of the one who leaves is still counted here.
        let alone =
            |open: &Open| open.question.question == self.id && open.outcome.receiver_count() <= 1;
        if let Some(at) = state.open.iter().position(alone) {
            state.finish(at, Verdict::default("the call was cancelled", ""));
        }
    }
}

#[cfg(test)]
mod tests;
