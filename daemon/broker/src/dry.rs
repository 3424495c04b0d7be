//! Dry runs: what a call would do, found out and reported; nothing is done and nobody is asked.
//! Broker.

pub(crate) mod report;

use crate::{
    change::{self, Preview},
    cleared::Cleared,
    error::CallError,
    outcome::Outcome,
    stages::checked::Checked,
    task::Task,
};
use report::reported;

/// What a change would do, if nothing else is wanted of it.
pub(crate) async fn preview(call: &Checked) -> Result<Option<Preview>, CallError> {
    let Task::Change(task) = call.task() else { return Ok(None) };
    if !call.call().options.dry_run || task.is_attached() {
        return Ok(None);
    }
    change::preview(call.session(), task, None, change::DIFF).await.map(Some)
}

/// Ends a dry run of a call that may run, unless it is tried in a transaction.
pub(crate) fn run(cleared: Cleared) -> Result<Cleared, Box<Outcome>> {
    if !cleared.call().call().options.dry_run || cleared.call().is_tried() {
        return Ok(cleared);
    }
    let outcome = reported(cleared.call(), "allow", None);
    let (_, findings, checkpoint) = cleared.into_call();
    Err(Box::new(Outcome { findings, checkpoint, ..outcome }))
}
