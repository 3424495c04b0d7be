//! `list_files`: lists a directory. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ParsedArguments, Task, invalid, path};
use palisade_plan::search::Choice;
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, RawPath, ToolSpec, WireError, arguments as wire,
};

/// The default and the largest number of entries in a listing.
const ENTRIES: (u64, u64) = (1000, 10_000);

pub(super) const DESCRIPTION: Description = Description {
    name: "list_files",
    aliases: &["LS", "ListDir"],
    text: "Lists a directory, sorted by path, with types and sizes; with recursive also everything \
           below. That skips what .gitignore excludes (ignored includes it), and always .git. glob \
           selects entries. A directory ends in /, a link in @ and its target, a FIFO, socket or device in ?.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "ls dir directory tree entries names",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::ListFiles = schema::parse(tool, call)?;
    let limit = arguments.limit.unwrap_or(ENTRIES.0);
    if !(1..=ENTRIES.1).contains(&limit) {
        let why = format!("{limit} is not from 1 to {}", ENTRIES.1);
        return Err(invalid("limit", &why, "page through more with skip"));
    }
    let directory = arguments.path.unwrap_or_else(|| RawPath(b".".to_vec()));
    let (recursive, skip) = (arguments.recursive, arguments.skip.unwrap_or(0));
    let choice =
        Choice { glob: arguments.glob, hidden: arguments.hidden, ignored: arguments.ignored };
    Ok(Task::List { path: path("path", directory)?, recursive, skip, limit, choice }.into())
}
