//! A tool's arguments, parsed once into what the call will do. Broker, pure.

use crate::tools::{Kind, Tool};
use palisade_plan::cell::{Part, WriteMode};
use palisade_policy::Profile;
use palisade_protocol::{
    Call, CallOptions, ErrorCode, RawPath, WireError,
    arguments::{self as wire, Encoding},
    limits::MAX_PATH,
};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, time::Duration};

/// A longer shell line goes to the shell by descriptor: one argument holds 128 KiB.
const LONG_COMMAND: usize = 100 * 1024;
/// The longest shell line; it travels in one message.
const MAX_COMMAND: usize = 3 * 1024 * 1024;
/// The kernel's limit for one argument, its closing NUL included.
const MAX_ARGUMENT: usize = 128 * 1024;
/// The kernel's limit for all arguments, a pointer for each included.
const MAX_ARGUMENTS: usize = 2 * 1024 * 1024;
/// How many entries a listing has if the call does not say, and at most.
const ENTRIES: (u64, u64) = (1000, 10_000);

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
    let options = &call.options;
    let mut asked = vec![("options.timeout_ms", options.timeout_ms)];
    let task = match tool.kind {
        Kind::Bash => {
            let arguments: wire::Bash = parse(tool, call)?;
            asked.push(("timeout_ms", arguments.timeout_ms));
            Task::Run(program(arguments, options)?)
        }
        Kind::ReadFile => read(parse(tool, call)?)?,
        Kind::WriteFile => write(parse(tool, call)?, options)?,
        Kind::DeleteFile => {
            let arguments: wire::DeleteFile = parse(tool, call)?;
            Task::Delete { path: path("path", arguments.path)?, recursive: arguments.recursive }
        }
        Kind::ListFiles => list(parse(tool, call)?)?,
    };
    if options.attach && !takes_attachment(&task) {
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

fn invalid(field: &str, why: &str, hint: &str) -> WireError {
    WireError::new(ErrorCode::InvalidArguments, format!("`{field}`: {why}"), hint)
}

fn parse<A: DeserializeOwned>(tool: &Tool, call: &Call) -> Result<A, WireError> {
    let mut json = serde_json::Deserializer::from_str(call.arguments.as_str());
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let schema: serde_json::Value =
            serde_json::from_str(tool.spec.schema.as_str()).unwrap_or_default();
        let hint = format!("{} takes {}", tool.spec.name, fields(&schema));
        if let Some(missing) = missing(&schema, call) {
            return invalid(&missing, "it is required and missing", &hint);
        }
        let (path, why) = (error.path().to_string(), error.inner().to_string());
        invalid(if path == "." { "arguments" } else { path.as_str() }, &why, &hint)
    })
}

/// The names of a tool's arguments.
fn fields(schema: &serde_json::Value) -> String {
    let names = schema["properties"].as_object().map(|p| p.keys().cloned().collect::<Vec<_>>());
    names.unwrap_or_default().join(", ")
}

/// The first required argument that a call does not have.
fn missing(schema: &serde_json::Value, call: &Call) -> Option<String> {
    let given: serde_json::Value = serde_json::from_str(call.arguments.as_str()).ok()?;
    let required = schema["required"].as_array()?.iter().filter_map(|name| name.as_str());
    required.into_iter().find(|name| given.get(name).is_none()).map(str::to_owned)
}

fn path(field: &str, path: RawPath) -> Result<Vec<u8>, WireError> {
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

fn program(arguments: wire::Bash, options: &CallOptions) -> Result<Program, WireError> {
    let ((argv, script), directory) = match (arguments.command, arguments.argv) {
        (Some(command), None) => (shell(command)?, Directory::Kept),
        (None, Some(argv)) => ((arguments_of(argv)?, None), Directory::Left),
        (Some(_), Some(_)) => {
            return Err(invalid("argv", "there is also `command`", "give one of the two"));
        }
        (None, None) => {
            let hint = "give `command` for a shell line or `argv` for a program";
            return Err(invalid("command", "there is neither `command` nor `argv`", hint));
        }
    };
    let stdin = match (arguments.stdin, options.attach) {
        (Some(_), true) => {
            return Err(invalid("stdin", "an attachment is also announced", "give one of the two"));
        }
        (Some(text), false) => Some(Content::Inline(text)),
        (None, true) => Some(Content::Attached),
        (None, false) => None,
    };
    let cwd = arguments.cwd.map(|cwd| path("cwd", cwd)).transpose()?;
    Ok(Program { argv, script, cwd, environment: arguments.env, stdin, directory })
}

fn shell(command: String) -> Result<(Vec<String>, Option<String>), WireError> {
    if command.contains('\0') {
        return Err(invalid("command", "it has a NUL byte in it", "leave it out"));
    }
    if command.len() > MAX_COMMAND {
        let why = format!("the shell line has {} bytes, the limit is {MAX_COMMAND}", command.len());
        let hint = "write it to a file with write_file and run that";
        return Err(WireError::new(ErrorCode::SpawnFailed, why, hint));
    }
    let line = |text: String| vec!["bash".to_owned(), "-c".to_owned(), text];
    if command.len() > LONG_COMMAND {
        return Ok((line(". /proc/self/fd/3".to_owned()), Some(command)));
    }
    Ok((line(command), None))
}

fn arguments_of(argv: Vec<String>) -> Result<Vec<String>, WireError> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(invalid(
            "argv",
            "it names no program",
            "begin with the program's name or path",
        ));
    }
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err(invalid("argv", "an argument has a NUL byte in it", "leave it out"));
    }
    let longest = argv.iter().map(|argument| argument.len() + 1).max().unwrap_or(0);
    let all: usize = argv.iter().map(|argument| argument.len() + 1 + size_of::<usize>()).sum();
    if longest > MAX_ARGUMENT || all > MAX_ARGUMENTS {
        let why = format!(
            "the arguments are too long (E2BIG): the longest has {longest} bytes of at most \
             {MAX_ARGUMENT}, all together {all} of at most {MAX_ARGUMENTS}"
        );
        let hint = "hand the data over on standard input or in a file";
        return Err(WireError::new(ErrorCode::SpawnFailed, why, hint));
    }
    Ok(argv)
}

fn read(arguments: wire::ReadFile) -> Result<Task, WireError> {
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
    Ok(Task::Read { path: path("path", arguments.path)?, part, encoding: arguments.encoding })
}

fn write(arguments: wire::WriteFile, options: &CallOptions) -> Result<Task, WireError> {
    let content = match (arguments.content, options.attach) {
        (Some(text), false) => Content::Inline(text),
        (None, true) => Content::Attached,
        (Some(_), true) => {
            return Err(invalid(
                "content",
                "an attachment is also announced",
                "give one of the two",
            ));
        }
        (None, false) => {
            let hint = "give the text, or announce it with options.attach and send it as input";
            return Err(invalid("content", "there is none", hint));
        }
    };
    let mode = match arguments.mode {
        wire::WriteMode::Overwrite => WriteMode::Overwrite,
        wire::WriteMode::Append => WriteMode::Append,
        wire::WriteMode::Create => WriteMode::Create,
    };
    Ok(Task::Write { path: path("path", arguments.path)?, mode, content })
}

fn list(arguments: wire::ListFiles) -> Result<Task, WireError> {
    let limit = arguments.limit.unwrap_or(ENTRIES.0);
    if !(1..=ENTRIES.1).contains(&limit) {
        let why = format!("{limit} is not from 1 to {}", ENTRIES.1);
        return Err(invalid("limit", &why, "page through more with skip"));
    }
    let directory = arguments.path.unwrap_or_else(|| RawPath(b".".to_vec()));
    let (recursive, skip) = (arguments.recursive, arguments.skip.unwrap_or(0));
    Ok(Task::List { path: path("path", directory)?, recursive, skip, limit })
}

#[cfg(test)]
mod tests;
