//! `stat`: describes what is at a path. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{LookReport, ParsedArguments, Task, path};
use palisade_plan::cell::Link;
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "stat",
    aliases: &[],
    text: "Describes what is at a path without reading it: kind, size, mode, owner, times, number of names, \
           inode, and where a link leads. A link at the end of the path is followed unless follow is \
           false. Fails with errno 2 if there is nothing.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "stat lstat metadata size mode owner time exists symlink",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::Stat = schema::parse(tool, call)?;
    let link = if arguments.follow { Link::Target } else { Link::Itself };
    let report = LookReport::Entry;
    Ok(Task::Look { path: path("path", arguments.path)?, link, report }.into())
}
