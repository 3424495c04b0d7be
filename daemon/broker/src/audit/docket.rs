//! What the log is told of one call: its docket is written before the call takes effect, and closed
//! when it ends. Broker.

use super::{
    Audit, Unrecorded,
    ending::{Ending, Keeps, Of},
};
use crate::{
    checkpoint::desk::Inquiry,
    cleared::Judged,
    context::Tally,
    session::{Peer, Session},
    stages::Asked,
};
use palisade_audit::{
    Answer, By, Call, CleanJson, CleanText, Decision, Digest, Finding, GrantAct, Hash, Judgement,
    Question, Record, Review, Shown, Thinking, Ticket,
};
use palisade_protocol::{
    CallResult, Checkpoint, Grant, QuestionId, ReverseThinking, Severity, Target,
};
use std::{sync::Arc, time::Instant};

/// How many targets of a question are kept.
const TARGETS: usize = 64;

/// How far a docket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The log knows nothing of the call.
    Blank,
    /// The call is in the log.
    Ticketed,
    /// Its result is too.
    Closed,
}

/// What the log is told of a call.
#[derive(Debug)]
pub(crate) struct Docket {
    audit: Audit,
    call: Call,
    session: Arc<Session>,
    started: Instant,
    state: State,
    /// A decision about the call is in the log.
    answered: bool,
    keeps: Keeps,
    attachment: Option<Tally>,
}

/// A decision of a checkpoint.
#[derive(Debug)]
pub(crate) struct Answering<'a> {
    pub(crate) review: palisade_protocol::Review,
    pub(crate) checkpoint: &'a Checkpoint,
    /// What it is to be remembered for.
    pub(crate) remember: Option<&'a str>,
    /// The question, and the digest of what was shown, if anybody was asked.
    pub(crate) asked: Option<&'a Put>,
}

/// A question that was put.
#[derive(Debug, Clone)]
pub(crate) struct Put {
    pub(crate) question: QuestionId,
    pub(crate) digest: String,
}

impl Docket {
    pub(crate) fn new(audit: &Audit, asked: &Asked) -> Self {
        let (call, session) = (&asked.call, &asked.context.session);
        let Peer { uid, pid, .. } = session.peer;
        let call = Call {
            call_id: asked.context.call_id.to_string(),
            session: session.id.to_string(),
            uid,
            pid,
            tool: call.tool.to_string(),
            digest: Hash::of(call.arguments.as_str().as_bytes()),
            arguments: CleanJson::new(call.arguments.as_str()),
            cwd: CleanText::default(),
            reason: call.reason.as_deref().map(CleanText::new),
            dry_run: call.options.dry_run,
            judgement: Judgement::Unjudged,
            findings: Vec::new(),
            thinking: call.options.reverse_thinking.as_ref().map(thinking),
        };
        Self {
            audit: audit.clone(),
            call,
            session: Arc::clone(session),
            started: asked.started,
            state: State::Blank,
            answered: false,
            keeps: Keeps::Output,
            attachment: asked.context.input.as_ref().map(|input| input.tally()),
        }
    }

    /// Notes the tool's own name and what the judge says.
    pub(crate) fn note(&mut self, judged: &Judged) {
        let (tool, judgement, findings) = judged.summary();
        let finding = |finding: &palisade_protocol::Finding| Finding {
            kind: finding.kind.clone(),
            why: CleanText::new(&finding.why),
        };
        self.call.tool = tool.to_string();
        self.call.judgement = judgement;
        self.keeps = if judged.is_read_only() { Keeps::Digest } else { Keeps::Output };
        self.call.findings = findings.iter().map(finding).collect();
    }

    /// Notes the arguments that an approver gave the call.
    pub(crate) fn modified(&mut self, call: &palisade_protocol::Call) {
        self.call.digest = Hash::of(call.arguments.as_str().as_bytes());
        self.call.arguments = CleanJson::new(call.arguments.as_str());
    }

    /// Writes a decision into the log; only then it counts.
    pub(crate) async fn answer(&mut self, answering: Answering<'_>) -> Result<(), Unrecorded> {
        let Answering { review, checkpoint, remember, asked } = answering;
        let by = match checkpoint.by.split_once(':') {
            Some(("remembered", id)) => By::Remembered(CleanText::new(id)),
            Some(("handler", name)) => match name.split_once(':') {
                Some(("person" | "operator", who)) => By::Person(CleanText::new(who)),
                Some(("program", who)) => By::Program(CleanText::new(who)),
                Some(_) | None => By::Program(CleanText::new(name)),
            },
            Some(_) | None => By::Default,
        };
        let decision = match checkpoint.decision.as_str() {
            "approved" => Decision::Approve,
            "modified" => Decision::ApproveModified,
            "passed" => Decision::Pass,
            "replaced" => Decision::Replace,
            "withheld" => Decision::Withhold,
            _ => Decision::Deny,
        };
        let record = Record::Answer(Answer {
            question: asked.map(|put| put.question.to_string()),
            call_id: self.call.call_id.clone(),
            session: self.call.session.clone(),
            review: kind(review),
            decision,
            by,
            reason: CleanText::new(&checkpoint.reason),
            digest: asked.and_then(|put| put.digest.parse().ok()),
            remember: remember.map(CleanText::new),
        });
        self.audit.record(record).await.map(drop)?;
        self.answered = true;
        Ok(())
    }

    /// Writes a question into the log; only then it is put.
    pub(crate) async fn question(
        &self,
        inquiry: &Inquiry,
        handlers: &[String],
    ) -> Result<Put, Unrecorded> {
        let asked = &inquiry.question;
        let lines: Vec<&str> = asked.view.lines.iter().map(|line| line.text.as_str()).collect();
        let target = |target: &Target| {
            let there = target.there.as_deref().unwrap_or("nothing there");
            let lost = if target.lost { ", lost" } else { "" };
            let path = String::from_utf8_lossy(&target.path.0);
            CleanText::new(&format!("{path} ({there}, {} bytes{lost})", target.size))
        };
        let output = |output: &String| Digest {
            bytes: output.len() as u64,
            sha256: Hash::of(output.as_bytes()),
        };
        let record = Record::Question(Question {
            question: asked.question.to_string(),
            call_id: self.call.call_id.clone(),
            session: self.call.session.clone(),
            review: kind(asked.review),
            digest: asked.digest.parse().unwrap_or(Hash::ZERO),
            handlers: handlers.iter().map(|name| CleanText::new(name)).collect(),
            deadline_ms: u64::try_from(inquiry.time().as_millis()).unwrap_or(u64::MAX),
            shown: Shown {
                why: CleanText::new(&asked.why),
                lines: CleanText::new(&lines.join("\n")),
                targets: asked.view.targets.iter().take(TARGETS).map(target).collect(),
                diff: asked.view.diff.as_deref().map(CleanText::new),
                output: asked.output.as_ref().map(output),
            },
        });
        self.audit.record(record).await.map(drop)?;
        Ok(Put { question: asked.question.clone(), digest: asked.digest.clone() })
    }

    /// Writes into the log that an approval is to be remembered; only then it is.
    pub(crate) async fn grant(&self, grant: &Grant) -> Result<(), Unrecorded> {
        let made = granted(grant, GrantAct::Made, &grant.by, Some(&self.call));
        self.audit.record(made).await.map(drop)
    }

    /// Writes the call into the log; only then it may take effect.
    pub(crate) async fn ticket(&mut self) -> Result<Ticket, Unrecorded> {
        self.call.cwd = self.cwd();
        let ticket = self.audit.record(Record::Call(self.call.clone())).await?;
        self.state = State::Ticketed;
        Ok(ticket)
    }

    /// Has the result recorded, and before it the call and the decision if it came to no ticket.
    /// Nobody waits for that: what was done can not be undone by a log that fails now.
    pub(crate) fn close(mut self, mut result: CallResult) -> CallResult {
        if let Err(error) = self.write(&result) {
            self.audit.lose();
            tracing::error!(%error, call = %self.call.call_id, "a result is not recorded");
            let why = format!("what became of this call is not in the audit log: {error}");
            result.findings.push(palisade_protocol::Finding::new(
                "audit_incomplete",
                Severity::Danger,
                why,
            ));
        }
        self.state = State::Closed;
        result
    }

    fn write(&mut self, result: &CallResult) -> Result<(), Unrecorded> {
        if self.state == State::Blank {
            self.call.cwd = self.cwd();
            let call = self.call.clone();
            self.audit.defer(move || Record::Call(call))?;
            if let Some(answer) = self.decision(result).filter(|_| !self.answered) {
                self.audit.defer(move || Record::Answer(answer))?;
            }
        }
        let ending = Ending::new(self.of(), result);
        self.audit.defer(move || ending.record())
    }

    fn cwd(&self) -> CleanText {
        CleanText::new(&String::from_utf8_lossy(&self.session.cwd()))
    }

    fn of(&self) -> Of {
        Of {
            call_id: self.call.call_id.clone(),
            session: self.call.session.clone(),
            attachment: self.attachment.as_ref().map(Tally::digest),
            duration_us: u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX),
            keeps: self.keeps,
        }
    }

    /// Who said no, where it was not left to a handler.
    fn decision(&self, result: &CallResult) -> Option<Answer> {
        let rule = || CleanText::new(result.denials.first().map_or("", |denial| &denial.rule));
        let (by, reason) = match (&result.checkpoint, self.call.judgement) {
            (Some(Checkpoint { decision, reason, .. }), _) if decision == "denied" => {
                (By::Default, reason.as_str())
            }
            (None, Judgement::Deny) => {
                (By::Rule(rule()), result.error.as_ref().map_or("", |error| &error.message))
            }
            (Some(_), _) | (None, Judgement::Allow | Judgement::Ask | Judgement::Unjudged) => {
                return None;
            }
        };
        Some(Answer {
            question: None,
            call_id: self.call.call_id.clone(),
            session: self.call.session.clone(),
            review: Review::Input,
            decision: Decision::Deny,
            by,
            reason: CleanText::new(reason),
            digest: None,
            remember: None,
        })
    }
}

const fn kind(review: palisade_protocol::Review) -> Review {
    match review {
        palisade_protocol::Review::Input => Review::Input,
        palisade_protocol::Review::Output => Review::Output,
        palisade_protocol::Review::Effects => Review::Effects,
    }
}

/// What is recorded of a grant.
pub(super) fn granted(grant: &Grant, act: GrantAct, by: &str, call: Option<&Call>) -> Record {
    let session = call.map(|call| call.session.clone());
    Record::Grant(palisade_audit::Grant {
        grant: grant.id.to_string(),
        act,
        by: CleanText::new(by),
        covers: CleanText::new(&grant.summary),
        expires_in_ms: grant.expires_in_ms,
        session: session.or_else(|| grant.session.as_ref().map(ToString::to_string)),
        call_id: call.map(|call| call.call_id.clone()),
    })
}

fn thinking(thinking: &ReverseThinking) -> Thinking {
    let each = |texts: &[String]| texts.iter().map(|text| CleanText::new(text)).collect();
    Thinking {
        assumptions: each(&thinking.assumptions),
        failure_scenarios: each(&thinking.failure_scenarios),
        verdict: CleanText::new(&thinking.verdict),
        verdict_reason: CleanText::new(&thinking.verdict_reason),
    }
}

/// A call whose client left is dropped where it stands, and what it had begun is ended.
impl Drop for Docket {
    fn drop(&mut self) {
        if self.state != State::Ticketed {
            return;
        }
        let ending = Ending::abandoned(self.of());
        if let Err(error) = self.audit.defer(move || ending.record()) {
            self.audit.lose();
            tracing::error!(%error, "the end of an abandoned call is not recorded");
        }
        self.audit.replied();
    }
}
