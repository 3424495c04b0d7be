//! `edit`: replaces text in a file. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{ChangeTask, Edited, Parsed, Task, path, replacement};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "edit",
    aliases: &["Edit"],
    text: "Replaces old_string by new_string in a text file. old_string must be there exactly, with its \
           spaces and line breaks, and once unless replace_all; where it is not, the error shows \
           the nearest lines. Can be undone.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Edit,
    search: "replace text change modify substitute",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let arguments: wire::Edit = schema::parse(tool, call)?;
    let edit = replacement("", arguments.old_string, arguments.new_string, arguments.replace_all)?;
    let file = Edited { path: path("path", arguments.path)?, edits: vec![edit] };
    Ok(Task::Change(ChangeTask::Edit { files: vec![file] }).into())
}
