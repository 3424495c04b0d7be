//! Asks for approval of what a command changed in its transaction. The request shows the change
//! set. The answer is bound to the change set's digest, and is recorded before it takes effect.
//! Runs in the broker.

use super::{
    coverage::{CommandLosses, ReviewedPart},
    grants::RememberedApproval,
    request::{self, Subject},
    service::{ApprovalService, summaries},
};
use crate::{
    approval::verdict::Verdict,
    base::{error::CallError, outcome::Outcome, preview::Preview, task::Task},
    cells::{context::Context, seen::TargetSnapshot},
    telemetry::{
        DecidedCall,
        audit::docket::{CallAudit, CheckpointDecision, SentRequest},
    },
};
use palisade_policy::{Commands, Facts, RequiredApproval};
use palisade_protocol::{
    ApprovalOutcome, Call, Checkpoint, DecidedBy, Part, Review, ToolName, WireError,
};

/// The call and the change set that an approver is asked about.
#[derive(Debug)]
pub(crate) struct ChangeSetReview<'a> {
    pub(crate) context: &'a Context,
    pub(crate) tool: &'a ToolName,
    pub(crate) call: &'a Call,
    pub(crate) task: &'a Task,
    pub(crate) facts: &'a Facts,
    pub(crate) preview: &'a Preview,
    pub(crate) request: &'a RequiredApproval,
    /// The programs that the command started.
    pub(crate) commands: &'a Commands,
}

/// The decision about a change set.
#[derive(Debug)]
pub(crate) enum ChangeSetDecision {
    /// All changes are to be committed.
    All(Checkpoint),
    /// All changes are to be committed, if undo keeps what is lost: a remembered approval covers them.
    Remembered(Checkpoint),
    /// All changes but these are to be committed.
    Part(Checkpoint, Part),
    /// All changes are to be discarded.
    Denied { by: DecidedBy, reason: String, guidance: String },
}

/// Asks whether the changes of a command may be committed.
pub(crate) async fn ask(
    approvals: &ApprovalService,
    docket: &mut CallAudit,
    asking: ChangeSetReview<'_>,
) -> Result<ChangeSetDecision, Box<Outcome>> {
    let ChangeSetReview { context, tool, .. } = asking;
    let (session, call_id) = (&context.session, &context.call_id);
    let cwd = session.cwd();
    let seen = TargetSnapshot { cwd, targets: Vec::new(), change: Some(asking.preview.clone()) };
    let losses = CommandLosses::of(asking.preview, asking.request, asking.facts, asking.commands);
    let subject = Subject {
        session,
        call_id,
        tool,
        call: asking.call,
        task: asking.task,
        attachment: None,
        facts: asking.facts,
        seen: &seen,
        findings: asking.request.findings(),
        why: asking.request.rule(),
        review: Review::Effects,
        output: None,
        part: ReviewedPart::Effects(losses),
    };
    if let Some((id, by)) = approvals.desk.remembered(&subject.claim()) {
        let checkpoint = Checkpoint {
            decision: ApprovalOutcome::Approved,
            by: DecidedBy::Remembered(format!("{id} of {by}")),
            reason: "a remembered approval covers its losses".to_owned(),
        };
        record(approvals, docket, &asking, &checkpoint, (None, &[])).await?;
        return Ok(ChangeSetDecision::Remembered(checkpoint));
    }
    let mut prepared = subject.prepare(request::placeholder()?);
    // The timeout of the program does not limit the time for an answer.
    prepared.patience = None;
    let mut put = approvals
        .put(docket, &mut prepared)
        .await
        .map_err(|error| Box::new(Outcome::from(error)))?;
    let asked_under = approvals.live.profile_digest(session.profile.name());
    let decided = tokio::select! {
        biased;
        decided = approvals.ask(context, prepared) => decided,
        () = context.cancel.cancelled() => return Err(CallError::Cancelled.into()),
    };
    session.check()?;
    put.approvals = decided.approvals;
    let verdict = match decided.verdict {
        verdict @ Verdict::Denied { .. } => verdict,
        _ if approvals.live.profile_digest(session.profile.name()) != asked_under => {
            Verdict::default("the profile changed in the meantime", "make the call again")
        }
        Verdict::Modified { .. } | Verdict::Replaced { .. } => {
            Verdict::default("the answer did not fit the kind of review", "")
        }
        verdict @ (Verdict::Approved { .. } | Verdict::Part { .. }) => verdict,
    };
    let (checkpoint, decided, kept) = match verdict {
        Verdict::Approved { by, kept } => {
            let decision = ApprovalOutcome::Approved;
            let checkpoint = Checkpoint { decision, by, reason: String::new() };
            (checkpoint.clone(), ChangeSetDecision::All(checkpoint), kept)
        }
        Verdict::Part { by, part } => {
            let reason = "some of its changes were left out".to_owned();
            let checkpoint = Checkpoint { decision: ApprovalOutcome::Approved, by, reason };
            (checkpoint.clone(), ChangeSetDecision::Part(checkpoint, part), Vec::new())
        }
        Verdict::Denied { by, reason, guidance } => {
            let decision = ApprovalOutcome::Denied;
            let checkpoint = Checkpoint { decision, by: by.clone(), reason: reason.clone() };
            (checkpoint, ChangeSetDecision::Denied { by, reason, guidance }, Vec::new())
        }
        Verdict::Modified { .. } | Verdict::Replaced { .. } => {
            return Err(CallError::Cell("an answer was taken for another".to_owned()).into());
        }
    };
    record(approvals, docket, &asking, &checkpoint, (Some(&put), &kept)).await?;
    approvals.remember(docket, kept).await?;
    Ok(decided)
}

/// Records a decision about effects, and sends it to observers.
async fn record(
    approvals: &ApprovalService,
    docket: &mut CallAudit,
    asking: &ChangeSetReview<'_>,
    checkpoint: &Checkpoint,
    (put, kept): (Option<&SentRequest>, &[RememberedApproval]),
) -> Result<(), Box<Outcome>> {
    let kept = summaries(kept);
    let review = Review::Effects;
    let answering =
        CheckpointDecision { review, checkpoint, remember: kept.as_deref(), asked: put };
    let recorded = docket.answer(answering).await;
    recorded.map_err(|error| Box::new(Outcome::from(WireError::from(error))))?;
    let told = DecidedCall {
        call_id: &asking.context.call_id,
        tool: asking.tool,
        arguments: &asking.call.arguments,
        review,
        checkpoint,
        asked: put,
    };
    approvals.telemetry.decided(&asking.context.session, &told);
    Ok(())
}
