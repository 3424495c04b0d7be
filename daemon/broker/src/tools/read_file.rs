//! `read_file`: the contents of a regular file. Broker, pure.

use super::{Description, Parsed, Tool, Traits, schema};
use crate::task::{Task, invalid, path};
use palisade_plan::cell::Part;
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, WireError,
    arguments::{self as wire, Encoding},
};

pub(super) const DESCRIPTION: Description = Description {
    name: "read_file",
    aliases: &["Read"],
    text: "Reads a regular file: as text, or as base64 or exact bytes (raw) if it is not text. \
           offset and limit choose lines.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "open view cat show file contents text lines",
};

pub(super) fn parse(tool: &Tool, call: &Call) -> Result<Parsed, WireError> {
    let arguments: wire::ReadFile = schema::parse(tool, call)?;
    let part = match (arguments.offset, arguments.limit) {
        (None, None) => Part::All,
        _ if arguments.encoding == Encoding::Raw => {
            let hint = "leave out offset and limit, or choose encoding text";
            return Err(invalid("offset", "raw contents have no lines", hint));
        }
        (Some(0), _) => {
            return Err(invalid("offset", "lines are counted from 1", "give 1 or more"));
        }
        (_, Some(0)) => return Err(invalid("limit", "no lines at all", "give 1 or more")),
        (first, count) => {
            Part::Lines { first: first.unwrap_or(1), count: count.unwrap_or(u64::MAX) }
        }
    };
    let path = path("path", arguments.path)?;
    Ok(Task::Read { path, part, encoding: arguments.encoding }.into())
}
