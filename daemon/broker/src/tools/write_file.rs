//! `write_file`: a file written whole, added to, or made. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{ChangeTask, Content, Parsed, Task, invalid, path};
use palisade_plan::change::WriteMode;
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "write_file",
    aliases: &["Write"],
    text: "Writes a file whole: the old contents stay until the new ones are in place. Makes \
           missing parent directories and keeps the mode. mode chooses overwrite, append or \
           create (which refuses if there is something). What it replaces can be had back with undo.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Write,
    search: "save create overwrite append file contents",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let arguments: wire::WriteFile = schema::parse(tool, call)?;
    let content = match (arguments.content, call.options.attach) {
        (Some(text), false) => Content::Inline(text),
        (None, true) => Content::Attached,
        (Some(_), true) => {
            return Err(invalid(
                "content",
                "an attachment is also announced",
                "give one of the two",
            ));
        }
        (None, false) => {
            let hint = "give the text, or announce it with options.attach and send it as input";
            return Err(invalid("content", "there is none", hint));
        }
    };
    let mode = match arguments.mode {
        wire::WriteMode::Overwrite => WriteMode::Overwrite,
        wire::WriteMode::Append => WriteMode::Append,
        wire::WriteMode::Create => WriteMode::Create,
    };
    let path = path("path", arguments.path)?;
    Ok(Task::Change(ChangeTask::Write { path, mode, content }).into())
}
