//! The questions that wait, the handlers that are asked, and how a question ends. Broker.

use super::{
    grants::{Claim, Memory},
    inquiry::Inquiry,
    poll::{Answerer, Asked, Poll, Standing},
    verdict::Verdict,
};
use crate::{outbox::Outbox, peer::ConnectionNumber};
use palisade_policy::Handlers;
use palisade_protocol::{
    Event, HandlerId, Question, QuestionId, QuestionOver, Register, Remember, ServerMessage,
};
use std::{collections::VecDeque, time::Duration};
use tokio::{sync::watch, time::Instant};

/// How many questions that are over are known as such.
const OVER: usize = 1024;

/// What to do where nobody could answer.
const ATTACH: &str = "attach a checkpoint handler with `palisade approve`";

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) attached: Vec<Attached>,
    pub(super) open: Vec<Open>,
    pub(super) over: VecDeque<QuestionId>,
    pub(super) memory: Memory,
    pub(super) count: u64,
}

/// A handler.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) id: HandlerId,
    pub(super) from: Answerer,
    pub(super) register: Register,
    pub(super) outbox: Outbox,
    pub(super) heard: Instant,
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
    pub(super) grace: Instant,
    pub(super) limit: Instant,
    pub(super) outcome: watch::Sender<Option<Verdict>>,
}

impl Attached {
    pub(super) fn wants(&self, question: &Question) -> bool {
        let tools = &self.register.tools;
        self.register.reviews.contains(&question.review)
            && (tools.is_empty() || tools.contains(&question.tool))
    }

    /// When it counts as hung.
    pub(super) fn lapses(&self) -> Option<Instant> {
        self.register.heartbeat_ms.map(|ms| self.heard + Duration::from_millis(ms))
    }
}

impl Open {
    /// Asks a handler, if it wants to be asked, is ready and can hear it.
    pub(super) fn offer(&mut self, attached: &Attached, now: Instant) {
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
            self.stir();
        }
    }

    /// Who may still answer is another than before, and so is the time that it waits: whoever waits for
    /// it has to look.
    pub(super) fn stir(&self) {
        self.outcome.send_modify(|_| {});
    }

    pub(super) fn shown(&self, until: Instant, now: Instant) -> Question {
        let left = until.saturating_duration_since(now).as_millis();
        let expires_in_ms = u64::try_from(left).unwrap_or(u64::MAX);
        Question { expires_in_ms, ..self.question.clone() }
    }

    /// When it is denied without an answer.
    pub(super) fn expires(&self) -> Instant {
        self.poll.until().map_or(self.limit, |until| until.min(self.limit))
    }
}

impl State {
    /// The same question of the same session, if it waits.
    pub(super) fn same(&self, inquiry: &Inquiry) -> Option<&Open> {
        self.open.iter().find(|open| {
            open.claim.session == inquiry.claim.session
                && open.question.digest == inquiry.question.digest
                && open.question.review == inquiry.question.review
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
                Standing::Lost(_) => self.finish(at, Verdict::default(why, ATTACH)),
                Standing::Open | Standing::Carried(_) => {
                    open.stir();
                    at += 1;
                }
            }
        }
    }

    /// When something about a question has to be looked at.
    pub(super) fn wake(&self, id: &QuestionId) -> Option<Instant> {
        let open = self.open.iter().find(|open| open.question.question == *id)?;
        let settled = open.poll.can_carry();
        let grace = (!settled).then_some(open.grace.min(open.limit));
        let asked: Vec<&HandlerId> = open.poll.handlers().collect();
        let lapses = self.attached.iter().filter(|attached| asked.contains(&&attached.id));
        let next = lapses.filter_map(Attached::lapses).chain(grace).min();
        Some(next.map_or(open.expires(), |next| next.min(open.expires())))
    }

    /// Ends a question whose time is over, and drops handlers that have hung.
    pub(super) fn look_after(&mut self, id: &QuestionId, now: Instant) {
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
    pub(super) fn nobody(&self, open: &Open) -> Verdict {
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
