//! `delete_file`: deletes a file, a symbolic link or a directory tree. Runs in the broker. Pure: no
//! I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ChangeTask, ParsedArguments, Task, UndoRetention, path};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "delete_file",
    aliases: &[],
    text: "Deletes a file or a symbolic link (never its target), or with recursive a directory and \
           everything in it. undo restores it, unless permanent.",
    traits: Traits::Destructive,
    class: PermissionClass::File,
    operation: AuditOperation::Delete,
    search: "remove rm unlink file directory",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::DeleteFile = schema::parse(tool, call)?;
    let path = path("path", arguments.path)?;
    let kept = if arguments.permanent { UndoRetention::Not } else { UndoRetention::ForUndo };
    Ok(Task::Change(ChangeTask::Delete { path, recursive: arguments.recursive, kept }).into())
}
