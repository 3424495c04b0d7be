//! What became of a call, and the result that the client gets. Broker, pure.

use crate::{error::CallError, recorded};
use palisade_plan::{Path, cell::FileErrorKind, record::Recorded};
use palisade_policy::Refusal;
use palisade_protocol::{
    CallId, CallResult, Checkpoint, Degraded, Denial, Finding, JsonText, Receipt, Route, ToolName,
    WireError,
};
use serde_json::json;
use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

/// What became of a call.
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
    /// An id for `undo`.
    pub(crate) undo: Option<String>,
    pub(crate) error: Option<WireError>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) denials: Vec<Denial>,
    /// Why more may have been refused than `denials` tells; empty if there is nothing of that.
    pub(crate) unrecorded: String,
    /// What the profile would have refused, were it enforced.
    pub(crate) observed: Vec<Denial>,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// What a program used.
    pub(crate) recorded: Option<Box<Recorded>>,
    /// The name that is hidden or protected, where that is what is wrong.
    pub(crate) about: Option<Path>,
    /// Where its program ran.
    pub(crate) route: Option<Route>,
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

/// What a conflict is about, for `data`: the diff that the cell made of it.
fn conflict(error: &CallError) -> Option<JsonText> {
    let (CallError::File(failure) | CallError::Changing { failure, .. }) = error else {
        return None;
    };
    let (_, diff) = failure.message.split_once('\n')?;
    (failure.kind == FileErrorKind::Conflict)
        .then(|| JsonText::render(&json!({"conflict": {"diff": diff}})).ok())?
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

/// What was wrong with a call's attachment, if anything; it then is the call's error.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fault(Arc<OnceLock<WireError>>);

impl Fault {
    /// The first one counts.
    pub(crate) fn set(&self, error: WireError) {
        self.0.get_or_init(|| error);
    }
}

/// What every result of a call says, whatever becomes of it.
#[derive(Debug)]
pub(crate) struct Slip {
    pub(crate) call_id: CallId,
    pub(crate) tool: ToolName,
    pub(crate) receipt: Receipt,
    pub(crate) started: Instant,
    pub(crate) fault: Fault,
}

impl Slip {
    /// The last stage: the result.
    pub(crate) fn reply(mut self, mut outcome: Outcome) -> CallResult {
        if !outcome.unrecorded.is_empty() {
            let (layer, why) = ("records".to_owned(), outcome.unrecorded);
            self.receipt.unrecorded.push(Degraded { layer, why });
        }
        if let Some(observed) = &mut self.receipt.observed {
            observed.would_refuse = outcome.observed;
        }
        if let Some(fault) = self.fault.0.get() {
            outcome.error = Some(fault.clone());
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
                Some(recorded) => recorded::told(outcome.data, &recorded),
                None => outcome.data,
            },
            undo: outcome.undo,
            findings: outcome.findings,
            denials: outcome.denials,
            checkpoint: outcome.checkpoint,
            route: outcome.route,
            call_id: self.call_id,
            tool: self.tool,
            receipt: self.receipt,
        }
    }
}
