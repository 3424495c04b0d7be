//! Asks about one call: memory first, then the handlers, and what they say is recorded and told
//! before anything comes of it. Broker.

use super::{grants::Kept, question::Subject};
use crate::{
    attachment::Attachment,
    audit::docket::{Answering, Docket, Put},
    checkpoint::{inquiry::Inquiry, verdict::Verdict},
    dry::report::{rendered, report},
    error::CallError,
    gather::{self, gathered::Gathered},
    news,
    outcome::Outcome,
    seen::Seen,
    server::Server,
    stages::checked::Checked,
};
use palisade_policy::{Grant, Judgement, Question};
use palisade_protocol::{
    Approval, Call, Checkpoint, ErrorCode, JsonText, QuestionId, Review, WireError,
};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A call that was approved.
#[derive(Debug)]
pub(crate) enum Consulted {
    /// By an earlier answer.
    Remembered { call: Checked, grant: Grant, changes: u64 },
    /// By somebody who was shown this.
    Approved { call: Checked, grant: Grant, seen: Seen },
}

/// What a question to an approver is made of.
fn subject<'a>(
    call: &'a Checked,
    gathered: &'a Gathered,
    seen: &'a Seen,
    question: &'a Question,
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
        findings: question.findings(),
        why: question.rule(),
        review: Review::Input,
        output: None,
    }
}

/// Asks about a call.
pub(crate) async fn consult(
    server: &Server,
    docket: &mut Docket,
    mut call: Checked,
    gathered: Gathered,
    question: Question,
) -> Result<Consulted, Box<Outcome>> {
    hold_attachment(&mut call).await?;
    let claim = subject(&call, &gathered, &gathered.seen, &question).claim();
    if let Some((id, by)) = server.desk.remembered(&claim) {
        let by = format!("remembered:{id} of {by}");
        let checkpoint = checkpoint("approved", &by, "an earlier approval covers it");
        told(server, docket, &call, &checkpoint, None, &[]).await?;
        let (grant, changes) = (question.approved(checkpoint), gathered.changes);
        return Ok(Consulted::Remembered { call, grant, changes });
    }
    let held = call.attachment().and_then(Attachment::held);
    let seen =
        gather::closely(call.session(), call.task(), &gathered.seen, held.as_deref()).await?;
    let mut inquiry = subject(&call, &gathered, &seen, &question).inquiry(placeholder()?);
    let put = put(server, docket, &mut inquiry).await.map_err(|error| Box::new(error.into()))?;
    let asked_under = server.profile_now(call.session().profile.name());
    let verdict = tokio::select! {
        biased;
        verdict = server.desk.ask(inquiry) => verdict,
        () = call.cancelled() => return Err(CallError::Cancelled.into()),
    };
    call.session().check()?;
    let verdict = match verdict {
        Verdict::Denied { .. } => verdict,
        _ if server.profile_now(call.session().profile.name()) != asked_under => {
            Verdict::default("the profile was changed meanwhile", "ask again")
        }
        Verdict::Replaced { .. } | Verdict::Part { .. } => {
            Verdict::default("the answer was of the wrong kind", "")
        }
        Verdict::Approved { .. } | Verdict::Modified { .. } => verdict,
    };
    match verdict {
        Verdict::Approved { by, kept } => {
            let checkpoint = checkpoint("approved", &by, "");
            told(server, docket, &call, &checkpoint, Some(&put), &kept).await?;
            remember(server, docket, kept).await?;
            Ok(Consulted::Approved { call, grant: question.approved(checkpoint), seen })
        }
        Verdict::Modified { by, arguments } => {
            let checkpoint = checkpoint("modified", &by, "its arguments were changed");
            modified(server, docket, call, arguments, checkpoint, &put).await
        }
        verdict @ (Verdict::Denied { .. } | Verdict::Replaced { .. } | Verdict::Part { .. }) => {
            Err(denied(server, docket, &call, question, verdict, &put).await)
        }
    }
}

/// Takes in what follows a call, so that it can be shown before it is used.
async fn hold_attachment(call: &mut Checked) -> Result<(), Box<Outcome>> {
    let profile = &call.session().profile;
    let most = profile.file_bytes();
    let patience = Duration::from_millis(profile.handlers().deadline_ms());
    let cancel = call.cancelling();
    let Some(attachment) = call.attachment_mut() else { return Ok(()) };
    let held = tokio::select! {
        biased;
        held = attachment.hold(most) => held,
        () = cancel.cancelled() => return Err(CallError::Cancelled.into()),
        () = sleep(patience) => Err("it did not come in time".to_owned()),
    };
    held.map_err(|why| {
        let message = format!("the attachment has to be shown to a checkpoint first, and {why}");
        let hint = "send the content in the arguments, or in smaller parts (limits.file_bytes)";
        Box::new(WireError::new(ErrorCode::InvalidArguments, message, hint).into())
    })
}

/// Records a question; only then it is put.
pub(super) async fn put(
    server: &Server,
    docket: &Docket,
    inquiry: &mut Inquiry,
) -> Result<Put, WireError> {
    let handlers = server.desk.announce(inquiry)?;
    Ok(docket.question(inquiry, &handlers).await?)
}

/// Records what is to be remembered; only then it is.
async fn remember(server: &Server, docket: &Docket, kept: Vec<Kept>) -> Result<(), Box<Outcome>> {
    for kept in kept {
        // Another call that asked the same may have done it.
        if server.desk.holds(&kept) {
            continue;
        }
        let recorded = docket.grant(&kept.grant(Instant::now())).await;
        recorded.map_err(|error| Box::new(WireError::from(error).into()))?;
        server.desk.keep(kept);
    }
    Ok(())
}

/// What a dry run of a call that would be asked about reports. Nobody is asked.
pub(crate) fn would_ask(
    server: &Server,
    call: &Checked,
    gathered: &Gathered,
    question: &Question,
) -> Value {
    let claim = subject(call, gathered, &gathered.seen, question).claim();
    let mut report = report(call, "ask", Some(question.rule()));
    report["covered_by"] = server.desk.covering(&claim).map(|id| id.to_string()).into();
    report
}

/// A report as the end of a dry run.
pub(crate) fn told_dry(report: &Value, question: &Question) -> Box<Outcome> {
    let findings = question.findings().to_vec();
    Box::new(Outcome { findings, ..rendered(report) })
}

/// The call with the approver's arguments: validated and judged again. What the approver wrote is
/// what runs, so that is not asked about a second time; a deny rule still holds.
async fn modified(
    server: &Server,
    docket: &mut Docket,
    call: Checked,
    arguments: JsonText,
    checkpoint: Checkpoint,
    put: &Put,
) -> Result<Consulted, Box<Outcome>> {
    let changed = Call { arguments, ..call.call().clone() };
    let call = call.with(changed)?;
    let session = call.session();
    let gathered = gather::gather(&server.analyst, session, call.described(), call.task()).await?;
    // What it would touch is held on to before it is judged: from here on a change is noticed.
    let held = call.attachment().and_then(Attachment::held);
    let seen = gather::closely(session, call.task(), &gathered.seen, held.as_deref()).await?;
    if let Some(what) = gathered.seen.replaced(&seen) {
        return Err(CallError::Stale(what).into());
    }
    let (profile, spec) = (&session.profile, &call.described().spec);
    let route = gathered.route;
    let grant = match palisade_policy::judge(profile, session.ask, spec, &gathered.facts) {
        Judgement::Deny(refusal) => return Err(Box::new(refusal.into())),
        Judgement::Ask(question) => question.approved(checkpoint.clone()),
        Judgement::Allow(grant) => grant.approved(checkpoint.clone()),
    };
    if let Some(error) = gathered.failed {
        return Err(error.into());
    }
    docket.modified(call.call());
    told(server, docket, &call, &checkpoint, Some(put), &[]).await?;
    Ok(Consulted::Approved { call: call.routed(route), grant, seen })
}

fn checkpoint(decision: &str, by: &str, reason: &str) -> Checkpoint {
    let text = str::to_owned;
    Checkpoint { decision: text(decision), by: text(by), reason: text(reason) }
}

/// The desk gives a question its own id.
pub(crate) fn placeholder() -> Result<QuestionId, CallError> {
    "new".parse().map_err(|error: palisade_protocol::NameError| CallError::Cell(error.to_string()))
}

async fn denied(
    server: &Server,
    docket: &mut Docket,
    call: &Checked,
    question: Question,
    verdict: Verdict,
    put: &Put,
) -> Box<Outcome> {
    let Verdict::Denied { by, reason, guidance } = verdict else {
        return CallError::Cell("an answer was taken for another".to_owned()).into();
    };
    let checkpoint = checkpoint("denied", &by, &reason);
    if let Err(unrecorded) = told(server, docket, call, &checkpoint, Some(put), &[]).await {
        return unrecorded;
    }
    let why = question.findings().first().map_or("every call is asked about", |f| f.why.as_str());
    let message = match by.strip_prefix("handler:") {
        Some(name) => format!("{name} said no to {}: {reason}", question.tool()),
        None => format!("{} needs the leave of a checkpoint ({why}): {reason}", question.tool()),
    };
    let error = WireError::new(ErrorCode::Denied, message, guidance.clone());
    Box::new(question.denied(error, &by, &reason, guidance).into())
}

/// Records a decision and tells observers of it.
async fn told(
    server: &Server,
    docket: &mut Docket,
    call: &Checked,
    checkpoint: &Checkpoint,
    put: Option<&Put>,
    kept: &[Kept],
) -> Result<(), Box<Outcome>> {
    let kept: Vec<String> = kept.iter().map(|kept| kept.grant(Instant::now()).summary).collect();
    let kept = kept.join("; ");
    let remember = Some(kept.as_str()).filter(|kept| !kept.is_empty());
    let answering = Answering { review: Review::Input, checkpoint, remember, asked: put };
    docket.answer(answering).await.map_err(|error| Box::new(WireError::from(error).into()))?;
    let session = call.session();
    let approval = Approval {
        session: session.id.clone(),
        call_id: call.call_id().clone(),
        tool: call.tool().clone(),
        review: Review::Input,
        decision: checkpoint.decision.clone(),
        by: checkpoint.by.clone(),
        reason: checkpoint.reason.clone(),
        digest: put.map(|put| put.digest.clone()).unwrap_or_default(),
    };
    news::decided(server, session, approval);
    Ok(())
}
