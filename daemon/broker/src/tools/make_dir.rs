//! `make_dir`: creates a directory. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ChangeTask, ParsedArguments, Task, path};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "make_dir",
    aliases: &[],
    text: "Creates a directory and its missing parents. An existing directory is not an error. Can \
           be undone.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Write,
    search: "mkdir create folder directory",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::MakeDir = schema::parse(tool, call)?;
    Ok(Task::Change(ChangeTask::MakeDir { path: path("path", arguments.path)? }).into())
}
