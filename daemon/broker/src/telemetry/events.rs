//! Reports the events of a call to observers, journal, metrics and traces. Runs in the broker.

use super::{StartedCall, Telemetry, audit::docket::SentRequest, progress::CallProgress};
use crate::base::identity::SessionIdentity;
use palisade_protocol::{
    Approval, CallEnded, CallId, CallResult, CallStarted, Checkpoint, Denied, ErrorCode, Event,
    JsonText, Review, ToolName,
};

/// The longest arguments that an event carries, in bytes; longer ones are left out.
const ARGUMENTS: usize = 16 * 1024;
/// The most output that an event carries, in bytes; the rest is cut.
const OUTPUT: usize = 4 * 1024;

/// A decision of a checkpoint about a call, as it is reported.
#[derive(Debug)]
pub(crate) struct DecidedCall<'a> {
    pub(crate) call_id: &'a CallId,
    pub(crate) tool: &'a ToolName,
    /// The arguments that were decided on.
    pub(crate) arguments: &'a JsonText,
    pub(crate) review: Review,
    pub(crate) checkpoint: &'a Checkpoint,
    /// The approval request, if anybody was asked.
    pub(crate) asked: Option<&'a SentRequest>,
}

/// Returns the arguments of a call, or none if they are too long for an event.
fn short(arguments: &JsonText) -> JsonText {
    match arguments.as_str().len() {
        0..=ARGUMENTS => arguments.clone(),
        _ => JsonText::default(),
    }
}

impl Telemetry {
    /// Reports that a call started.
    pub(crate) fn started(&self, asked: &StartedCall<'_>) {
        let session = asked.session;
        self.observers.tell(&session.id, || {
            Event::CallStarted(CallStarted {
                session: session.id.clone(),
                call_id: asked.call_id.clone(),
                tool: asked.call.tool.clone(),
                arguments: short(&asked.call.arguments),
                reason: asked.call.reason.clone(),
            })
        });
    }

    /// Reports the decision of a checkpoint.
    pub(crate) fn decided(&self, session: &SessionIdentity, decided: &DecidedCall<'_>) {
        self.journal.decided(session, decided);
        self.observers.tell(&session.id, || {
            let checkpoint = decided.checkpoint;
            Event::ToolApproval(Approval {
                session: session.id.clone(),
                call_id: decided.call_id.clone(),
                tool: decided.tool.clone(),
                arguments: short(decided.arguments),
                review: decided.review,
                decision: checkpoint.decision,
                by: checkpoint.by.clone(),
                reason: checkpoint.reason.clone(),
                digest: decided.asked.map(|asked| asked.digest.clone()).unwrap_or_default(),
            })
        });
    }

    /// Reports that a call ended; if it was denied, reports the denial first.
    pub(crate) fn ended(
        &self,
        session: &SessionIdentity,
        progress: &CallProgress,
        result: &CallResult,
    ) {
        self.metrics.ended(result);
        self.journal.ended(session, result);
        self.traces.ended(session, progress, result);
        if let Some(error) = &result.error
            && matches!(error.code, ErrorCode::Denied | ErrorCode::StaleApproval)
        {
            self.observers.tell(&session.id, || {
                Event::Denied(Denied {
                    session: session.id.clone(),
                    call_id: result.call_id.clone(),
                    tool: result.tool.clone(),
                    error: error.clone(),
                })
            });
        }
        self.observers.tell(&session.id, || {
            let end = result.output.floor_char_boundary(OUTPUT);
            Event::CallEnded(CallEnded {
                session: session.id.clone(),
                call_id: result.call_id.clone(),
                tool: result.tool.clone(),
                success: result.success,
                exit_code: result.exit_code,
                error: result.error.clone(),
                output: result.output.get(..end).unwrap_or_default().to_owned(),
                execution_time_ms: result.execution_time_ms,
            })
        });
    }
}
