//! A call as the client requested it. Runs in the broker.

use crate::{
    base::outcome::{Fault, ResultHeader},
    cells::{context::Context, turn::QueuePlace},
    telemetry::StartedCall,
};
use palisade_protocol::{Call, Receipt};
use std::time::Instant;

/// A call as the client requested it.
#[derive(Debug)]
pub(crate) struct RequestedCall {
    pub(crate) call: Call,
    pub(crate) context: Context,
    /// Its place in the session's queue of calls.
    pub(crate) place: QueuePlace,
    pub(crate) started: Instant,
    pub(crate) fault: Fault,
}

impl RequestedCall {
    /// Returns the call as it is reported when it starts.
    pub(crate) fn started_call(&self) -> StartedCall<'_> {
        StartedCall {
            session: &self.context.session,
            cwd: &self.context.session.files.cwd,
            call_id: &self.context.call_id,
            call: &self.call,
            input: self.context.input.as_ref(),
            cancel: &self.context.cancel,
            fault: &self.fault,
            started: self.started,
        }
    }

    /// Returns the parts of the result that do not depend on the outcome.
    pub(crate) fn result_header(&self) -> ResultHeader {
        ResultHeader {
            call_id: self.context.call_id.clone(),
            tool: self.call.tool.clone(),
            receipt: Receipt::default(),
            started: self.started,
            fault: self.fault.clone(),
        }
    }
}
