//! A call whose program ended in its transaction, with all that settling it needs. Broker.

use super::Transaction;
use crate::{context::Context, guard::EffectsReview, task::Task, tools::Tool, turn::Turn};
use palisade_plan::change::Version;
use palisade_protocol::Call;
use serde_json::Value;
use std::sync::Arc;

/// What a transaction is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// What it changes is to count.
    Real,
    /// What it changes is to be told: the report so far.
    Trial(Value),
}

/// A call whose program has ended in its transaction. It holds its turn until it is settled.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) transaction: Transaction,
    pub(crate) purpose: Purpose,
    pub(crate) review: EffectsReview,
    /// The files whose loss was approved before it ran, each in the state that was shown.
    pub(crate) approved: Vec<Version>,
    pub(crate) context: Context,
    pub(crate) call: Call,
    pub(crate) tool: Arc<Tool>,
    pub(crate) task: Task,
    /// Where the program ended.
    pub(crate) cwd: Option<Vec<u8>>,
    pub(crate) _turn: Option<Turn>,
}
