//! What a program changed counts without being asked about: of a job, or where the transaction is
//! there for what it hides. Broker.

use super::{SETTLE, Transaction};
use crate::{
    change::{self, Done, Leave},
    context::{Context, Deadline},
    error::CallError,
    task::{ChangeTask, Kept},
};
use palisade_plan::change::Conflicts;
use palisade_protocol::ToolName;

/// Has all of it done that a program changed which ran on after its call, or was not asked about.
/// Nothing is kept for undo.
pub(crate) async fn keep(
    transaction: &Transaction,
    context: &Context,
    tool: &ToolName,
) -> Result<(), CallError> {
    let (kept, conflicts) = (Kept::Not, Conflicts::Refused);
    let task = ChangeTask::Settle { without: Vec::new(), kept, conflicts };
    let deadline = Deadline::after(SETTLE);
    let files = &transaction.files;
    let held = change::prepare_on(files, &task, tool, None, context, deadline).await?;
    if held.preview.effects.is_empty() {
        return Ok(());
    }
    let leave = Leave::Shown(held.preview.digest);
    match held.commit(&task, &leave, context, deadline).await? {
        Done::Changed { .. } => Ok(()),
        Done::Unknown(unknown, _) => {
            unknown.error.map_or(Ok(()), |error| Err(CallError::Refused(error)))
        }
    }
}
