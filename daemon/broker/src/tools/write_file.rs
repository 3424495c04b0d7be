//! `write_file`: overwrites, appends to or creates a file. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ChangeTask, Content, ParsedArguments, Task, invalid, path};
use palisade_plan::change::WriteMode;
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "write_file",
    aliases: &["Write"],
    text: "Writes a whole file: the old contents stay until the new ones are in place. Creates \
           missing parent directories and keeps the file's mode. mode selects overwrite, append or \
           create (which fails if the path exists). undo restores what it replaces.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Write,
    search: "save create overwrite append file contents",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
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
            return Err(invalid("content", "it is missing", hint));
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
