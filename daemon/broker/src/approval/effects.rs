//! Asks for approval of what a command changed in its transaction. The request shows the change
//! set. The answer is bound to the change set's digest, and is recorded before it takes effect.
//! Runs in the broker.

use super::{
    question::{self, Subject},
    service::ApprovalService,
};
use crate::{
    approval::verdict::{Decider, Verdict},
    base::{error::CallError, outcome::Outcome, preview::Preview, task::Task},
    cells::{seen::TargetSnapshot, session::Session},
    telemetry::{
        DecidedCall,
        audit::docket::{CallAudit, CheckpointDecision},
    },
};
use palisade_policy::{Facts, Question};
use palisade_protocol::{Call, CallId, Checkpoint, Part, Review, ToolName, WireError};
use tokio_util::sync::CancellationToken;

/// The call and the change set that an approver is asked about.
#[derive(Debug)]
pub(crate) struct ChangeSetReview<'a> {
    pub(crate) session: &'a Session,
    pub(crate) call_id: &'a CallId,
    pub(crate) tool: &'a ToolName,
    pub(crate) call: &'a Call,
    pub(crate) task: &'a Task,
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) facts: &'a Facts,
    pub(crate) preview: &'a Preview,
    pub(crate) question: &'a Question,
}

/// The decision about a change set.
#[derive(Debug)]
pub(crate) enum ChangeSetDecision {
    /// All changes are to be committed.
    All(Checkpoint),
    /// All changes but these are to be committed.
    Part(Checkpoint, Part),
    /// All changes are to be discarded.
    Denied { by: Decider, reason: String, guidance: String },
}

/// Asks whether the changes of a command may be committed.
pub(crate) async fn ask(
    approvals: &ApprovalService,
    docket: &mut CallAudit,
    asking: ChangeSetReview<'_>,
) -> Result<ChangeSetDecision, Box<Outcome>> {
    let ChangeSetReview { session, call_id, tool, .. } = asking;
    let cwd = session.cwd();
    let seen = TargetSnapshot { cwd, targets: Vec::new(), change: Some(asking.preview.clone()) };
    let mut inquiry = Subject {
        session,
        call_id,
        tool,
        call: asking.call,
        task: asking.task,
        attachment: None,
        facts: asking.facts,
        seen: &seen,
        findings: asking.question.findings(),
        why: asking.question.rule(),
        review: Review::Effects,
        output: None,
    }
    .inquiry(question::placeholder()?);
    // The timeout of the program does not limit the time for an answer.
    inquiry.patience = None;
    let put = approvals
        .put(docket, &mut inquiry)
        .await
        .map_err(|error| Box::new(Outcome::from(error)))?;
    let asked_under = approvals.live.profile_digest(session.profile.name());
    let verdict = tokio::select! {
        biased;
        verdict = approvals.desk.ask(inquiry) => verdict,
        () = asking.cancel.cancelled() => return Err(CallError::Cancelled.into()),
    };
    session.check()?;
    let verdict = match verdict {
        Verdict::Denied { .. } => verdict,
        _ if approvals.live.profile_digest(session.profile.name()) != asked_under => {
            Verdict::default("the profile changed in the meantime", "make the call again")
        }
        Verdict::Modified { .. } | Verdict::Replaced { .. } => {
            Verdict::default("the answer did not fit the kind of review", "")
        }
        Verdict::Approved { .. } | Verdict::Part { .. } => verdict,
    };
    let text = str::to_owned;
    let (checkpoint, decided) = match verdict {
        Verdict::Approved { by, .. } => {
            let (decision, by) = (text("approved"), by.to_string());
            let checkpoint = Checkpoint { decision, by, reason: String::new() };
            (checkpoint.clone(), ChangeSetDecision::All(checkpoint))
        }
        Verdict::Part { by, part } => {
            let reason = text("some of its changes were left out");
            let checkpoint = Checkpoint { decision: text("approved"), by: by.to_string(), reason };
            (checkpoint.clone(), ChangeSetDecision::Part(checkpoint, part))
        }
        Verdict::Denied { by, reason, guidance } => {
            let (decision, said) = (text("denied"), reason.clone());
            let checkpoint = Checkpoint { decision, by: by.to_string(), reason: said };
            (checkpoint, ChangeSetDecision::Denied { by, reason, guidance })
        }
        Verdict::Modified { .. } | Verdict::Replaced { .. } => {
            return Err(CallError::Cell("an answer was taken for another".to_owned()).into());
        }
    };
    let answering = CheckpointDecision {
        review: Review::Effects,
        checkpoint: &checkpoint,
        remember: None,
        asked: Some(&put),
    };
    let recorded = docket.answer(answering).await;
    recorded.map_err(|error| Box::new(Outcome::from(WireError::from(error))))?;
    let told = DecidedCall {
        call_id,
        tool,
        arguments: &asking.call.arguments,
        review: Review::Effects,
        checkpoint: &checkpoint,
        digest: &put.digest,
    };
    approvals.telemetry.decided(session, &told);
    Ok(decided)
}
