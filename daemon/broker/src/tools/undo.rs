//! `undo`: restores what earlier calls changed. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ChangeTask, ParsedArguments, Task, UndoTarget, invalid};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "undo",
    aliases: &[],
    text: "Undoes a call that changed files: call_id is the value of undo in its result. Restores \
           contents, modes, names and deleted files. With to instead, undoes every change of the \
           session after that call. Fails with a diff if something was changed since, unless \
           force.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Write,
    search: "revert restore back rollback trash undelete",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::Undo = schema::parse(tool, call)?;
    let which = match (arguments.call_id, arguments.to) {
        (Some(call), None) => UndoTarget::Call(call),
        (None, Some(call)) => UndoTarget::After(call),
        (Some(_), Some(_)) => {
            return Err(invalid("to", "`call_id` is also given", "give one of the two"));
        }
        (None, None) => {
            let hint = "give the value of `undo` in the result of the call to undo";
            return Err(invalid("call_id", "it is missing", hint));
        }
    };
    Ok(Task::Change(ChangeTask::Undo { which, force: arguments.force }).into())
}
