//! What a call will do: its arguments, parsed once. Broker, pure.

use crate::tools::{Parsed, Tool};
use palisade_plan::cell::{Part, WriteMode};
use palisade_policy::Profile;
use palisade_protocol::{
    Call, ErrorCode, RawPath, WireError, arguments::Encoding, limits::MAX_PATH,
};
use std::{collections::BTreeMap, time::Duration};

/// What a call will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    Run(Program),
    Read { path: Vec<u8>, part: Part, encoding: Encoding },
    Write { path: Vec<u8>, mode: WriteMode, content: Content },
    Delete { path: Vec<u8>, recursive: bool },
    List { path: Vec<u8>, recursive: bool, skip: u64, limit: u64 },
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) argv: Vec<String>,
    /// A shell line that is too long for `argv`.
    pub(crate) script: Option<String>,
    pub(crate) cwd: Option<Vec<u8>>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) stdin: Option<Content>,
    pub(crate) directory: Directory,
}

/// What becomes of the directory that a program ends in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directory {
    /// A shell's: the session goes on there.
    Kept,
    /// A program's own affair.
    Left,
}

/// Bytes that came with the call, or that will follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Inline(String),
    Attached,
}

/// A call's task and how long it may take.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Validated {
    pub(crate) task: Task,
    pub(crate) timeout: Duration,
}

/// Reads a call's arguments.
pub(crate) fn validate(
    tool: &Tool,
    call: &Call,
    profile: &Profile,
) -> Result<Validated, WireError> {
    let Parsed { task, timeout_ms } = tool.parse(call)?;
    let asked = [("options.timeout_ms", call.options.timeout_ms), ("timeout_ms", timeout_ms)];
    if call.options.attach && !takes_attachment(&task) {
        return Err(invalid("attach", "this call has no use for an attachment", "leave it out"));
    }
    Ok(Validated { task, timeout: timeout(&asked, profile)? })
}

const fn takes_attachment(task: &Task) -> bool {
    matches!(
        task,
        Task::Run(Program { stdin: Some(Content::Attached), .. })
            | Task::Write { content: Content::Attached, .. }
    )
}

/// An argument that can not be, in the words of `invalid_arguments`.
pub(crate) fn invalid(field: &str, why: &str, hint: &str) -> WireError {
    WireError::new(ErrorCode::InvalidArguments, format!("`{field}`: {why}"), hint)
}

/// The bytes of a path argument.
pub(crate) fn path(field: &str, path: RawPath) -> Result<Vec<u8>, WireError> {
    let why = match path.0.as_slice() {
        [] => "it is empty",
        bytes if bytes.contains(&0) => "it has a NUL byte in it",
        bytes if bytes.len() > MAX_PATH => "it is longer than any path can be",
        _ => return Ok(path.0),
    };
    Err(invalid(field, why, "give an absolute path, or one relative to the current directory"))
}

fn timeout(asked: &[(&str, Option<u64>)], profile: &Profile) -> Result<Duration, WireError> {
    let most = profile.max_timeout_ms();
    let mut least = None;
    for (field, asked) in asked {
        let Some(asked) = *asked else { continue };
        if asked == 0 || asked > most {
            let why = format!(
                "{asked} is not from 1 to {most}, which profile {:?} allows",
                profile.name()
            );
            return Err(invalid(field, &why, "leave it out for the profile's default"));
        }
        least = Some(least.unwrap_or(asked).min(asked));
    }
    Ok(Duration::from_millis(least.unwrap_or_else(|| profile.timeout_ms().min(most))))
}

#[cfg(test)]
mod tests;
