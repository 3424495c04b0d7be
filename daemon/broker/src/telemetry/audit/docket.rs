//! The audit records of one call. The call is recorded before it takes effect, and its result when
//! it ends. Runs in the broker.

pub(super) mod decisions;

pub(crate) use decisions::review_word;

use super::{
    Audit, RecordError, VolumeOwner,
    ending::{CallEnding, EndedCall, OutputLogging},
};
use crate::{
    base::{
        attachment::{Attachment, Tally},
        identity::WorkingDirectory,
        peer::Peer,
    },
    telemetry::StartedCall,
};
use palisade_audit::{
    Call, Claim, CleanJson, CleanText, Finding, Hash, Judgement, Record, Thinking, Ticket,
};
use palisade_protocol::{
    ApprovalId, ApprovalRequest, CallResult, Checkpoint, DecidedBy, ReverseThinking, Severity,
    ToolName,
};
use std::{sync::Arc, time::Instant};

/// The most findings of a call that are recorded.
const FINDINGS: usize = 64;

/// The state of a call in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallAuditState {
    /// Nothing about the call is in the log.
    Blank,
    /// The call is in the log.
    Ticketed,
    /// The call and its result are in the log.
    Closed,
}

/// The audit records of a call, as far as they are written.
#[derive(Debug)]
pub(crate) struct CallAudit {
    audit: Audit,
    call: Call,
    cwd: Arc<WorkingDirectory>,
    started: Instant,
    state: CallAuditState,
    /// True if a decision about the call is in the log.
    answered: bool,
    keeps: OutputLogging,
    attachment: Option<Tally>,
}

/// The judge's decision about a call.
#[derive(Debug)]
pub(crate) struct JudgeDecision<'a> {
    /// The tool's own name, not an alias.
    pub(crate) tool: &'a ToolName,
    pub(crate) judgement: Judgement,
    /// The findings of the judge.
    pub(crate) findings: &'a [palisade_protocol::Finding],
    /// True if the call changes nothing.
    pub(crate) read_only: bool,
}

/// A decision of a checkpoint about a call.
#[derive(Debug)]
pub(crate) struct CheckpointDecision<'a> {
    pub(crate) review: palisade_protocol::Review,
    pub(crate) checkpoint: &'a Checkpoint,
    /// The scope in which the approval is to be remembered.
    pub(crate) remember: Option<&'a str>,
    /// The approval request and the digest of what was shown, if anybody was asked.
    pub(crate) asked: Option<&'a SentRequest>,
}

/// An approval request that was sent.
#[derive(Debug, Clone)]
pub(crate) struct SentRequest {
    pub(crate) request: ApprovalId,
    pub(crate) digest: String,
    /// The approvers who approved it; none before it is decided.
    pub(crate) approvals: Vec<DecidedBy>,
}

impl SentRequest {
    pub(super) fn new(sent: &ApprovalRequest) -> Self {
        let (request, digest) = (sent.id.clone(), sent.digest.clone());
        Self { request, digest, approvals: Vec::new() }
    }

    /// Returns everyone who approved; nobody if only the one who decided did.
    pub(crate) fn approvals_of_several(&self, decider: &DecidedBy) -> &[DecidedBy] {
        match self.approvals.as_slice() {
            [alone] if alone == decider => &[],
            several => several,
        }
    }
}

/// Returns the digest of a call's arguments, the form in which they are logged, and the names of those
/// that the log does not have as they were sent.
fn logged(arguments: &str) -> (Hash, CleanJson, Option<Vec<String>>) {
    let (clean, altered) = CleanJson::with_altered(arguments);
    (Hash::of(arguments.as_bytes()), clean, Some(altered))
}

impl CallAudit {
    pub(crate) fn new(audit: &Audit, asked: &StartedCall<'_>) -> Self {
        let StartedCall { call, session, .. } = asked;
        let Peer { uid, pid, .. } = session.peer;
        let (digest, arguments, altered) = logged(call.arguments.as_str());
        let call = Call {
            call_id: asked.call_id.to_string(),
            session: session.id.to_string(),
            uid,
            pid,
            tool: call.tool.to_string(),
            digest,
            arguments,
            altered,
            cwd: CleanText::default(),
            reason: call.reason.as_deref().map(CleanText::new),
            dry_run: call.options.dry_run,
            judgement: Judgement::Unjudged,
            findings: Vec::new(),
            thinking: call.options.reverse_thinking.as_ref().map(thinking),
            claims: call.options.claims.iter().map(claim).collect(),
        };
        Self {
            audit: audit.clone(),
            call,
            cwd: Arc::clone(asked.cwd),
            started: asked.started,
            state: CallAuditState::Blank,
            answered: false,
            keeps: OutputLogging::Output,
            attachment: asked.input.map(Attachment::tally),
        }
    }

    /// Makes a docket for decisions about a job after its call was answered. The job's end is
    /// recorded separately.
    pub(crate) fn for_job(&self) -> Self {
        Self {
            audit: self.audit.clone(),
            call: self.call.clone(),
            cwd: Arc::clone(&self.cwd),
            started: self.started,
            state: CallAuditState::Closed,
            answered: self.answered,
            keeps: self.keeps,
            attachment: None,
        }
    }

    /// Notes the tool's own name and the judge's decision.
    pub(crate) fn note(&mut self, said: &JudgeDecision<'_>) {
        self.call.tool = said.tool.to_string();
        self.call.judgement = said.judgement;
        self.keeps = if said.read_only { OutputLogging::Digest } else { OutputLogging::Output };
        self.call.findings = noticed(said.findings);
    }

    /// Notes the arguments with which an approver replaced the call's own.
    pub(crate) fn modified(&mut self, call: &palisade_protocol::Call) {
        (self.call.digest, self.call.arguments, self.call.altered) =
            logged(call.arguments.as_str());
    }

    /// Writes the call into the log; only then it may take effect.
    pub(crate) async fn ticket(&mut self) -> Result<Ticket, RecordError> {
        self.call.cwd = self.cwd();
        let ticket = self.audit.record(self.charged(), Record::Call(self.call.clone())).await?;
        self.state = CallAuditState::Ticketed;
        Ok(ticket)
    }

    /// Records the result, and before it the call and the decision if the call was not recorded
    /// yet. Nobody waits for that: what was done can not be undone by a log that fails now.
    pub(crate) fn close(mut self, mut result: CallResult) -> CallResult {
        if let Err(error) = self.write(&result) {
            self.audit.lose();
            tracing::error!(%error, call = %self.call.call_id, "could not record a result");
            let why = format!("the result of this call is missing from the audit log: {error}");
            result.findings.push(palisade_protocol::Finding::new(
                "audit_incomplete",
                Severity::Danger,
                why,
            ));
        }
        self.state = CallAuditState::Closed;
        result
    }

    fn write(&mut self, result: &CallResult) -> Result<(), RecordError> {
        if self.state == CallAuditState::Blank {
            self.call.cwd = self.cwd();
            let call = self.call.clone();
            self.audit.defer(self.charged(), move || Record::Call(call))?;
            if let Some(answer) = self.decision(result).filter(|_| !self.answered) {
                self.audit.defer(self.charged(), move || Record::Answer(answer))?;
            }
        }
        let ending = CallEnding::new(self.of(), result);
        self.audit.defer(self.charged(), move || ending.record())
    }

    const fn charged(&self) -> VolumeOwner {
        VolumeOwner::User(self.call.uid)
    }

    fn cwd(&self) -> CleanText {
        CleanText::new(&String::from_utf8_lossy(&self.cwd.get()))
    }

    fn of(&self) -> EndedCall {
        EndedCall {
            call_id: self.call.call_id.clone(),
            session: self.call.session.clone(),
            attachment: self.attachment.as_ref().map(Tally::digest),
            duration_us: u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX),
            keeps: self.keeps,
        }
    }
}

/// Records the end of a call whose client disconnected: such a call is dropped at whatever stage it
/// is, and what it had started is ended.
impl Drop for CallAudit {
    fn drop(&mut self) {
        if self.state != CallAuditState::Ticketed {
            return;
        }
        let ending = CallEnding::abandoned(self.of());
        if let Err(error) = self.audit.defer(self.charged(), move || ending.record()) {
            self.audit.lose();
            tracing::error!(%error, "could not record the end of an abandoned call");
        }
        self.audit.replied();
    }
}

/// Converts findings for a record. If there are too many, only the first and last ones are
/// recorded.
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

fn claim(claim: &palisade_protocol::Claim) -> Claim {
    Claim { name: CleanText::new(&claim.name), value: CleanText::new(&claim.value) }
}

fn thinking(thinking: &ReverseThinking) -> Thinking {
    Thinking {
        assumptions: CleanText::list(&thinking.assumptions),
        failure_scenarios: CleanText::list(&thinking.failure_scenarios),
        verdict: CleanText::new(&thinking.verdict),
        verdict_reason: CleanText::new(&thinking.verdict_reason),
    }
}
