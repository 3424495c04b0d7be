//! Asks about one call: memory first, then the handlers, and what they say is recorded and told
//! before anything comes of it. Broker.

use super::{desk::Verdict, question::Subject};
use crate::{
    audit::{Answering, Docket},
    error::CallError,
    gather::{self, Gathered},
    outcome::Outcome,
    seen::Seen,
    server::Server,
    stages::Checked,
};
use palisade_policy::{Grant, Judgement, Question};
use palisade_protocol::{
    Approval, Call, Checkpoint, ErrorCode, Event, JsonText, QuestionId, Review, WireError,
};

/// A call that was approved.
#[derive(Debug)]
pub(crate) enum Consulted {
    /// By an earlier answer.
    Remembered { call: Checked, grant: Grant, changes: u64 },
    /// By somebody who was shown this.
    Approved { call: Checked, grant: Grant, seen: Seen },
}

/// Asks about a call.
pub(crate) async fn consult(
    server: &Server,
    docket: &mut Docket,
    call: Checked,
    gathered: Gathered,
    question: Question,
) -> Result<Consulted, Box<Outcome>> {
    let Gathered { facts, seen, changes } = gathered;
    let session = call.session();
    let subject = |seen| Subject {
        session,
        call_id: call.call_id(),
        tool: call.tool(),
        call: call.call(),
        task: call.task(),
        facts: &facts,
        seen,
        findings: question.findings(),
        why: question.rule(),
        review: Review::Input,
        output: None,
    };
    if let Some((id, by)) = server.desk.remembered(&subject(&seen).claim()) {
        let by = format!("remembered:{id} of {by}");
        let checkpoint = checkpoint("approved", &by, "an earlier approval covers it");
        told(server, docket, &call, &checkpoint, String::new()).await?;
        let grant = question.approved(checkpoint);
        return Ok(Consulted::Remembered { call, grant, changes });
    }
    if call.call().options.attach {
        let verdict = Verdict::default(
            "what follows as an attachment can not be shown before it is there",
            "send the content in the arguments",
        );
        return Err(denied(server, docket, &call, question, verdict, String::new()).await);
    }
    let seen = seen.closely(session).await?;
    let inquiry = subject(&seen).inquiry(placeholder()?);
    let digest = inquiry.question.digest.clone();
    let verdict = tokio::select! {
        biased;
        verdict = server.desk.ask(inquiry) => verdict,
        () = call.cancelled() => return Err(CallError::Cancelled.into()),
    };
    session.check()?;
    let verdict = match verdict {
        Verdict::Denied { .. } => verdict,
        _ if server.has_other_profile(&session.profile) => {
            Verdict::default("the profile was changed meanwhile", "ask again")
        }
        Verdict::Replaced { .. } => Verdict::default("the answer was of the wrong kind", ""),
        Verdict::Approved { .. } | Verdict::Modified { .. } => verdict,
    };
    match verdict {
        Verdict::Approved { by } => {
            let checkpoint = checkpoint("approved", &by, "");
            told(server, docket, &call, &checkpoint, digest).await?;
            Ok(Consulted::Approved { call, grant: question.approved(checkpoint), seen })
        }
        Verdict::Modified { by, arguments } => {
            let checkpoint = checkpoint("modified", &by, "its arguments were changed");
            modified(server, docket, call, arguments, checkpoint, digest).await
        }
        verdict @ (Verdict::Denied { .. } | Verdict::Replaced { .. }) => {
            Err(denied(server, docket, &call, question, verdict, digest).await)
        }
    }
}

/// The call with the approver's arguments: validated and judged again. What the approver wrote is
/// what runs, so that is not asked about a second time; a deny rule still holds.
async fn modified(
    server: &Server,
    docket: &mut Docket,
    call: Checked,
    arguments: JsonText,
    checkpoint: Checkpoint,
    digest: String,
) -> Result<Consulted, Box<Outcome>> {
    let changed = Call { arguments, ..call.call().clone() };
    let call = call.with(changed)?;
    let session = call.session();
    let gathered = gather::gather(&server.analyst, session, call.described(), call.task()).await?;
    let (profile, spec) = (&session.profile, &call.described().spec);
    let grant = match palisade_policy::judge(profile, session.ask, spec, &gathered.facts) {
        Judgement::Deny(refusal) => return Err(Box::new(refusal.into())),
        Judgement::Ask(question) => question.approved(checkpoint.clone()),
        Judgement::Allow(grant) => grant.approved(checkpoint.clone()),
    };
    docket.modified(call.call());
    told(server, docket, &call, &checkpoint, digest).await?;
    let seen = gathered.seen.closely(session).await?;
    Ok(Consulted::Approved { call, grant, seen })
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
    digest: String,
) -> Box<Outcome> {
    let Verdict::Denied { by, reason, guidance } = verdict else {
        return CallError::Cell("an answer was taken for another".to_owned()).into();
    };
    let checkpoint = checkpoint("denied", &by, &reason);
    if let Err(unrecorded) = told(server, docket, call, &checkpoint, digest).await {
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
    digest: String,
) -> Result<(), Box<Outcome>> {
    let answering = Answering { review: Review::Input, checkpoint, digest: &digest };
    docket.answer(answering).await.map_err(|error| Box::new(WireError::from(error).into()))?;
    let session = call.session();
    server.observers.tell(session, || {
        Event::ToolApproval(Approval {
            session: session.id.clone(),
            call_id: call.call_id().clone(),
            tool: call.tool().clone(),
            review: Review::Input,
            decision: checkpoint.decision.clone(),
            by: checkpoint.by.clone(),
            reason: checkpoint.reason.clone(),
            digest: digest.clone(),
        })
    });
    Ok(())
}
