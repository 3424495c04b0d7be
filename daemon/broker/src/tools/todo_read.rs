//! `todo_read`: returns the session's to-do list. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ParsedArguments, SessionTask, Task};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "todo_read",
    aliases: &["TodoRead"],
    text: "Returns the session's todo list, as todo_write left it.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "todo task list plan steps progress",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let wire::TodoRead {} = schema::parse(tool, call)?;
    Ok(Task::Errand(SessionTask::TodoRead).into())
}
