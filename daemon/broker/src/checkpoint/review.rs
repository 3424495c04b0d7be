//! Output review: what a call gave is seen by a handler before the agent sees it, where the profile
//! says so. Anything but a clear yes withholds it. Broker.

use super::{consult, question::Subject};
use crate::{
    audit::docket::{Answering, Docket},
    checkpoint::verdict::Verdict,
    news,
    outcome::Outcome,
    seen::Seen,
    server::Server,
    session::Session,
    task::Task,
    tools::Tool,
};
use palisade_policy::Facts;
use palisade_protocol::{
    Approval, Call, CallId, Checkpoint, ErrorCode, QuestionId, Review, WireError,
};
use std::sync::Arc;

/// What a review needs to know of a call that ran.
#[derive(Debug)]
pub(crate) struct Reviewed {
    pub(crate) session: Arc<Session>,
    pub(crate) call_id: CallId,
    pub(crate) tool: Arc<Tool>,
    pub(crate) call: Call,
    pub(crate) task: Task,
    pub(crate) placeholder: QuestionId,
}

impl Reviewed {
    /// Has the output reviewed, and gives what is left of it.
    pub(crate) async fn review(
        self,
        server: &Server,
        docket: &mut Docket,
        outcome: Outcome,
    ) -> Outcome {
        let shown = shown(&outcome);
        let (facts, seen) = (Facts::default(), Seen { cwd: self.session.cwd(), ..Seen::default() });
        let tool = &self.tool.spec.name;
        let mut inquiry = Subject {
            session: &self.session,
            call_id: &self.call_id,
            tool,
            call: &self.call,
            task: &self.task,
            attachment: None,
            facts: &facts,
            seen: &seen,
            findings: &outcome.findings,
            why: "handlers.review_output",
            review: Review::Output,
            output: Some(shown),
        }
        .inquiry(self.placeholder.clone());
        let put = match consult::put(server, docket, &mut inquiry).await {
            Ok(put) => put,
            Err(error) => {
                self.drop_spool(server, &outcome).await;
                let (decision, by) = ("withheld".to_owned(), "default".to_owned());
                let reason = "the question could not be recorded".to_owned();
                return withheld(outcome, Checkpoint { decision, by, reason }, error);
            }
        };
        let verdict = server.desk.ask(inquiry).await;
        let (decision, by, reason) = match &verdict {
            Verdict::Approved { by, .. } => ("passed", by, ""),
            Verdict::Replaced { by, .. } => ("replaced", by, ""),
            Verdict::Modified { by, .. } | Verdict::Part { by, .. } => {
                ("withheld", by, "the answer was of the wrong kind")
            }
            Verdict::Denied { by, reason, .. } => ("withheld", by, reason.as_str()),
        };
        let checkpoint =
            Checkpoint { decision: decision.to_owned(), by: by.clone(), reason: reason.to_owned() };
        let (review, asked) = (Review::Output, Some(&put));
        let answering = Answering { review, checkpoint: &checkpoint, remember: None, asked };
        if let Err(error) = docket.answer(answering).await {
            self.drop_spool(server, &outcome).await;
            return withheld(outcome, checkpoint, WireError::from(error));
        }
        let approval = Approval {
            session: self.session.id.clone(),
            call_id: self.call_id.clone(),
            tool: tool.clone(),
            review: Review::Output,
            decision: checkpoint.decision.clone(),
            by: checkpoint.by.clone(),
            reason: checkpoint.reason.clone(),
            digest: put.digest.clone(),
        };
        news::decided(server, &self.session, approval);
        match verdict {
            Verdict::Approved { .. } => outcome,
            Verdict::Replaced { output, .. } => {
                self.drop_spool(server, &outcome).await;
                Outcome { output, checkpoint: Some(checkpoint), ..emptied(outcome) }
            }
            Verdict::Denied { .. } | Verdict::Modified { .. } | Verdict::Part { .. } => {
                self.drop_spool(server, &outcome).await;
                let message = format!("the call ran, and its output is kept back: {reason}");
                let error = WireError::new(ErrorCode::Withheld, message, "go on without it");
                withheld(outcome, checkpoint, error)
            }
        }
    }

    /// What is not to be seen is not to be paged through either.
    async fn drop_spool(&self, server: &Server, outcome: &Outcome) {
        if outcome.spooled {
            server.spools.remove(&self.call_id).await;
        }
    }
}

/// Everything of an outcome that the agent would see.
fn shown(outcome: &Outcome) -> String {
    let mut shown = outcome.output.clone();
    if let Some(data) = &outcome.data {
        shown.push_str("\n--- data\n");
        shown.push_str(data.as_str());
    }
    if let Some(error) = &outcome.error {
        shown.push_str("\n--- error\n");
        shown.push_str(&error.to_string());
    }
    shown
}

/// An outcome without anything that the program or file said.
fn emptied(outcome: Outcome) -> Outcome {
    Outcome {
        output: String::new(),
        stdout: String::new(),
        stderr: String::new(),
        data: None,
        spooled: false,
        omitted: 0,
        ..outcome
    }
}

fn withheld(outcome: Outcome, checkpoint: Checkpoint, error: WireError) -> Outcome {
    Outcome { error: Some(error), checkpoint: Some(checkpoint), ..emptied(outcome) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::JsonText;

    #[test]
    fn nothing_of_what_is_withheld_is_left() {
        let outcome = Outcome {
            output: "secret".to_owned(),
            stdout: "secret".to_owned(),
            stderr: "secret".to_owned(),
            data: Some(JsonText::parse("{\"content\":\"secret\"}".to_owned()).unwrap()),
            spooled: true,
            omitted: 5,
            exit_code: Some(3),
            ..Outcome::default()
        };
        let checkpoint = Checkpoint {
            decision: "withheld".to_owned(),
            by: "default".to_owned(),
            reason: String::new(),
        };
        assert_eq!(shown(&outcome), "secret\n--- data\n{\"content\":\"secret\"}");
        let left = withheld(outcome, checkpoint, WireError::new(ErrorCode::Withheld, "m", "h"));
        assert!(!format!("{left:?}").contains("secret"));
        assert_eq!((left.exit_code, left.spooled, left.omitted), (Some(3), false, 0));
    }
}
