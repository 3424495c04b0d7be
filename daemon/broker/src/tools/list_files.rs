//! `list_files`: what is in a directory. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{Parsed, Task, invalid, path};
use palisade_plan::search::Choice;
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, RawPath, ToolSpec, WireError, arguments as wire,
};

/// How many entries a listing has if the call does not say, and at most.
const ENTRIES: (u64, u64) = (1000, 10_000);

pub(super) const DESCRIPTION: Description = Description {
    name: "list_files",
    aliases: &["LS", "ListDir"],
    text: "Lists a directory, sorted by path, with types and sizes; with recursive also what is \
           below, but for what .gitignore leaves out (ignored brings it back) and .git. glob \
           chooses entries. A directory ends in /, a link in @, a FIFO, socket or device in ?.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "ls dir directory tree entries names",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
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
