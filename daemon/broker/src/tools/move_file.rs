//! `move_file`: moves or renames a file, link or directory. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ChangeTask, ParsedArguments, Task, path};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "move_file",
    aliases: &[],
    text: "Moves or renames a file, link or directory. Fails if the new path exists, unless \
           overwrite. Creates missing parent directories. Can be undone.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Write,
    search: "rename mv path",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::MoveFile = schema::parse(tool, call)?;
    let (from, to) = (path("from", arguments.from)?, path("to", arguments.to)?);
    Ok(Task::Change(ChangeTask::Move { from, to, overwrite: arguments.overwrite }).into())
}
