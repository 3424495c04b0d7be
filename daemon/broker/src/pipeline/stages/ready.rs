//! A call that is ready to run, and one that is in the audit log. Runs in the broker.

use crate::{
    base::task::ValidatedTask,
    cells::{context::Context, transaction::Transaction, turn::Turn},
    changes::{change::ChangeClearance, guard::Route, transaction::unsettled::Purpose},
    tools::Tool,
};
use palisade_audit::Ticket;
use palisade_plan::change::Version;
use palisade_policy::Commands;
use palisade_protocol::{Call, Checkpoint, Finding};
use std::sync::Arc;

/// A call whose turn has come, and whose clearance is still valid.
#[derive(Debug)]
pub(crate) struct ReadyCall {
    pub(super) context: Context,
    pub(super) call: Call,
    pub(super) tool: Arc<Tool>,
    pub(super) validated: ValidatedTask,
    pub(super) findings: Vec<Finding>,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) leave: ChangeClearance,
    /// The files whose loss was approved with the call.
    pub(super) approved: Vec<Version>,
    pub(super) route: Route,
    /// The programs that its text names.
    pub(super) commands: Commands,
    pub(super) purpose: Purpose,
    pub(super) transaction: Option<Transaction>,
    pub(super) turn: Option<Turn>,
}

/// A call that is in the audit log. It can not be constructed without the log's ticket.
#[derive(Debug)]
pub(crate) struct TicketedCall {
    pub(super) ready: ReadyCall,
    pub(super) _ticket: Ticket,
}
