//! `diagnostics`: runs the profile's checkers. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{ParsedArguments, Task, invalid, path};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

/// The most paths that a call may name.
const PATHS: usize = 256;

pub(super) const DESCRIPTION: Description = Description {
    name: "diagnostics",
    aliases: &["Diagnostics"],
    text: "Runs the checkers that the profile names (for a Rust workspace: cargo check) and \
           returns their findings: path, line, column, severity, code, message. With paths, only \
           findings in those files, or in files below those directories.",
    traits: Traits::Mutating,
    class: PermissionClass::Bash,
    operation: AuditOperation::Execute,
    search: "errors warnings lint compile check type problems build",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let wire::Diagnostics { paths, timeout_ms } = schema::parse(tool, call)?;
    if paths.len() > PATHS {
        let why = format!("{} are given, at most {PATHS} are allowed", paths.len());
        return Err(invalid("paths", &why, "name directories instead of files"));
    }
    let named = paths.into_iter().enumerate();
    let paths = named.map(|(number, one)| path(&format!("paths[{number}]"), one));
    Ok(ParsedArguments {
        task: Task::Check { paths: paths.collect::<Result<_, _>>()? },
        timeout_ms,
    })
}
