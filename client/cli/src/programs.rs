//! Programs that the command line starts for an operator: one that answers questions, and an
//! editor. The only file of this crate that starts a process.

use crate::approve::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Child,
    time::{Instant, timeout_at},
};

/// The longest answer that is read.
const MOST: u64 = 1 << 20;

/// A program's process group, which ends with this value unless it was seen to end before.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It is not reaped yet, so the number is still its own.
            if kill_process_group(pid, Signal::KILL).is_err() {
                // It ended by itself in between.
            }
        }
    }
}

/// Gives a program its input and takes its output, or says why there is none that counts.
#[allow(clippy::disallowed_methods, reason = "the operator's own program, named by the operator")]
pub(crate) async fn ask(
    program: &Path,
    arguments: &[String],
    input: Vec<u8>,
    time: Duration,
) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut command = tokio::process::Command::from(command);
    let mut child =
        command.kill_on_drop(true).spawn().map_err(|error| format!("did not start: {error}"))?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let deadline = Instant::now() + time;
    let Ok(talked) = timeout_at(deadline, talk(&mut child, input)).await else {
        return Err(format!("did not answer within {time:?}"));
    };
    let output = talked?;
    let Ok(ended) = timeout_at(deadline, child.wait()).await else {
        return Err(format!("answered but did not end within {time:?}"));
    };
    group.0 = None;
    let status = ended.map_err(|error| format!("can not be waited for: {error}"))?;
    if status.success() { Ok(output) } else { Err(format!("failed ({status})")) }
}

async fn talk(child: &mut Child, input: Vec<u8>) -> Result<Vec<u8>, String> {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("has no pipes".to_owned());
    };
    let feed = async move {
        // A program need not read the question to answer it.
        drop(stdin.write_all(&input).await);
    };
    let mut output = Vec::new();
    let mut bounded = stdout.take(MOST + 1);
    let ((), read) = tokio::join!(feed, bounded.read_to_end(&mut output));
    read.map_err(|error| format!("can not be read from: {error}"))?;
    if output.len() as u64 > MOST {
        return Err(format!("answered with more than {MOST} bytes"));
    }
    Ok(output)
}

/// Opens a file in the person's editor, on their terminal, and waits for its end.
#[allow(clippy::disallowed_methods, reason = "the operator's own editor")]
pub(crate) async fn edit(file: &Path, terminal: &Terminal) -> Result<(), String> {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let editor = named.into_iter().find(|text| !text.trim().is_empty());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let Some(program) = words.next() else { return Err("no editor is named".to_owned()) };
    let lend = || terminal.lend().map_err(|error| format!("can not lend the terminal: {error}"));
    let mut command = Command::new(program);
    command.args(words).arg(file).stdin(lend()?).stdout(lend()?).stderr(lend()?);
    let mut child = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("can not start the editor {program}: {error}; set $EDITOR"))?;
    let status = child.wait().await.map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("the editor failed ({status})")) }
}
