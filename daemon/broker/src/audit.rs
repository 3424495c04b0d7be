//! The audit log as the broker keeps it: every call has a docket, which is written before the call
//! takes effect and closed when it ends. Broker.

use crate::{
    cleared::Judged,
    job::Job,
    session::{Peer, Session},
    stages::Asked,
    watchdog::Ended,
};
use palisade_audit::{
    Answer, AuditError, By, Call, CallResult as Result_, CleanJson, CleanText, Decision, Finding,
    Hash, JobEnd, Judgement, Log, Options, Record, Review, SessionClose, SessionOpen, Sync, Ticket,
};
use palisade_plan::BUILD_ID;
use palisade_protocol::{CallResult, Checkpoint, ErrorCode, Severity, WireError};
use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// The log, or why there is none.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    log: Result<Arc<Log>, Arc<str>>,
    sync: Sync,
}

/// Why something was not recorded, and so was not done.
#[derive(Debug, thiserror::Error)]
#[error("the audit log can not be written: {0}")]
pub(crate) struct Unrecorded(String);

impl From<Unrecorded> for WireError {
    fn from(error: Unrecorded) -> Self {
        Self::new(
            ErrorCode::AuditFailed,
            error.to_string(),
            "nothing runs that is not recorded: make room for, or give access to, the directory \
             `audit` in the daemon's state",
        )
    }
}

impl Audit {
    /// Opens the log of a directory.
    pub(crate) fn open(directory: &Path, sync: Sync) -> Result<Self, AuditError> {
        let log = Log::open(directory, Options { sync, ..Options::new(BUILD_ID) })?;
        Ok(Self { log: Ok(Arc::new(log)), sync })
    }

    /// No log: nothing can be recorded, so nothing runs.
    pub(crate) fn none(why: &str) -> Self {
        Self { log: Err(why.into()), sync: Sync::default() }
    }

    /// Writes a record. That does not wait for the disk, unless it is to; then not on this thread.
    async fn record(&self, record: Record) -> Result<Ticket, Unrecorded> {
        let log = self.log.as_ref().map_err(|why| Unrecorded(why.to_string()))?;
        let written = match self.sync {
            Sync::Within(_) => log.append(&record),
            Sync::Always => {
                let log = Arc::clone(log);
                tokio::task::spawn_blocking(move || log.append(&record))
                    .await
                    .map_err(|error| Unrecorded(error.to_string()))?
            }
        };
        written.map_err(|error| Unrecorded(error.to_string()))
    }

    /// Records that a session was opened.
    pub(crate) async fn opened(&self, session: &Session) -> Result<(), Unrecorded> {
        let Peer { uid, pid, .. } = session.peer;
        let ask = serde_json::to_value(session.ask).unwrap_or_default();
        let record = Record::SessionOpen(SessionOpen {
            session: session.id.to_string(),
            uid,
            pid,
            profile: session.profile.name().to_owned(),
            ask: ask.as_str().unwrap_or_default().to_owned(),
            workspace: CleanText::new(&String::from_utf8_lossy(&session.workspace.0)),
        });
        self.record(record).await.map(drop)
    }

    /// Records that a job ended. It has ended in any case.
    pub(crate) async fn job_ended(
        &self,
        session: &Session,
        job: &Job,
        ended: &Ended,
        lasted: Duration,
    ) {
        let record = JobEnd {
            call_id: job.call_id.to_string(),
            session: session.id.to_string(),
            job: job.number,
            exit_code: ended.exit_code,
            signal: ended.signal,
            error: ended.error.as_ref().map(|error| error.code.name()),
            output_bytes: job.progress().total,
            duration_us: u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX),
        };
        if let Err(error) = self.record(Record::JobEnd(record)).await {
            tracing::error!(%error, "the end of a job is not recorded");
        }
    }

    /// Records that a session ended. It has ended in any case.
    pub(crate) async fn closed(&self, session: &Session) {
        let calls = session.calls.load(Ordering::Relaxed);
        let record = SessionClose { session: session.id.to_string(), calls };
        if let Err(error) = self.record(Record::SessionClose(record)).await {
            tracing::error!(%error, "the end of a session is not recorded");
        }
    }
}

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
}

/// A decision of a checkpoint.
#[derive(Debug)]
pub(crate) struct Answering<'a> {
    pub(crate) review: palisade_protocol::Review,
    pub(crate) checkpoint: &'a Checkpoint,
    /// Of what was shown; empty if nothing was.
    pub(crate) digest: &'a str,
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
        };
        let (audit, session, started) = (audit.clone(), Arc::clone(session), asked.started);
        Self { audit, call, session, started, state: State::Blank, answered: false }
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
        self.call.findings = findings.iter().map(finding).collect();
    }

    /// Notes the arguments that an approver gave the call.
    pub(crate) fn modified(&mut self, call: &palisade_protocol::Call) {
        self.call.digest = Hash::of(call.arguments.as_str().as_bytes());
        self.call.arguments = CleanJson::new(call.arguments.as_str());
    }

    /// Writes a decision into the log; only then it counts.
    pub(crate) async fn answer(&mut self, answering: Answering<'_>) -> Result<(), Unrecorded> {
        let Answering { review, checkpoint, digest } = answering;
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
            question: None,
            call_id: self.call.call_id.clone(),
            session: self.call.session.clone(),
            review: match review {
                palisade_protocol::Review::Input => Review::Input,
                palisade_protocol::Review::Output => Review::Output,
            },
            decision,
            by,
            reason: CleanText::new(&checkpoint.reason),
            digest: digest.parse().ok(),
            remember: None,
        });
        self.audit.record(record).await.map(drop)?;
        self.answered = true;
        Ok(())
    }

    /// Writes the call into the log; only then it may take effect.
    pub(crate) async fn ticket(&mut self) -> Result<Ticket, Unrecorded> {
        self.call.cwd = CleanText::new(&String::from_utf8_lossy(&self.session.cwd()));
        let ticket = self.audit.record(Record::Call(self.call.clone())).await?;
        self.state = State::Ticketed;
        Ok(ticket)
    }

    /// Writes the result, and before it the call and the decision if it came to no ticket. What
    /// was done can not be undone by a log that fails now; the result then says so.
    pub(crate) async fn close(mut self, mut result: CallResult) -> CallResult {
        if let Err(error) = self.write(&result).await {
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

    async fn write(&mut self, result: &CallResult) -> Result<(), Unrecorded> {
        if self.state == State::Blank {
            drop(self.ticket().await?);
            if let Some(answer) = self.decision(result).filter(|_| !self.answered) {
                self.audit.record(Record::Answer(answer)).await.map(drop)?;
            }
        }
        self.audit.record(Record::Result(self.result(result))).await.map(drop)
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

    fn result(&self, result: &CallResult) -> Result_ {
        Result_ {
            call_id: self.call.call_id.clone(),
            session: self.call.session.clone(),
            success: result.success,
            error: result.error.as_ref().map(|error| error.code.name()),
            message: result.error.as_ref().map(|error| CleanText::new(&error.message)),
            exit_code: result.exit_code,
            signal: result.signal,
            output: CleanText::new(&result.output),
            output_bytes: result.output.len() as u64,
            output_digest: Hash::of(result.output.as_bytes()),
            data_digest: result.data.as_ref().map(|data| Hash::of(data.as_str().as_bytes())),
            omitted_bytes: result.omitted_bytes,
            duration_us: u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// A call whose client left is dropped where it stands, and what it had begun is ended.
impl Drop for Docket {
    fn drop(&mut self) {
        if self.state != State::Ticketed {
            return;
        }
        let record = Record::Result(Result_ {
            call_id: self.call.call_id.clone(),
            session: self.call.session.clone(),
            success: false,
            error: Some(ErrorCode::Cancelled.name()),
            message: Some("the client left before the call ended".into()),
            exit_code: None,
            signal: None,
            output: CleanText::default(),
            output_bytes: 0,
            output_digest: Hash::of(b""),
            data_digest: None,
            omitted_bytes: 0,
            duration_us: u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        });
        if let Ok(log) = &self.audit.log
            && let Err(error) = log.append(&record)
        {
            tracing::error!(%error, "the end of an abandoned call is not recorded");
        }
    }
}
