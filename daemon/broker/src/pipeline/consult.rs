//! Asks for approval of one call: first remembered approvals, then the approvers. The decision is
//! recorded and sent to observers before it takes effect. Runs in the broker.

use crate::{
    approval::{
        coverage::ReviewedPart,
        grants::RememberedApproval,
        request::{self as request, Subject},
        service::summaries,
        verdict::{self, Verdict},
    },
    base::{attachment::Attachment, error::CallError, outcome::Outcome},
    cells::seen::TargetSnapshot,
    pipeline::{
        dry::report::report,
        gather::{self, gathered::GatheredFacts},
        services::CallServices,
        stages::checked::CheckedCall,
    },
    telemetry::{
        DecidedCall,
        audit::docket::{CallAudit, CheckpointDecision, SentRequest},
    },
};
use palisade_policy::{Grant, Judgement, RequiredApproval};
use palisade_protocol::{
    ApprovalOutcome, Call, Checkpoint, DecidedBy, ErrorCode, JsonText, Review, WireError,
};
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

/// A call that was approved.
#[derive(Debug)]
pub(crate) enum ApprovedCall {
    /// A remembered approval covers the call.
    Remembered { call: CheckedCall, grant: Grant, changes: u64 },
    /// An approver approved the call and was shown `seen`.
    Approved { call: CheckedCall, grant: Grant, seen: Box<TargetSnapshot> },
}

/// Collects what an approval request is made of.
fn subject<'a>(
    call: &'a CheckedCall,
    gathered: &'a GatheredFacts,
    seen: &'a TargetSnapshot,
    request: &'a RequiredApproval,
) -> Subject<'a> {
    Subject {
        session: call.session(),
        call_id: call.call_id(),
        tool: call.tool(),
        call: call.call(),
        task: call.task(),
        attachment: call.attachment(),
        facts: &gathered.facts,
        seen,
        findings: request.findings(),
        why: request.rule(),
        review: Review::Input,
        output: None,
        part: ReviewedPart::Call,
    }
}

/// Asks for approval of a call.
pub(crate) async fn consult(
    services: &CallServices,
    docket: &mut CallAudit,
    mut call: CheckedCall,
    gathered: GatheredFacts,
    request: RequiredApproval,
) -> Result<ApprovedCall, Box<Outcome>> {
    hold_attachment(&mut call).await?;
    let claim = subject(&call, &gathered, &gathered.seen, &request).claim();
    if let Some((id, by)) = services.approvals.desk.remembered(&claim) {
        let by = DecidedBy::Remembered(format!("{id} of {by}"));
        let checkpoint =
            checkpoint(ApprovalOutcome::Approved, &by, "a remembered approval covers it");
        record_decision(services, docket, &call, &checkpoint, None, &[]).await?;
        let (grant, changes) = (request.approved(checkpoint), gathered.changes);
        return Ok(ApprovedCall::Remembered { call, grant, changes });
    }
    let held = call.attachment().and_then(Attachment::held);
    let seen =
        gather::gather_for_approval(call.session(), call.task(), &gathered.seen, held.as_deref())
            .await?;
    let mut prepared = subject(&call, &gathered, &seen, &request).prepare(request::placeholder()?);
    let mut put = services
        .approvals
        .put(docket, &mut prepared)
        .await
        .map_err(|error| Box::new(error.into()))?;
    let asked_under = services.approvals.live.profile_digest(call.session().profile.name());
    let decided = tokio::select! {
        biased;
        decided = services.approvals.ask(call.context(), prepared) => decided,
        () = call.cancelled() => return Err(CallError::Cancelled.into()),
    };
    call.session().check()?;
    put.approvals = decided.approvals;
    let verdict = match decided.verdict {
        verdict @ Verdict::Denied { .. } => verdict,
        _ if services.approvals.live.profile_digest(call.session().profile.name())
            != asked_under =>
        {
            Verdict::default("the profile changed in the meantime", "make the call again")
        }
        Verdict::Replaced { .. } | Verdict::Part { .. } => {
            Verdict::default("the answer did not fit the kind of review", "")
        }
        verdict @ (Verdict::Approved { .. } | Verdict::Modified { .. }) => verdict,
    };
    match verdict {
        Verdict::Approved { by, kept } => {
            let checkpoint = checkpoint(ApprovalOutcome::Approved, &by, "");
            record_decision(services, docket, &call, &checkpoint, Some(&put), &kept).await?;
            services.approvals.remember(docket, kept).await?;
            Ok(ApprovedCall::Approved {
                call,
                grant: request.approved(checkpoint),
                seen: Box::new(seen),
            })
        }
        Verdict::Modified { by, arguments } => {
            let checkpoint =
                checkpoint(ApprovalOutcome::Modified, &by, "its arguments were changed");
            modified(services, docket, call, arguments, checkpoint, &put).await
        }
        verdict @ (Verdict::Denied { .. } | Verdict::Replaced { .. } | Verdict::Part { .. }) => {
            Err(denied(services, docket, &call, request, verdict, &put).await)
        }
    }
}

/// Receives the whole attachment of a call, so that it can be shown before it is used.
async fn hold_attachment(call: &mut CheckedCall) -> Result<(), Box<Outcome>> {
    let profile = &call.session().profile;
    let most = profile.file_bytes();
    let patience = Duration::from_millis(profile.handlers().deadline_ms());
    let cancel = call.cancelling();
    let Some(attachment) = call.attachment_mut() else { return Ok(()) };
    let held = tokio::select! {
        biased;
        held = attachment.hold(most) => held,
        () = cancel.cancelled() => return Err(CallError::Cancelled.into()),
        () = sleep(patience) => Err("it did not arrive in time".to_owned()),
    };
    held.map_err(|why| {
        let message = format!("an approver must see the attachment first, and {why}");
        let hint = "send the content in the arguments, or in smaller parts (limits.file)";
        Box::new(WireError::new(ErrorCode::InvalidArguments, message, hint).into())
    })
}

/// The dry-run report of a call that would need approval. Nobody is asked.
pub(crate) fn would_ask(
    services: &CallServices,
    call: &CheckedCall,
    gathered: &GatheredFacts,
    request: &RequiredApproval,
) -> Value {
    let claim = subject(call, gathered, &gathered.seen, request).claim();
    let mut report = report(call, "ask", Some(request.rule()));
    report["covered_by"] = services.approvals.desk.covering(&claim).map(|id| id.to_string()).into();
    report
}

/// Ends a dry run with a report.
pub(crate) fn dry_run_outcome(report: &Value, request: &RequiredApproval) -> Box<Outcome> {
    let findings = request.findings().to_vec();
    Box::new(Outcome { findings, ..Outcome::with_data(report) })
}

/// Validates and judges the call again with the approver's arguments. They are what runs, so they
/// are not asked about a second time. A deny rule still holds.
async fn modified(
    services: &CallServices,
    docket: &mut CallAudit,
    call: CheckedCall,
    arguments: JsonText,
    checkpoint: Checkpoint,
    put: &SentRequest,
) -> Result<ApprovedCall, Box<Outcome>> {
    let changed = Call { arguments, ..call.call().clone() };
    let call = call.with(changed)?;
    let session = call.session();
    let mut gathered =
        gather::gather(&services.analyst, session, call.described(), call.task()).await?;
    gathered.facts.findings.extend_from_slice(call.adjusted());
    // The targets are inspected before the call is judged: from here on a change to them is
    // noticed.
    let held = call.attachment().and_then(Attachment::held);
    let seen =
        gather::gather_for_approval(session, call.task(), &gathered.seen, held.as_deref()).await?;
    if let Some(what) = gathered.seen.replaced(&seen) {
        return Err(CallError::Stale(what).into());
    }
    let (profile, spec) = (&session.profile, &call.described().spec);
    let route = gathered.route;
    let grant = match palisade_policy::judge(profile, session.ask, spec, &gathered.facts) {
        Judgement::Deny(refusal) => return Err(Box::new(refusal.into())),
        Judgement::Ask(request) => request.approved(checkpoint.clone()),
        Judgement::Allow(grant) => grant.approved(checkpoint.clone()),
    };
    if let Some(error) = gathered.failed {
        return Err(error.into());
    }
    docket.modified(call.call());
    record_decision(services, docket, &call, &checkpoint, Some(put), &[]).await?;
    Ok(ApprovedCall::Approved {
        call: call.with_route(route, gathered.facts.commands),
        grant,
        seen: Box::new(seen),
    })
}

fn checkpoint(decision: ApprovalOutcome, by: &DecidedBy, reason: &str) -> Checkpoint {
    Checkpoint { decision, by: by.clone(), reason: reason.to_owned() }
}

async fn denied(
    services: &CallServices,
    docket: &mut CallAudit,
    call: &CheckedCall,
    request: RequiredApproval,
    verdict: Verdict,
    put: &SentRequest,
) -> Box<Outcome> {
    let Verdict::Denied { by, reason, guidance } = verdict else {
        return CallError::Cell("an answer was taken for another".to_owned()).into();
    };
    let checkpoint = checkpoint(ApprovalOutcome::Denied, &by, &reason);
    if let Err(unrecorded) =
        record_decision(services, docket, call, &checkpoint, Some(put), &[]).await
    {
        return unrecorded;
    }
    let why = request.findings().first().map_or("every call needs approval", |f| f.why.as_str());
    let message = match by.approver() {
        Some(name) => format!("{name} denied {}: {reason}", request.tool()),
        None => format!("{} needs approval ({why}), and {reason}", request.tool()),
    };
    let remedy = verdict::remedy(&by, &guidance);
    let error = WireError::new(ErrorCode::Denied, message, guidance);
    Box::new(request.denied(error, by, &reason, remedy).into())
}

/// Records a decision and sends it to observers.
async fn record_decision(
    services: &CallServices,
    docket: &mut CallAudit,
    call: &CheckedCall,
    checkpoint: &Checkpoint,
    put: Option<&SentRequest>,
    kept: &[RememberedApproval],
) -> Result<(), Box<Outcome>> {
    let kept = summaries(kept);
    let remember = kept.as_deref();
    let answering = CheckpointDecision { review: Review::Input, checkpoint, remember, asked: put };
    docket.answer(answering).await.map_err(|error| Box::new(WireError::from(error).into()))?;
    let session = call.session();
    let decided = DecidedCall {
        call_id: call.call_id(),
        tool: call.tool(),
        arguments: &call.call().arguments,
        review: Review::Input,
        checkpoint,
        asked: put,
    };
    services.approvals.telemetry.decided(session, &decided);
    Ok(())
}
