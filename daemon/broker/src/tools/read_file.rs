//! `read_file`: returns the contents of a regular file. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{Numbering, ParsedArguments, Task, invalid, path};
use palisade_plan::cell::Part;
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError,
    arguments::{self as wire, Encoding},
};

pub(super) const DESCRIPTION: Description = Description {
    name: "read_file",
    aliases: &["Read"],
    text: "Reads a regular file. Text is returned as text; a notebook (.ipynb) as the text of its \
           cells; an image, a PDF or another file that is not text as base64 in data.content, with \
           data.media_type. offset and limit select lines; numbered adds line numbers. encoding \
           selects text, base64 or raw bytes instead; byte_offset and byte_limit select bytes of \
           the latter two.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "open view cat show file contents text lines image pdf notebook",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
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

/// Returns which part of the file the arguments ask for.
fn part(arguments: &wire::ReadFile) -> Result<Part, WireError> {
    let wire::ReadFile { offset, limit, byte_offset, byte_limit, encoding, .. } = arguments;
    if byte_offset.is_some() || byte_limit.is_some() {
        if offset.is_some() || limit.is_some() {
            let hint = "choose lines with offset and limit, or bytes";
            return Err(invalid("byte_offset", "lines are also requested", hint));
        }
        return match encoding {
            Encoding::Auto | Encoding::Text => {
                let hint = "choose encoding base64 or raw, or lines with offset and limit";
                Err(invalid("byte_offset", "text is read by lines", hint))
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
            Err(invalid("offset", "raw content has no lines", hint))
        }
        (Some(0), _) => Err(invalid("offset", "lines are counted from 1", "give 1 or more")),
        (_, Some(0)) => Err(invalid("limit", "it is 0", "give 1 or more")),
        (first, count) => {
            Ok(Part::Lines { first: first.unwrap_or(1), count: count.unwrap_or(u64::MAX) })
        }
    }
}
