//! `bash`: a shell line, or a program without a shell. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{
    Content, DirectoryPolicy, ParsedArguments, Program, RouteChoice, StdinMode, Task, WaitMode,
    invalid, path, size,
};
use palisade_protocol::{
    AuditOperation, Call, CallOptions, ErrorCode, PermissionClass, ToolSpec, WireError,
    arguments as wire,
};
use std::time::Duration;

/// The length from which a shell line is passed by descriptor: one argument holds only 128 KiB.
const LONG_COMMAND: usize = 100 * 1024;
/// The longest shell line; it must fit into one message.
const MAX_COMMAND: usize = 3 * 1024 * 1024;
/// The longest time that a call waits before its program becomes a job, in milliseconds.
const MOST_PATIENCE: u64 = 600_000;
/// The kernel's limit for one argument, including its terminating NUL.
const MAX_ARGUMENT: usize = 128 * 1024;
/// The kernel's limit for all arguments, including one pointer each.
const MAX_ARGUMENTS: usize = 2 * 1024 * 1024;

pub(super) const DESCRIPTION: Description = Description {
    name: "bash",
    aliases: &["Bash", "shell"],
    text: "Runs a shell command line (command) or a program without a shell (argv), confined to \
           the workspace. The current directory persists between calls, except for those with cwd; \
           other shell state does not. Calls with cwd or argv may run side by side. Standard input is empty unless given. Every process that the call started is \
           killed when the call ends. Output over the limit is cut to head and tail; the full \
           output can be paged by call id. With background (or after yield_ms) it becomes a job: \
           job_output reads its output, job_kill ends it. pty runs it on a terminal.",
    traits: Traits::Mutating,
    class: PermissionClass::Bash,
    operation: AuditOperation::Execute,
    search: "run command shell terminal execute program script",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: wire::Bash = schema::parse(tool, call)?;
    let timeout_ms = arguments.timeout_ms;
    Ok(ParsedArguments { task: Task::Run(program(arguments, &call.options)?), timeout_ms })
}

fn program(mut arguments: wire::Bash, options: &CallOptions) -> Result<Program, WireError> {
    let ((argv, script), directory) = match (arguments.command.take(), arguments.argv.take()) {
        (Some(command), None) => (shell(command)?, DirectoryPolicy::Kept),
        (None, Some(argv)) => ((arguments_of(argv)?, None), DirectoryPolicy::Left),
        (Some(_), Some(_)) => {
            return Err(invalid("argv", "`command` is also given", "give one of the two"));
        }
        (None, None) => {
            let hint = "give `command` for a shell command line or `argv` for a program";
            return Err(invalid("command", "neither `command` nor `argv` is given", hint));
        }
    };
    let manner = manner(arguments.background, arguments.yield_ms)?;
    let typing = typing(&arguments, options, manner)?;
    let stdin = match (arguments.stdin, options.attach) {
        (Some(_), true) => {
            return Err(invalid("stdin", "an attachment is also announced", "give one of the two"));
        }
        (Some(text), false) => Some(Content::Inline(text)),
        (None, true) => Some(Content::Attached),
        (None, false) => None,
    };
    let terminal = match (arguments.pty, arguments.rows, arguments.cols) {
        (true, rows, cols) => Some(size(rows.unwrap_or(24), cols.unwrap_or(80))?),
        (false, None, None) => None,
        (false, Some(_), _) => return Err(invalid("rows", "there is no terminal", "set `pty`")),
        (false, None, Some(_)) => return Err(invalid("cols", "there is no terminal", "set `pty`")),
    };
    let cwd = arguments.cwd.map(|cwd| path("cwd", cwd)).transpose()?;
    let route = route(arguments.route, manner)?;
    Ok(Program {
        argv,
        script,
        cwd,
        environment: arguments.env,
        stdin,
        directory,
        manner,
        typing,
        lifetime: None,
        terminal,
        route,
    })
}

fn typing(
    arguments: &wire::Bash,
    options: &CallOptions,
    manner: WaitMode,
) -> Result<StdinMode, WireError> {
    match (arguments.input, manner) {
        (false, _) => Ok(StdinMode::Closed),
        (true, _) if arguments.stdin.is_some() || options.attach => {
            let hint = "leave out `input`, or send it with job_input";
            Err(invalid("input", "standard input is also given", hint))
        }
        (true, WaitMode::Foreground) => {
            let hint = "set `background`, or give `stdin`";
            Err(invalid("input", "only a job takes input", hint))
        }
        (true, WaitMode::Background | WaitMode::Yield(_)) => Ok(StdinMode::Open),
    }
}

fn route(asked: Option<wire::BashRoute>, manner: WaitMode) -> Result<RouteChoice, WireError> {
    match (asked, manner) {
        (None, _) => Ok(RouteChoice::Automatic),
        (Some(wire::BashRoute::Transaction), _) => Ok(RouteChoice::Transaction),
        (Some(wire::BashRoute::Watch), WaitMode::Background | WaitMode::Yield(_)) => {
            Ok(RouteChoice::Watch)
        }
        (Some(wire::BashRoute::Watch), WaitMode::Foreground) => {
            let hint = "set `background` or `yield_ms`, or leave out `route`";
            Err(invalid("route", "only a job can use route watch", hint))
        }
        (Some(wire::BashRoute::Direct), WaitMode::Background) => Ok(RouteChoice::Direct),
        (Some(wire::BashRoute::Direct), WaitMode::Foreground | WaitMode::Yield(_)) => {
            let hint = "set `background`, or leave out `route`";
            Err(invalid("route", "only a background job can use route direct", hint))
        }
    }
}

fn manner(background: bool, yield_ms: Option<u64>) -> Result<WaitMode, WireError> {
    match (background, yield_ms) {
        (false, None) => Ok(WaitMode::Foreground),
        (true, None) => Ok(WaitMode::Background),
        (true, Some(_)) => {
            Err(invalid("yield_ms", "`background` is also given", "give one of the two"))
        }
        (false, Some(patience @ 1..=MOST_PATIENCE)) => {
            Ok(WaitMode::Yield(Duration::from_millis(patience)))
        }
        (false, Some(other)) => {
            let why = format!("{other} is not from 1 to {MOST_PATIENCE}");
            Err(invalid("yield_ms", &why, "set `background` if the call should not wait"))
        }
    }
}

fn shell(command: String) -> Result<(Vec<String>, Option<String>), WireError> {
    if command.contains('\0') {
        return Err(invalid("command", "it contains a NUL byte", "leave it out"));
    }
    if command.len() > MAX_COMMAND {
        let why = format!(
            "the shell command line has {} bytes, the limit is {MAX_COMMAND}",
            command.len()
        );
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
        return Err(invalid("argv", "an argument contains a NUL byte", "leave it out"));
    }
    let longest = argv.iter().map(|argument| argument.len() + 1).max().unwrap_or(0);
    let all: usize = argv.iter().map(|argument| argument.len() + 1 + size_of::<usize>()).sum();
    if longest > MAX_ARGUMENT || all > MAX_ARGUMENTS {
        let why = format!(
            "the arguments are too long (E2BIG): the longest has {longest} bytes of at most \
             {MAX_ARGUMENT}, all together {all} of at most {MAX_ARGUMENTS}"
        );
        let hint = "pass the data on standard input or in a file";
        return Err(WireError::new(ErrorCode::SpawnFailed, why, hint));
    }
    Ok(argv)
}
