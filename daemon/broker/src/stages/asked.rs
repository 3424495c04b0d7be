//! A call as it was asked for. Broker.

use crate::{
    context::Context,
    outcome::{Fault, Slip},
    turn::Place,
};
use palisade_protocol::{Call, Receipt};
use std::time::Instant;

/// A call as it was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) call: Call,
    pub(crate) context: Context,
    /// Where it stands among the calls of its session.
    pub(crate) place: Place,
    pub(crate) started: Instant,
    pub(crate) fault: Fault,
}

impl Asked {
    /// What the result will say whatever happens.
    pub(crate) fn slip(&self) -> Slip {
        Slip {
            call_id: self.context.call_id.clone(),
            tool: self.call.tool.clone(),
            receipt: Receipt::default(),
            started: self.started,
            fault: self.fault.clone(),
        }
    }
}
