//! A call whose program ended in its transaction, with all that is needed to settle it. Runs in the
//! broker.

use crate::{
    base::task::Task,
    cells::{context::Context, transaction::Transaction, turn::Turn},
    changes::guard::EffectsReview,
    tools::Tool,
};
use palisade_plan::change::Version;
use palisade_policy::Commands;
use palisade_protocol::Call;
use serde_json::Value;
use std::sync::Arc;

/// The purpose of a transaction.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// Its changes are to be committed.
    Real,
    /// A dry run: its changes are only reported. Holds the report so far.
    Trial(Value),
}

/// A call whose program has ended in its transaction. It holds its turn until it is settled.
#[derive(Debug)]
pub(crate) struct UnsettledCall {
    pub(crate) transaction: Transaction,
    pub(crate) purpose: Purpose,
    pub(crate) review: EffectsReview,
    /// The files whose loss was approved before it ran, each in the state that was shown.
    pub(crate) approved: Vec<Version>,
    pub(crate) context: Context,
    pub(crate) call: Call,
    pub(crate) tool: Arc<Tool>,
    pub(crate) task: Task,
    /// The programs that the call's text names.
    pub(crate) commands: Commands,
    /// The directory in which the program ended.
    pub(crate) cwd: Option<Vec<u8>>,
    pub(crate) _turn: Option<Turn>,
}
