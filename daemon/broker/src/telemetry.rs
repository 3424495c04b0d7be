//! The reports about calls, sessions and decisions. Runs in the broker.
//!
//! - Owns: the audit log, journal, metrics, traces, logs, observers, the stages of calls under way,
//!   the status for the service manager.
//! - May import: base.
//! - Imported by: boot, front, pipeline, changes, network, approval, cells.

pub(crate) mod audit;
mod events;
pub(crate) mod exposition_text;
pub(crate) mod journal;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod observers;
pub(crate) mod progress;
pub(crate) mod service_status;
pub(crate) mod traces;

use crate::base::{
    attachment::Attachment,
    identity::{SessionIdentity, WorkingDirectory},
    outcome::Fault,
};
use audit::Audit;
pub(crate) use events::DecidedCall;
use journal::Journal;
use metrics::Metrics;
use observers::Observers;
use palisade_protocol::{Call, CallId};
use progress::CallsInProgress;
use std::{sync::Arc, time::Instant};
use tokio_util::sync::CancellationToken;
use traces::Traces;

/// Everything that hears of calls.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) audit: Audit,
    pub(crate) journal: Journal,
    pub(crate) metrics: Metrics,
    pub(crate) traces: Traces,
    pub(crate) observers: Arc<Observers>,
    pub(crate) calls_in_progress: CallsInProgress,
}

/// A call that starts, as it is reported.
#[derive(Debug)]
pub(crate) struct StartedCall<'a> {
    pub(crate) session: &'a SessionIdentity,
    pub(crate) cwd: &'a Arc<WorkingDirectory>,
    pub(crate) call_id: &'a CallId,
    pub(crate) call: &'a Call,
    pub(crate) input: Option<&'a Attachment>,
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) fault: &'a Fault,
    pub(crate) started: Instant,
}

impl Telemetry {
    pub(crate) fn new(audit: Audit, journal: Journal, traces: Traces) -> Self {
        let (metrics, observers, calls_in_progress) = Default::default();
        Self { audit, journal, metrics, traces, observers, calls_in_progress }
    }
}
