//! `bash`: a shell line, or a program without a shell. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{
    Content, Directory, Manner, Parsed, Program, RouteChoice, Task, Typing, invalid, path, size,
};
use palisade_protocol::{
    AuditOperation, Call, CallOptions, ErrorCode, PermissionClass, ToolSpec, WireError,
    arguments as wire,
};
use std::time::Duration;

/// A longer shell line goes to the shell by descriptor: one argument holds 128 KiB.
const LONG_COMMAND: usize = 100 * 1024;
/// The longest shell line; it travels in one message.
const MAX_COMMAND: usize = 3 * 1024 * 1024;
/// The longest that a call waits before its program becomes a job, in milliseconds.
const MOST_PATIENCE: u64 = 600_000;
/// The kernel's limit for one argument, its closing NUL included.
const MAX_ARGUMENT: usize = 128 * 1024;
/// The kernel's limit for all arguments, a pointer for each included.
const MAX_ARGUMENTS: usize = 2 * 1024 * 1024;

pub(super) const DESCRIPTION: Description = Description {
    name: "bash",
    aliases: &["Bash", "shell"],
    text: "Runs a shell line (command) or a program without a shell (argv), confined to the \
           workspace. The current directory is kept from call to call; nothing else of the shell \
           is. Standard input is at its end unless given. Every process that the call started is \
           gone when it ends. Output over the limit is shown as head and tail; the rest can be \
           paged through by the call id. With background (or yield_ms, when that time is over) it \
           becomes a job: job_output reads what it prints, job_kill ends it. pty runs it on a \
           terminal.",
    traits: Traits::Mutating,
    class: PermissionClass::Bash,
    operation: AuditOperation::Execute,
    search: "run command shell terminal execute program script",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let arguments: wire::Bash = schema::parse(tool, call)?;
    let timeout_ms = arguments.timeout_ms;
    Ok(Parsed { task: Task::Run(program(arguments, &call.options)?), timeout_ms })
}

fn program(mut arguments: wire::Bash, options: &CallOptions) -> Result<Program, WireError> {
    let ((argv, script), directory) = match (arguments.command.take(), arguments.argv.take()) {
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
    manner: Manner,
) -> Result<Typing, WireError> {
    match (arguments.input, manner) {
        (false, _) => Ok(Typing::Closed),
        (true, _) if arguments.stdin.is_some() || options.attach => {
            let hint = "leave out `input`, or send it with job_input";
            Err(invalid("input", "its standard input is also given", hint))
        }
        (true, Manner::Foreground) => {
            let hint = "set `background`, or give `stdin`";
            Err(invalid("input", "only a job can be typed into", hint))
        }
        (true, Manner::Background | Manner::Yield(_)) => Ok(Typing::Open),
    }
}

fn route(asked: Option<wire::BashRoute>, manner: Manner) -> Result<RouteChoice, WireError> {
    match (asked, manner) {
        (None, _) => Ok(RouteChoice::Automatic),
        (Some(wire::BashRoute::Transaction), _) => Ok(RouteChoice::Transaction),
        (Some(wire::BashRoute::Watch), Manner::Background | Manner::Yield(_)) => {
            Ok(RouteChoice::Watch)
        }
        (Some(wire::BashRoute::Watch), Manner::Foreground) => {
            let hint = "set `background` or `yield_ms`, or leave out `route`";
            Err(invalid("route", "only a job can watch", hint))
        }
        (Some(wire::BashRoute::Direct), Manner::Background) => Ok(RouteChoice::Direct),
        (Some(wire::BashRoute::Direct), Manner::Foreground | Manner::Yield(_)) => {
            let hint = "set `background`, or leave out `route`";
            Err(invalid("route", "only a job can run directly", hint))
        }
    }
}

fn manner(background: bool, yield_ms: Option<u64>) -> Result<Manner, WireError> {
    match (background, yield_ms) {
        (false, None) => Ok(Manner::Foreground),
        (true, None) => Ok(Manner::Background),
        (true, Some(_)) => {
            Err(invalid("yield_ms", "there is also `background`", "give one of the two"))
        }
        (false, Some(patience @ 1..=MOST_PATIENCE)) => {
            Ok(Manner::Yield(Duration::from_millis(patience)))
        }
        (false, Some(other)) => {
            let why = format!("{other} is not from 1 to {MOST_PATIENCE}");
            Err(invalid("yield_ms", &why, "set `background` to wait not at all"))
        }
    }
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
