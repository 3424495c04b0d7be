//! `undo`: puts back what earlier calls changed. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{ChangeTask, Parsed, Task, Undone, invalid};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "undo",
    aliases: &[],
    text: "Undoes a call that changed files: call_id is the undo of its result. Contents, modes, names and \
           deleted files come back. With to, every later change of that session is undone as \
           well. Refuses with a diff if something was changed since, unless force.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Write,
    search: "revert restore back rollback trash undelete",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let arguments: wire::Undo = schema::parse(tool, call)?;
    let which = match (arguments.call_id, arguments.to) {
        (Some(call), None) => Undone::Call(call),
        (None, Some(call)) => Undone::After(call),
        (Some(_), Some(_)) => {
            return Err(invalid("to", "`call_id` is also given", "give one of the two"));
        }
        (None, None) => {
            let hint = "give the `undo` of the result of the call to undo";
            return Err(invalid("call_id", "there is none", hint));
        }
    };
    Ok(Task::Change(ChangeTask::Undo { which, force: arguments.force }).into())
}
