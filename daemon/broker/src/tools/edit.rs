//! `edit`: replaces text in a file. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ChangeTask, EditedFile, ParsedArguments, Task, path, replacement};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "edit",
    aliases: &["Edit"],
    text: "Replaces old_string with new_string in a text file. old_string must match exactly, with \
           spaces and line breaks, and only once unless replace_all. If it does not match, the \
           error shows the nearest lines. Can be undone.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Edit,
    search: "replace text change modify substitute",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::Edit = schema::parse(tool, call)?;
    let edit = replacement("", arguments.old_string, arguments.new_string, arguments.replace_all)?;
    let file = EditedFile { path: path("path", arguments.path)?, edits: vec![edit] };
    Ok(Task::Change(ChangeTask::Edit { files: vec![file] }).into())
}
