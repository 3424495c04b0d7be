//! What the log is told of one call: its docket is written before the call takes effect, and closed
//! when it ends. Broker.

mod decisions;

use super::{
    Audit, Charged, Unrecorded,
    ending::{Ending, Keeps, Of},
};
use crate::{attachment::Tally, peer::Peer, session::Session, stages::asked::Asked};
use palisade_audit::{
    Call, CleanJson, CleanText, Finding, Hash, Judgement, Record, Thinking, Ticket,
};
use palisade_protocol::{CallResult, Checkpoint, QuestionId, ReverseThinking, Severity, ToolName};
use std::{sync::Arc, time::Instant};

/// How many findings of a call are recorded.
const FINDINGS: usize = 64;

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

/// What the judge says of a call.
#[derive(Debug)]
pub(crate) struct Said<'a> {
    /// The tool's own name.
    pub(crate) tool: &'a ToolName,
    pub(crate) judgement: Judgement,
    /// What was noticed.
    pub(crate) findings: &'a [palisade_protocol::Finding],
    /// It changes nothing.
    pub(crate) read_only: bool,
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

    /// For what is decided about a job after its call was answered. The job's end is recorded by
    /// itself.
    pub(crate) fn for_job(&self) -> Self {
        Self {
            audit: self.audit.clone(),
            call: self.call.clone(),
            session: Arc::clone(&self.session),
            started: self.started,
            state: State::Closed,
            answered: self.answered,
            keeps: self.keeps,
            attachment: None,
        }
    }

    /// Notes the tool's own name and what the judge says.
    pub(crate) fn note(&mut self, said: &Said<'_>) {
        self.call.tool = said.tool.to_string();
        self.call.judgement = said.judgement;
        self.keeps = if said.read_only { Keeps::Digest } else { Keeps::Output };
        self.call.findings = noticed(said.findings);
    }

    /// Notes the arguments that an approver gave the call.
    pub(crate) fn modified(&mut self, call: &palisade_protocol::Call) {
        self.call.digest = Hash::of(call.arguments.as_str().as_bytes());
        self.call.arguments = CleanJson::new(call.arguments.as_str());
    }

    /// Writes the call into the log; only then it may take effect.
    pub(crate) async fn ticket(&mut self) -> Result<Ticket, Unrecorded> {
        self.call.cwd = self.cwd();
        let ticket = self.audit.record(self.charged(), Record::Call(self.call.clone())).await?;
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
            self.audit.defer(self.charged(), move || Record::Call(call))?;
            if let Some(answer) = self.decision(result).filter(|_| !self.answered) {
                self.audit.defer(self.charged(), move || Record::Answer(answer))?;
            }
        }
        let ending = Ending::new(self.of(), result);
        self.audit.defer(self.charged(), move || ending.record())
    }

    const fn charged(&self) -> Charged {
        Charged::User(self.call.uid)
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
}

/// A call whose client left is dropped where it stands, and what it had begun is ended.
impl Drop for Docket {
    fn drop(&mut self) {
        if self.state != State::Ticketed {
            return;
        }
        let ending = Ending::abandoned(self.of());
        if let Err(error) = self.audit.defer(self.charged(), move || ending.record()) {
            self.audit.lose();
            tracing::error!(%error, "the end of an abandoned call is not recorded");
        }
        self.audit.replied();
    }
}

/// What was noticed, as far as a record has room for it: the first and the last.
fn noticed(findings: &[palisade_protocol::Finding]) -> Vec<Finding> {
    let finding = |finding: &palisade_protocol::Finding| Finding {
        kind: finding.kind.clone(),
        why: CleanText::new(&finding.why),
    };
    if findings.len() <= FINDINGS {
        return findings.iter().map(finding).collect();
    }
    let why = format!("… [cut; {} findings in all] …", findings.len());
    let cut = Finding { kind: "cut".to_owned(), why: CleanText::new(&why) };
    let (first, last) =
        (findings.iter().take(FINDINGS / 2), &findings[findings.len() - FINDINGS / 2..]);
    first.map(finding).chain([cut]).chain(last.iter().map(finding)).collect()
}

fn thinking(thinking: &ReverseThinking) -> Thinking {
    Thinking {
        assumptions: CleanText::list(&thinking.assumptions),
        failure_scenarios: CleanText::list(&thinking.failure_scenarios),
        verdict: CleanText::new(&thinking.verdict),
        verdict_reason: CleanText::new(&thinking.verdict_reason),
    }
}
