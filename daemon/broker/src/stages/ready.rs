//! A call that goes on to be done, and one that is in the audit log. Broker.

use crate::{
    change::Leave,
    context::Context,
    guard::Route,
    task::Validated,
    tools::Tool,
    transaction::{Transaction, unsettled::Purpose},
    turn::Turn,
};
use palisade_audit::Ticket;
use palisade_plan::change::Version;
use palisade_protocol::{Call, Checkpoint, Finding};
use std::sync::Arc;

/// A call whose turn it is, and whose clearance still holds.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(super) context: Context,
    pub(super) call: Call,
    pub(super) tool: Arc<Tool>,
    pub(super) validated: Validated,
    pub(super) findings: Vec<Finding>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) leave: Leave,
    /// The files whose loss was approved with the call.
    pub(super) approved: Vec<Version>,
    pub(super) route: Route,
    pub(super) purpose: Purpose,
    pub(super) transaction: Option<Transaction>,
    pub(super) turn: Option<Turn>,
}

/// A call that is in the audit log. It can not be made without the log's ticket.
#[derive(Debug)]
pub(crate) struct Ticketed {
    pub(super) ready: Ready,
    pub(super) _ticket: Ticket,
}
