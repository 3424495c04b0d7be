//! What observers, the journal, metrics and traces hear of a call from its beginning to its end. Broker.

use crate::{course::Course, server::Server, session::Session, stages::asked::Asked};
use palisade_protocol::{
    Approval, CallEnded, CallResult, CallStarted, Denied, ErrorCode, Event, JsonText,
};

/// The longest arguments that are told.
const ARGUMENTS: usize = 16 * 1024;
/// The most output that is told.
const OUTPUT: usize = 4 * 1024;

/// A call begins.
pub(crate) fn started(server: &Server, session: &Session, asked: &Asked) {
    server.observers.tell(&session.id, || {
        let arguments = &asked.call.arguments;
        let short = arguments.as_str().len() <= ARGUMENTS;
        Event::CallStarted(CallStarted {
            session: session.id.clone(),
            call_id: asked.context.call_id.clone(),
            tool: asked.call.tool.clone(),
            arguments: if short { arguments.clone() } else { JsonText::default() },
            reason: asked.call.reason.clone(),
        })
    });
}

/// A checkpoint has decided.
pub(crate) fn decided(server: &Server, session: &Session, approval: Approval) {
    server.journal.decided(session, &approval);
    server.observers.tell(&session.id, || Event::ToolApproval(approval));
}

/// A call has ended; if it was refused, that is told first.
pub(crate) fn ended(server: &Server, session: &Session, course: &Course, result: &CallResult) {
    server.metrics.ended(result);
    server.journal.ended(session, result);
    server.traces.ended(session, course, result);
    if let Some(error) = &result.error
        && matches!(error.code, ErrorCode::Denied | ErrorCode::StaleApproval)
    {
        server.observers.tell(&session.id, || {
            Event::Denied(Denied {
                session: session.id.clone(),
                call_id: result.call_id.clone(),
                tool: result.tool.clone(),
                error: error.clone(),
            })
        });
    }
    server.observers.tell(&session.id, || {
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
