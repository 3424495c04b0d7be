//! Where questions wait for their answers: who is attached, what is open, what is remembered. Every
//! way that is not a clear yes ends in a no with its own reason. Broker.

use super::{
    answer::Answerer,
    grants::{Claim, Kept, Memory},
    poll::{Asked, Poll, Standing},
};
use crate::context::Outbox;
use palisade_policy::Handlers;
use palisade_protocol::{
    ErrorCode, Event, Grant, GrantId, HandlerId, JsonText, NameError, Part, Question, QuestionId,
    QuestionOver, Register, Remember, ServerMessage, SessionId, WireError,
};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// How many questions that are over are known as such.
const OVER: usize = 1024;

/// Numbers a connection for as long as the daemon runs.
pub(crate) type ConnectionNumber = u64;

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may run, or be seen, as it was shown; and this is to be remembered.
    Approved { by: String, kept: Vec<Kept> },
    /// It may run with these arguments.
    Modified { by: String, arguments: JsonText },
    /// The agent is to see this instead.
    Replaced { by: String, output: String },
    /// It counts but for this.
    Part { by: String, part: Part },
    /// It may not, and why.
    Denied { by: String, reason: String, guidance: String },
}

impl Verdict {
    /// The answer where nobody gave one.
    pub(crate) fn default(reason: impl Into<String>, guidance: impl Into<String>) -> Self {
        Self::Denied { by: "default".to_owned(), reason: reason.into(), guidance: guidance.into() }
    }

    /// For `question_over`.
    fn outcome(&self) -> (&'static str, &str) {
        match self {
            Self::Approved { by, .. } => ("approved", by),
            Self::Modified { by, .. } => ("modified", by),
            Self::Replaced { by, .. } => ("replaced", by),
            Self::Part { by, .. } => ("approved", by),
            Self::Denied { by, .. } => ("denied", by),
        }
    }
}

/// What is to be asked.
#[derive(Debug)]
pub(crate) struct Inquiry {
    /// Its id and time are filled in here.
    pub(crate) question: Question,
    pub(crate) claim: Claim,
    pub(crate) limits: Handlers,
    /// How long the caller waits, if it said so.
    pub(crate) patience: Option<Duration>,
}

impl Inquiry {
    /// How long there is for an answer: what the profile gives, or less if the caller says so.
    pub(crate) fn time(&self) -> Duration {
        let most = Duration::from_millis(self.limits.deadline_ms());
        self.patience.map_or(most, |patience| patience.min(most))
    }
}

/// Handlers, open questions and memory.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) attached: Vec<Attached>,
    pub(super) open: Vec<Open>,
    pub(super) over: VecDeque<QuestionId>,
    pub(super) memory: Memory,
    count: u64,
}

/// A handler.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) id: HandlerId,
    pub(super) from: Answerer,
    pub(super) register: Register,
    outbox: Outbox,
    heard: Instant,
}

/// A question that waits.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) question: Question,
    pub(super) claim: Claim,
    pub(super) limits: Handlers,
    pub(super) poll: Poll,
    /// What is to be remembered if it is carried.
    pub(super) remember: Vec<(Remember, String)>,
    grace: Instant,
    limit: Instant,
    outcome: watch::Sender<Option<Verdict>>,
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

impl Attached {
    pub(super) fn wants(&self, question: &Question) -> bool {
        let tools = &self.register.tools;
        self.register.reviews.contains(&question.review)
            && (tools.is_empty() || tools.contains(&question.tool))
    }

    /// When it counts as hung.
    fn lapses(&self) -> Option<Instant> {
        self.register.heartbeat_ms.map(|ms| self.heard + Duration::from_millis(ms))
    }
}

impl Open {
    /// Asks a handler, if it wants to be asked, is ready and can hear it.
    fn offer(&mut self, attached: &Attached, now: Instant) {
        if !attached.wants(&self.question) || attached.lapses().is_some_and(|at| at <= now) {
            return;
        }
        let own = attached.register.deadline_ms.map(|ms| now + Duration::from_millis(ms));
        let until = own.map_or(self.limit, |own| own.min(self.limit));
        let event = Event::Question(Box::new(self.shown(until, now)));
        if attached.outbox.try_send(ServerMessage::Event(event)).is_ok() {
            let Register { name, priority, .. } = &attached.register;
            let (handler, name, priority) = (attached.id.clone(), name.clone(), *priority);
            self.poll.ask(Asked { handler, from: attached.from, name, priority, until });
        }
    }

    fn shown(&self, until: Instant, now: Instant) -> Question {
        let left = until.saturating_duration_since(now).as_millis();
        let expires_in_ms = u64::try_from(left).unwrap_or(u64::MAX);
        Question { expires_in_ms, ..self.question.clone() }
    }

    /// When it is denied without an answer.
    fn expires(&self) -> Instant {
        self.poll.until().map_or(self.limit, |until| until.min(self.limit))
    }
}

impl State {
    /// The same question of the same session, if it waits.
    fn same(&self, inquiry: &Inquiry) -> Option<&Open> {
        self.open.iter().find(|open| {
            open.claim.session == inquiry.claim.session
                && open.question.digest == inquiry.question.digest
                && open.question.review == inquiry.question.review
        })
    }

    fn detach(&mut self, connection: ConnectionNumber, why: &str) {
        let gone = self.attached.extract_if(.., |attached| attached.from.connection == connection);
        let gone: Vec<HandlerId> = gone.map(|attached| attached.id).collect();
        gone.iter().for_each(|handler| self.leave(handler, why));
    }

    fn leave(&mut self, handler: &HandlerId, why: &str) {
        let mut at = 0;
        while let Some(open) = self.open.get_mut(at) {
            match open.poll.leave(handler) {
                Standing::Lost(_) => self.finish(at, Verdict::default(why, ATTACH)),
                Standing::Open | Standing::Carried(_) => at += 1,
            }
        }
    }

    /// When something about a question has to be looked at.
    fn wake(&self, id: &QuestionId) -> Option<Instant> {
        let open = self.open.iter().find(|open| open.question.question == *id)?;
        let settled = open.poll.can_carry();
        let grace = (!settled).then_some(open.grace.min(open.limit));
        let asked: Vec<&HandlerId> = open.poll.handlers().collect();
        let lapses = self.attached.iter().filter(|attached| asked.contains(&&attached.id));
        let next = lapses.filter_map(Attached::lapses).chain(grace).min();
        Some(next.map_or(open.expires(), |next| next.min(open.expires())))
    }

    /// Ends a question whose time is over, and drops handlers that have hung.
    fn look_after(&mut self, id: &QuestionId, now: Instant) {
        let hung =
            self.attached.extract_if(.., |handler| handler.lapses().is_some_and(|at| at <= now));
        let hung: Vec<HandlerId> = hung.map(|attached| attached.id).collect();
        hung.iter().for_each(|id| self.leave(id, "the handler stopped responding"));
        let Some(at) = self.open.iter().position(|open| open.question.question == *id) else {
            return;
        };
        let Some(open) = self.open.get(at) else { return };
        let verdict = if !open.poll.can_carry() && open.grace.min(open.limit) <= now {
            self.nobody(open)
        } else if open.expires() <= now {
            Verdict::default("no answer came in time", "ask again when somebody can answer")
        } else {
            return;
        };
        self.finish(at, verdict);
    }

    /// Why a question has nobody who could carry it.
    fn nobody(&self, open: &Open) -> Verdict {
        if !open.poll.is_empty() {
            let reason = format!(
                "fewer handlers are attached than the {} the profile wants",
                open.limits.quorum()
            );
            return Verdict::default(reason, ATTACH);
        }
        if self.attached.iter().any(|attached| attached.wants(&open.question)) {
            return Verdict::default("no attached handler is ready", ATTACH);
        }
        Verdict::default("no checkpoint handler is attached", ATTACH)
    }

    /// A question is over: whoever was asked or waits is told.
    pub(super) fn finish(&mut self, at: usize, verdict: Verdict) {
        let open = self.open.remove(at);
        let (outcome, by) = verdict.outcome();
        let over = QuestionOver {
            question: open.question.question.clone(),
            outcome: outcome.to_owned(),
            by: by.to_owned(),
        };
        let asked: Vec<&HandlerId> = open.poll.handlers().collect();
        let voters = self.attached.iter().filter(|attached| asked.contains(&&attached.id));
        for attached in voters {
            // A handler that does not read finds out when it answers.
            attached.outbox.try_send(ServerMessage::Event(Event::QuestionOver(over.clone()))).ok();
        }
        self.over.push_back(over.question);
        if self.over.len() > OVER {
            self.over.pop_front();
        }
        open.outcome.send_replace(Some(verdict));
    }
}

/// What to do where nobody could answer.
const ATTACH: &str = "attach a checkpoint handler with `palisade approve`";

#[cfg(test)]
mod tests;
