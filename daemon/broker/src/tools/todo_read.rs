//! `todo_read`: the session's list of things to do. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{Errand, Parsed, Task};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "todo_read",
    aliases: &["TodoRead"],
    text: "Gives the session's list of things to do, as todo_write left it.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "todo task list plan steps progress",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let wire::TodoRead {} = schema::parse(tool, call)?;
    Ok(Task::Errand(Errand::TodoRead).into())
}
