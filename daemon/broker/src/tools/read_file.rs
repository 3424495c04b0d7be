//! `read_file`: the contents of a regular file. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{Numbering, Parsed, Task, invalid, path};
use palisade_plan::cell::Part;
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError,
    arguments::{self as wire, Encoding},
};

pub(super) const DESCRIPTION: Description = Description {
    name: "read_file",
    aliases: &["Read"],
    text: "Reads a regular file. Text comes as text; a notebook (.ipynb) as the text of its cells; \
           an image, a PDF or another file that is not text as base64 in data.content, with \
           data.media_type. offset and limit choose lines, numbered puts their numbers in front. \
           encoding asks for text, base64 or raw bytes instead; byte_offset and byte_limit choose \
           bytes of the latter two.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "open view cat show file contents text lines image pdf notebook",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let arguments: wire::ReadFile = schema::parse(tool, call)?;
    let part = part(&arguments)?;
    let encoding = arguments.encoding;
    let numbering = match encoding {
        Encoding::Auto | Encoding::Text if arguments.numbered => Numbering::Lines,
        Encoding::Base64 | Encoding::Raw if arguments.numbered => {
            let hint = "leave it out, or choose encoding text";
            return Err(invalid("numbered", "bytes have no lines", hint));
        }
        Encoding::Auto | Encoding::Text | Encoding::Base64 | Encoding::Raw => Numbering::None,
    };
    let path = path("path", arguments.path)?;
    Ok(Task::Read { path, part, encoding, numbering }.into())
}

/// What of the file is wanted.
fn part(arguments: &wire::ReadFile) -> Result<Part, WireError> {
    let wire::ReadFile { offset, limit, byte_offset, byte_limit, encoding, .. } = arguments;
    if byte_offset.is_some() || byte_limit.is_some() {
        if offset.is_some() || limit.is_some() {
            let hint = "choose lines with offset and limit, or bytes";
            return Err(invalid("byte_offset", "lines are asked for too", hint));
        }
        return match encoding {
            Encoding::Auto | Encoding::Text => {
                let hint = "choose encoding base64 or raw, or lines with offset and limit";
                Err(invalid("byte_offset", "text is read by lines", hint))
            }
            Encoding::Base64 | Encoding::Raw if *byte_limit == Some(0) => {
                Err(invalid("byte_limit", "no bytes at all", "give 1 or more"))
            }
            Encoding::Base64 | Encoding::Raw => {
                let (first, count) = (byte_offset.unwrap_or(0), byte_limit.unwrap_or(u64::MAX));
                Ok(Part::Bytes { first, count })
            }
        };
    }
    match (offset, limit) {
        (None, None) => Ok(Part::All),
        _ if *encoding == Encoding::Raw => {
            let hint = "leave out offset and limit, or choose encoding text";
            Err(invalid("offset", "raw contents have no lines", hint))
        }
        (Some(0), _) => Err(invalid("offset", "lines are counted from 1", "give 1 or more")),
        (_, Some(0)) => Err(invalid("limit", "no lines at all", "give 1 or more")),
        (first, count) => {
            Ok(Part::Lines { first: first.unwrap_or(1), count: count.unwrap_or(u64::MAX) })
        }
    }
}
