//! Programs that the command line starts: one that answers approval requests, an agent that lists its
//! servers, an editor, and those that come with Palisade. The only file of this crate that starts a process.

use crate::{approve::terminal::Terminal, failure::Failure};
use palisade_client::companion;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::Child,
    time::{Instant, timeout_at},
};

/// The maximum size of a program's answer, in bytes.
const MOST: u64 = 1 << 20;

/// A program's process group. It is killed when this value is dropped, unless the program has been
/// seen to end.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // The process is not reaped yet, so its id can not have been reused.
            if kill_process_group(pid, Signal::KILL).is_err() {
                // The process ended by itself in between.
            }
        }
    }
}

/// Runs a program with this input and returns its output. The error says why there is no valid
/// output.
#[allow(clippy::disallowed_methods, reason = "the operator's own program, named by the operator")]
pub(crate) async fn ask(
    program: &Path,
    arguments: &[String],
    input: Vec<u8>,
    time: Duration,
) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command.args(arguments).stderr(Stdio::inherit());
    answer(command, input, time).await
}

/// Runs an agent in a directory and returns what it prints, also as its errors: Gemini CLI lists its
/// servers there. The error says why there is nothing.
#[allow(clippy::disallowed_methods, reason = "the user's own agent, named by the user")]
pub(crate) async fn list(
    program: &str,
    arguments: &[&str],
    directory: &Path,
    time: Duration,
) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).stderr(Stdio::piped());
    let output = answer(command, Vec::new(), time).await?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

async fn answer(mut command: Command, input: Vec<u8>, time: Duration) -> Result<Vec<u8>, String> {
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut command = tokio::process::Command::from(command);
    let mut child =
        command.kill_on_drop(true).spawn().map_err(|error| format!("did not start: {error}"))?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let deadline = Instant::now() + time;
    let Ok(exchanged) = timeout_at(deadline, exchange(&mut child, input)).await else {
        return Err(format!("did not answer within {time:?}"));
    };
    let output = exchanged?;
    let Ok(ended) = timeout_at(deadline, child.wait()).await else {
        return Err(format!("answered but did not end within {time:?}"));
    };
    group.0 = None;
    let status = ended.map_err(|error| format!("can not be waited for: {error}"))?;
    if status.success() { Ok(output) } else { Err(format!("failed ({status})")) }
}

async fn exchange(child: &mut Child, input: Vec<u8>) -> Result<Vec<u8>, String> {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("has no pipes".to_owned());
    };
    let feed = async move {
        // A program need not read the approval request to answer it.
        drop(stdin.write_all(&input).await);
    };
    let errors = async {
        let mut errors = Vec::new();
        match child.stderr.take() {
            Some(stderr) => stderr.take(MOST + 1).read_to_end(&mut errors).await.map(|_| errors),
            None => Ok(errors),
        }
    };
    let mut output = Vec::new();
    let mut bounded = stdout.take(MOST + 1);
    let ((), read, errors) = tokio::join!(feed, bounded.read_to_end(&mut output), errors);
    let errors = read.and(errors).map_err(|error| format!("can not be read from: {error}"))?;
    output.extend(errors);
    if output.len() as u64 > MOST {
        return Err(format!("answered with more than {MOST} bytes"));
    }
    Ok(output)
}

/// A process that goes on when this one ends.
#[derive(Debug)]
pub(crate) struct Detached {
    /// The line that it printed; empty if it ended without one.
    pub(crate) answer: String,
    child: Child,
}

impl Detached {
    /// Waits for its end and returns its exit status; `None` if a signal ended it.
    pub(crate) async fn status(mut self) -> Option<u8> {
        let status = self.child.wait().await.ok()?;
        status.code().and_then(|code| u8::try_from(code).ok())
    }
}

/// Starts this program again with other arguments, in a process group of its own and without
/// a terminal, and waits for its first line.
#[allow(clippy::disallowed_methods, reason = "this program itself")]
pub(crate) async fn detach(arguments: &[OsString]) -> Result<Detached, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("can not start a process in the background: {error}"), "")
    };
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(arguments).process_group(0).stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(Stdio::piped());
    let mut child = tokio::process::Command::from(command).spawn().map_err(failed)?;
    let Some(stdout) = child.stdout.take() else {
        return Err(Failure::new("a process in the background has no output", ""));
    };
    let mut answer = String::new();
    BufReader::new(stdout.take(MOST)).read_line(&mut answer).await.map_err(failed)?;
    Ok(Detached { answer, child })
}

/// Returns the path of a program that comes with Palisade, or says how to get it.
pub(crate) fn find_companion(name: &str) -> Result<PathBuf, Failure> {
    companion(name).map_err(|missing| {
        let hint = format!("build it (cargo build -p {name}), or install Palisade's package");
        Failure::new(missing.to_string(), hint)
    })
}

/// Becomes a program that comes with Palisade. Returns only if that fails.
#[allow(clippy::disallowed_methods, reason = "a program of the same installation")]
pub(crate) fn exec_companion(name: &str, arguments: &[OsString]) -> Failure {
    let program = match find_companion(name) {
        Ok(program) => program,
        Err(failure) => return failure,
    };
    let error = Command::new(&program).args(arguments).exec();
    let message = format!("can not start {}: {error}", program.display());
    Failure::new(message, "is it a program this user may run?")
}

/// Opens a file in the user's editor, on their terminal, and waits until it is closed.
#[allow(clippy::disallowed_methods, reason = "the operator's own editor")]
pub(crate) async fn edit(file: &Path, terminal: &Terminal) -> Result<(), String> {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let editor = named.into_iter().find(|text| !text.trim().is_empty());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let Some(program) = words.next() else { return Err("no editor is named".to_owned()) };
    let stdio =
        || terminal.to_stdio().map_err(|error| format!("can not lend the terminal: {error}"));
    let mut command = Command::new(program);
    command.args(words).arg(file).stdin(stdio()?).stdout(stdio()?).stderr(stdio()?);
    let mut child = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("can not start the editor {program}: {error}; set $EDITOR"))?;
    let status = child.wait().await.map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("the editor failed ({status})")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_comes_with_the_command_that_builds_it() {
        let failure = format!("{:?}", find_companion("palisade-nothing").unwrap_err());
        assert!(failure.contains("cargo build -p palisade-nothing"), "{failure}");
    }
}
