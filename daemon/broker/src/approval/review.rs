//! Output review: where the profile says so, an approver sees the output of a call before the agent
//! does. Anything but a clear approval withholds it. Runs in the broker.

use super::{coverage::ReviewedPart, request::Subject, service::ApprovalService};
use crate::{
    approval::verdict::{DecidedRequest, Verdict},
    base::{outcome::Outcome, task::Task},
    cells::{context::Context, seen::TargetSnapshot},
    telemetry::{
        DecidedCall,
        audit::docket::{CallAudit, CheckpointDecision},
    },
    tools::Tool,
};
use palisade_policy::Facts;
use palisade_protocol::{
    ApprovalId, ApprovalOutcome, Call, Checkpoint, DecidedBy, ErrorCode, Review, WireError,
};
use std::sync::Arc;

/// A call that has run and whose output is reviewed.
#[derive(Debug)]
pub(crate) struct ReviewedCall {
    /// Its output store is where the full output is deleted if it is withheld.
    pub(crate) context: Context,
    pub(crate) tool: Arc<Tool>,
    pub(crate) call: Call,
    pub(crate) task: Task,
    pub(crate) placeholder: ApprovalId,
}

impl ReviewedCall {
    /// Asks for approval of the output, and returns what is left of it.
    pub(crate) async fn review(
        self,
        approvals: &ApprovalService,
        docket: &mut CallAudit,
        outcome: Outcome,
    ) -> Outcome {
        let shown = shown(&outcome);
        let (session, call_id) = (&self.context.session, &self.context.call_id);
        let (facts, seen) =
            (Facts::default(), TargetSnapshot { cwd: session.cwd(), ..TargetSnapshot::default() });
        let tool = &self.tool.spec.name;
        let mut prepared = Subject {
            session,
            call_id,
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
            part: ReviewedPart::Call,
        }
        .prepare(self.placeholder.clone());
        let mut put = match approvals.put(docket, &mut prepared).await {
            Ok(put) => put,
            Err(error) => {
                self.drop_spool(&outcome).await;
                let (decision, by) = (ApprovalOutcome::Withheld, DecidedBy::Default);
                let reason = "the approval request could not be recorded".to_owned();
                return withheld(outcome, Checkpoint { decision, by, reason }, error);
            }
        };
        let DecidedRequest { verdict, approvals: given } =
            approvals.ask(&self.context, prepared).await;
        put.approvals = given;
        let (decision, by, reason) = match &verdict {
            Verdict::Approved { by, .. } => (ApprovalOutcome::Passed, by, ""),
            Verdict::Replaced { by, .. } => (ApprovalOutcome::Replaced, by, ""),
            Verdict::Modified { by, .. } | Verdict::Part { by, .. } => {
                (ApprovalOutcome::Withheld, by, "the answer did not fit the kind of review")
            }
            Verdict::Denied { by, reason, .. } => (ApprovalOutcome::Withheld, by, reason.as_str()),
        };
        let checkpoint = Checkpoint { decision, by: by.clone(), reason: reason.to_owned() };
        let (review, asked) = (Review::Output, Some(&put));
        let answering =
            CheckpointDecision { review, checkpoint: &checkpoint, remember: None, asked };
        if let Err(error) = docket.answer(answering).await {
            self.drop_spool(&outcome).await;
            return withheld(outcome, checkpoint, WireError::from(error));
        }
        let decided = DecidedCall {
            call_id,
            tool,
            arguments: &self.call.arguments,
            review: Review::Output,
            checkpoint: &checkpoint,
            asked,
        };
        approvals.telemetry.decided(session, &decided);
        match verdict {
            Verdict::Approved { .. } => outcome,
            Verdict::Replaced { output, data, .. } => {
                self.drop_spool(&outcome).await;
                Outcome { output, data, checkpoint: Some(checkpoint), ..without_content(outcome) }
            }
            Verdict::Denied { .. } | Verdict::Modified { .. } | Verdict::Part { .. } => {
                self.drop_spool(&outcome).await;
                let message = format!("the call ran, but its output is withheld: {reason}");
                let error =
                    WireError::new(ErrorCode::Withheld, message, "continue without the output");
                withheld(outcome, checkpoint, error)
            }
        }
    }

    /// Deletes the full output: what the agent may not see, it may not page through either.
    async fn drop_spool(&self, outcome: &Outcome) {
        if outcome.spooled {
            self.context.spools.remove(&self.context.call_id).await;
        }
    }
}

/// Everything in an outcome that the agent would see.
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

/// An outcome without anything that the program or file contained.
fn without_content(outcome: Outcome) -> Outcome {
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
    Outcome { error: Some(error), checkpoint: Some(checkpoint), ..without_content(outcome) }
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
            decision: ApprovalOutcome::Withheld,
            by: DecidedBy::Default,
            reason: String::new(),
        };
        assert_eq!(shown(&outcome), "secret\n--- data\n{\"content\":\"secret\"}");
        let left = withheld(outcome, checkpoint, WireError::new(ErrorCode::Withheld, "m", "h"));
        assert!(!format!("{left:?}").contains("secret"));
        assert_eq!((left.exit_code, left.spooled, left.omitted), (Some(3), false, 0));
    }
}
