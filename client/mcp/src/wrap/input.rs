//! The server's input: each message whole and one after another, as calls of the daemon. So each is
//! judged, approved where that is asked for, and in the audit log.

use super::output::{ServerEvent, ended_because};
use crate::{
    activity::{self, Activity},
    explain::explain,
};
use palisade_client::{CallResult, ErrorCode, Session, arguments::JobInput, limits::MAX_CHUNK};
use std::time::Duration;
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

/// The time that a server which reads no more input has to end by itself, on a busy machine too. How
/// it ended says more than that it stopped reading.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A line to the server.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The request that the line is; `None` for other messages.
    pub(super) request: Option<u64>,
    /// The name of the tool that the line calls, for rules; `None` for other messages.
    pub(super) tool: Option<String>,
    pub(super) line: String,
    /// The reason that approvers and the audit log are told.
    pub(super) reason: String,
    /// Hears whether the line waits for approval.
    pub(super) told: watch::Sender<Activity>,
}

/// Writes lines to the server, each whole and one after another.
pub(super) async fn write(
    session: Session,
    job: u64,
    mut outgoing: mpsc::Receiver<Outgoing>,
    events: mpsc::Sender<ServerEvent>,
) {
    while let Some(Outgoing { request, tool, line, reason, told }) = outgoing.recv().await {
        let tool = tool.as_deref().unwrap_or("job_input");
        let mut rest = line.as_str();
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.floor_char_boundary(MAX_CHUNK));
            let is_first = rest.len() == line.len();
            let input = JobInput { job, data: piece.to_owned(), ..JobInput::default() };
            let call = session.call(tool, input).reason(reason.clone());
            let event = match activity::make(call, &told).await {
                Ok(result) if result.success => {
                    rest = later;
                    continue;
                }
                Ok(result) if is_first && is_denied(&result) => {
                    ServerEvent::Denied { request, why: explain_result(&result) }
                }
                // The reader sees the end of the job, and knows more about it.
                Ok(result) if is_over(&result) => return,
                Ok(result) => {
                    // If it ended, the reader says more about that.
                    sleep(LAST_WORDS).await;
                    ServerEvent::Ended(ended_because(explain_result(&result)))
                }
                Err(error) => ServerEvent::Ended(explain(&error)),
            };
            let is_end = matches!(event, ServerEvent::Ended(_));
            if events.send(event).await.is_err() || is_end {
                return;
            }
            break;
        }
    }
}

fn is_denied(result: &CallResult) -> bool {
    result.error.as_ref().is_some_and(|error| error.code == ErrorCode::Denied)
}

fn is_over(result: &CallResult) -> bool {
    result.error.as_ref().is_some_and(|error| error.code == ErrorCode::NotFound)
}

/// Says why a call of the daemon did not succeed.
pub(super) fn explain_result(result: &CallResult) -> String {
    match &result.error {
        Some(error) if error.hint.is_empty() => error.message.clone(),
        Some(error) => format!("{}; {}", error.message, error.hint),
        None => format!("{} did not succeed and gave no reason", result.tool),
    }
}
