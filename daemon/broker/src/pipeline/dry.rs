//! Dry runs: find out and report what a call would do; nothing is changed and nobody is asked. Runs
//! in the broker.

pub(crate) mod report;

use crate::{
    base::{error::CallError, outcome::Outcome, preview::Preview, task::Task},
    changes::change,
    pipeline::{cleared::ClearedCall, stages::checked::CheckedCall},
};
use report::reported;

/// Previews the effects of a change, if the call is a dry run.
pub(crate) async fn preview(call: &CheckedCall) -> Result<Option<Preview>, CallError> {
    let Task::Change(task) = call.task() else { return Ok(None) };
    if !call.call().options.dry_run || task.is_attached() {
        return Ok(None);
    }
    change::preview(call.session(), task, None, change::DIFF).await.map(Some)
}

/// Ends a dry run of an allowed call, unless it is tried in a transaction.
pub(crate) fn run(cleared: ClearedCall) -> Result<ClearedCall, Box<Outcome>> {
    if !cleared.call().call().options.dry_run || cleared.call().is_trial_run() {
        return Ok(cleared);
    }
    let outcome = reported(cleared.call(), "allow", None);
    let (_, findings, checkpoint) = cleared.into_call();
    Err(Box::new(Outcome { findings, checkpoint, ..outcome }))
}
