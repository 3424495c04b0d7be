//! Asks about what a command did in its transaction. The question shows the change set, the answer
//! is bound to its digest, and is recorded before anything comes of it. Broker.

use super::{consult, question::Subject};
use crate::{
    audit::docket::{Answering, Docket},
    change::Preview,
    checkpoint::verdict::Verdict,
    error::CallError,
    news,
    outcome::Outcome,
    seen::Seen,
    server::Server,
    session::Session,
    task::Task,
};
use palisade_policy::{Facts, Question};
use palisade_protocol::{Approval, Call, CallId, Checkpoint, Part, Review, ToolName, WireError};
use tokio_util::sync::CancellationToken;

/// What is asked about.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
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

/// What was said.
#[derive(Debug)]
pub(crate) enum Decided {
    /// All of it counts.
    All(Checkpoint),
    /// All but this.
    Part(Checkpoint, Part),
    /// None of it.
    Denied { by: String, reason: String, guidance: String },
}

/// Asks whether what a command did may count.
pub(crate) async fn ask(
    server: &Server,
    docket: &mut Docket,
    asking: Asking<'_>,
) -> Result<Decided, Box<Outcome>> {
    let Asking { session, call_id, tool, .. } = asking;
    let cwd = session.cwd();
    let seen = Seen { cwd, targets: Vec::new(), change: Some(asking.preview.clone()) };
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
    .inquiry(consult::placeholder()?);
    // How long the program may run says nothing of how long an answer may take.
    inquiry.patience = None;
    let put = consult::put(server, docket, &mut inquiry)
        .await
        .map_err(|error| Box::new(Outcome::from(error)))?;
    let asked_under = server.profile_now(session.profile.name());
    let verdict = tokio::select! {
        biased;
        verdict = server.desk.ask(inquiry) => verdict,
        () = asking.cancel.cancelled() => return Err(CallError::Cancelled.into()),
    };
    session.check()?;
    let verdict = match verdict {
        Verdict::Denied { .. } => verdict,
        _ if server.profile_now(session.profile.name()) != asked_under => {
            Verdict::default("the profile was changed meanwhile", "make the call again")
        }
        Verdict::Modified { .. } | Verdict::Replaced { .. } => {
            Verdict::default("the answer was of the wrong kind", "")
        }
        Verdict::Approved { .. } | Verdict::Part { .. } => verdict,
    };
    let text = str::to_owned;
    let (checkpoint, decided) = match verdict {
        Verdict::Approved { by, .. } => {
            let checkpoint = Checkpoint { decision: text("approved"), by, reason: String::new() };
            (checkpoint.clone(), Decided::All(checkpoint))
        }
        Verdict::Part { by, part } => {
            let reason = text("a part of what it did was left out");
            let checkpoint = Checkpoint { decision: text("approved"), by, reason };
            (checkpoint.clone(), Decided::Part(checkpoint, part))
        }
        Verdict::Denied { by, reason, guidance } => {
            let (decision, said) = (text("denied"), reason.clone());
            let checkpoint = Checkpoint { decision, by: by.clone(), reason: said };
            (checkpoint, Decided::Denied { by, reason, guidance })
        }
        Verdict::Modified { .. } | Verdict::Replaced { .. } => {
            return Err(CallError::Cell("an answer was taken for another".to_owned()).into());
        }
    };
    let answering = Answering {
        review: Review::Effects,
        checkpoint: &checkpoint,
        remember: None,
        asked: Some(&put),
    };
    let recorded = docket.answer(answering).await;
    recorded.map_err(|error| Box::new(Outcome::from(WireError::from(error))))?;
    let approval = Approval {
        session: session.id.clone(),
        call_id: call_id.clone(),
        tool: tool.clone(),
        review: Review::Effects,
        decision: checkpoint.decision.clone(),
        by: checkpoint.by.clone(),
        reason: checkpoint.reason.clone(),
        digest: put.digest.clone(),
    };
    news::decided(server, session, approval);
    Ok(decided)
}
