//! `apply_patch`: applies a patch to any number of files, all or nothing. Runs in the broker. Pure:
//! no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ChangeTask, ParsedArguments, Task, invalid};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "apply_patch",
    aliases: &["ApplyPatch"],
    text: "Applies a patch: a unified diff, a git diff (with renames, modes, new and deleted \
           files) or the format from *** Begin Patch to *** End Patch. Lines must match exactly; \
           if one part does not, nothing is changed. Can be undone.",
    traits: Traits::Mutating,
    class: PermissionClass::File,
    operation: AuditOperation::Edit,
    search: "diff hunk unified git change several files",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::ApplyPatch = schema::parse(tool, call)?;
    if arguments.patch.is_empty() {
        return Err(invalid("patch", "it is empty", "give a unified diff or *** Begin Patch text"));
    }
    Ok(Task::Change(ChangeTask::Patch { patch: arguments.patch }).into())
}
