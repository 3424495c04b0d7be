//! `delete_file`: removes a file, a link or a tree. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{ChangeTask, Kept, Parsed, Task, path};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "delete_file",
    aliases: &[],
    text: "Deletes a file or a link (never what it leads to); a directory with everything in it \
           if recursive. It can be had back with undo for a day, unless permanent.",
    traits: Traits::Destructive,
    class: PermissionClass::File,
    operation: AuditOperation::Delete,
    search: "remove rm unlink file directory",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let arguments: wire::DeleteFile = schema::parse(tool, call)?;
    let path = path("path", arguments.path)?;
    let kept = if arguments.permanent { Kept::Not } else { Kept::ForUndo };
    Ok(Task::Change(ChangeTask::Delete { path, recursive: arguments.recursive, kept }).into())
}
