//! `delete_file`: removes a file, a link or a tree. Broker, pure.

use super::{Description, Parsed, Tool, Traits, schema};
use crate::task::{Task, path};
use palisade_protocol::{AuditOperation, Call, PermissionClass, WireError, arguments as wire};

pub(super) const DESCRIPTION: Description = Description {
    name: "delete_file",
    aliases: &[],
    text: "Deletes a file or a link (never what it leads to); a directory with everything in it \
           if recursive.",
    traits: Traits::Destructive,
    class: PermissionClass::File,
    operation: AuditOperation::Delete,
    search: "remove rm unlink file directory",
};

pub(super) fn parse(tool: &Tool, call: &Call) -> Result<Parsed, WireError> {
    let arguments: wire::DeleteFile = schema::parse(tool, call)?;
    let path = path("path", arguments.path)?;
    Ok(Task::Delete { path, recursive: arguments.recursive }.into())
}
