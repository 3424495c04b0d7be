//! `realpath`: resolves a path. Runs in the broker. Pure: no I/O.

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
    name: "realpath",
    aliases: &[],
    text: "Resolves a path: absolute, without symbolic links, . and .. in it. A link at the end of the path \
           is followed unless follow is false. data.exists says whether there is something; if not, the \
           path is resolved as far as it exists.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "realpath readlink resolve canonical absolute link",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::RealPath = schema::parse(tool, call)?;
    let link = if arguments.follow { Link::Target } else { Link::Itself };
    let report = LookReport::RealPath;
    Ok(Task::Look { path: path("path", arguments.path)?, link, report }.into())
}
