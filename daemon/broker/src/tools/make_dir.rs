//! `make_dir`: makes a directory. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{ChangeTask, Parsed, Task, path};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "make_dir",
    aliases: &[],
    text: "Makes a directory, and those above it. One that is there already is no error. Can be undone.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Write,
    search: "mkdir create folder directory",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let arguments: wire::MakeDir = schema::parse(tool, call)?;
    Ok(Task::Change(ChangeTask::MakeDir { path: path("path", arguments.path)? }).into())
}
