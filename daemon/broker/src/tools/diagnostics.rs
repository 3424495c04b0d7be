//! `diagnostics`: runs the profile's checkers. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{Parsed, Task, invalid, path};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

/// How many paths a call names at most.
const PATHS: usize = 256;

pub(super) const DESCRIPTION: Description = Description {
    name: "diagnostics",
    aliases: &["Diagnostics"],
    text: "Runs the checkers that the profile names (for a Rust workspace: cargo check) and gives \
           what they find: path, line, column, severity, code, message. With paths only what is \
           about those files, or about files below those directories.",
    traits: Traits::Mutating,
    class: PermissionClass::Bash,
    operation: AuditOperation::Execute,
    search: "errors warnings lint compile check type problems build",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let wire::Diagnostics { paths, timeout_ms } = schema::parse(tool, call)?;
    if paths.len() > PATHS {
        let why = format!("there are {} of at most {PATHS}", paths.len());
        return Err(invalid("paths", &why, "name directories instead of files"));
    }
    let named = paths.into_iter().enumerate();
    let paths = named.map(|(number, one)| path(&format!("paths[{number}]"), one));
    Ok(Parsed { task: Task::Check { paths: paths.collect::<Result<_, _>>()? }, timeout_ms })
}
