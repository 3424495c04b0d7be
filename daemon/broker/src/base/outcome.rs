//! The outcome of a call, and the result that the client gets. Runs in the broker. Pure: no I/O.

use crate::base::{error::CallError, recorded};
use palisade_plan::{Path, record::Recorded};
use palisade_policy::Refusal;
use palisade_protocol::{
    CallId, CallResult, Checkpoint, Degraded, Denial, ErrorCode, Finding, JsonText, Receipt, Route,
    ToolName, WireError,
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

/// The outcome of a call, from which its result is made.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) output: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) lossy: bool,
    pub(crate) omitted: u64,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) timed_out: bool,
    pub(crate) cancelled: bool,
    pub(crate) oom: bool,
    pub(crate) pipe_held: bool,
    pub(crate) spooled: bool,
    pub(crate) data: Option<JsonText>,
    /// The id to pass to the `undo` tool.
    pub(crate) undo: Option<String>,
    pub(crate) error: Option<WireError>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) denials: Vec<Denial>,
    /// The reason that `denials` may be incomplete; empty if nothing is known to be missing.
    pub(crate) unrecorded: String,
    /// The operations that the profile would have denied if it were enforced.
    pub(crate) observed: Vec<Denial>,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The accesses that the runner recorded of a program.
    pub(crate) recorded: Option<Box<Recorded>>,
    /// The hidden or protected name that is the reason of the error.
    pub(crate) about: Option<Path>,
    /// The route of the call's program (reading or transaction).
    pub(crate) route: Option<Route>,
}

impl Outcome {
    /// The outcome of a call that only reports something.
    pub(crate) fn with_data(report: &Value) -> Self {
        match JsonText::render(report) {
            Ok(data) => Self { data: Some(data), ..Self::default() },
            Err(error) => CallError::Io(error.into()).into(),
        }
    }
}

impl From<WireError> for Outcome {
    fn from(error: WireError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }
}

impl From<CallError> for Outcome {
    fn from(error: CallError) -> Self {
        Self {
            data: conflict(&error),
            about: error.about().cloned(),
            timed_out: matches!(error, CallError::TimedOut(_)),
            cancelled: matches!(error, CallError::Cancelled),
            ..Self::from(WireError::from(error))
        }
    }
}

/// Returns the diff of a conflict, which the cell made, for the result's `data`.
fn conflict(error: &CallError) -> Option<JsonText> {
    let (CallError::File(failure) | CallError::Changing { failure, .. }) = error else {
        return None;
    };
    let diff = failure.diff.as_ref()?;
    JsonText::render(&json!({"conflict": {"diff": diff}})).ok()
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Self {
            error: Some(refusal.error),
            findings: refusal.findings,
            denials: refusal.denials,
            checkpoint: refusal.checkpoint,
            ..Self::default()
        }
    }
}

/// An error in a call's attachment, if there was one; it becomes the call's error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fault(Arc<OnceLock<WireError>>);

impl Fault {
    /// Sets the error; only the first one is kept.
    pub(crate) fn set(&self, error: WireError) {
        self.0.get_or_init(|| error);
    }
}

/// The parts that every result of a call has, whatever the outcome.
#[derive(Debug)]
pub(crate) struct ResultHeader {
    pub(crate) call_id: CallId,
    pub(crate) tool: ToolName,
    pub(crate) receipt: Receipt,
    pub(crate) started: Instant,
    pub(crate) fault: Fault,
}

impl ResultHeader {
    /// Builds the result: the last stage of a call.
    pub(crate) fn reply(mut self, mut outcome: Outcome) -> CallResult {
        if !outcome.unrecorded.is_empty() {
            let (layer, why) = ("records".to_owned(), outcome.unrecorded);
            self.receipt.unrecorded.push(Degraded { layer, why });
        }
        if let Some(observed) = &mut self.receipt.observed {
            observed.would_refuse = outcome.observed;
        }
        if let Some(fault) = self.fault.0.get() {
            // An operator who came too late has ended nothing.
            let aborted = fault.code == ErrorCode::Aborted;
            if !aborted || outcome.cancelled {
                outcome.error = Some(fault.clone());
                outcome.cancelled &= !aborted;
            }
        }
        CallResult {
            success: outcome.error.is_none(),
            output: outcome.output,
            truncated: outcome.omitted > 0,
            lossy: outcome.lossy,
            execution_time_ms: u64::try_from(self.started.elapsed().as_millis())
                .unwrap_or(u64::MAX),
            error: outcome.error,
            stdout: outcome.stdout,
            stderr: outcome.stderr,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            timed_out: outcome.timed_out,
            cancelled: outcome.cancelled,
            oom: outcome.oom,
            pipe_held: outcome.pipe_held,
            omitted_bytes: outcome.omitted,
            spool: outcome.spooled.then(|| self.call_id.clone()),
            data: match outcome.recorded {
                Some(recorded) => recorded::with_recorded(outcome.data, &recorded),
                None => outcome.data,
            },
            undo: outcome.undo,
            findings: outcome.findings,
            denials: outcome.denials,
            checkpoint: outcome.checkpoint,
            route: outcome.route,
            call_id: self.call_id,
            tool: self.tool,
            receipt_digest: String::new(),
            receipt: Some(Box::new(self.receipt)),
        }
    }
}
