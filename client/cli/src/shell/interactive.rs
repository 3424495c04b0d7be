//! The interactive form of `palisade shell`: a shell on a terminal of its own, as a job in a
//! transaction. What is typed goes to it, what it prints is shown, and what a command changed is
//! committed when the next prompt appears.

use super::screen::ScreenFilter;
use crate::{
    approve::{
        asking::Approvers,
        signals::Signals,
        terminal::{self, SCREEN, Terminal},
    },
    exit,
    failure::Failure,
    options::LONGEST,
    paint, print,
    stream::{self, Bytes},
};
use palisade_client::{
    Call, Error, ErrorCode, JobStatus, Route, Session, WireError, arguments::Bash,
};
use std::{cell::Cell, io, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::timeout,
};

/// The prompt. It begins with the mark that tells where a command has ended.
const PROMPT: &str = r"\[\e]133;A\a\](palisade) \w\$ ";

/// The time that one request waits for output.
const WAIT: Duration = Duration::from_secs(300);

/// The time that input may take until the program has read it.
const TYPING: Duration = Duration::from_secs(30);

/// The time after which a person is told that changes wait for approval.
const SOON: Duration = Duration::from_secs(1);

/// The number of actions that may wait.
const WAITING: usize = 64;

/// Something to do for the job.
#[derive(Debug)]
enum Action {
    Type(String),
    Resize(u16, u16),
    Commit,
}

/// Returns the command of an interactive shell with these options and operands. It reads no start-up
/// files, which would change the prompt.
pub(super) fn command(words: impl IntoIterator<Item = String>) -> Vec<String> {
    ["bash", "--norc", "-i"].map(str::to_owned).into_iter().chain(words).collect()
}

/// Runs an interactive shell at this terminal; returns its exit status.
pub(super) async fn run(
    session: &Session,
    call: Call<Bash>,
    approvers: &Approvers,
) -> Result<u8, Failure> {
    let terminal = Terminal::open().map_err(|error| gone(&error))?;
    let keys = Terminal::open().map_err(|error| gone(&error))?;
    let (rows, cols) = terminal.size();
    let call = call.env("PS1", PROMPT).in_transaction().typing().pty(rows, cols).background();
    let (started, _) = stream::watch(approvers.announce(call).start().await?, Bytes::Left).await?;
    if let Some(error) = &started.error {
        return Err(error.into());
    }
    let job = JobStatus::of(&started).ok_or_else(no_job)?.job;
    let shell = InteractiveShell {
        session,
        job,
        terminal: &terminal,
        approvers,
        commits: started.route == Some(Route::Transaction),
        has_line: Cell::new(false),
    };
    let modes = terminal.pass_through().map_err(|error| gone(&error))?;
    let ended = shell.serve(keys).await;
    let reset = terminal.reset_after_program();
    drop(modes);
    let status = ended?;
    reset.map_err(|error| gone(&error))?;
    if let Some(error) =
        status.error.as_ref().filter(|error| error.code != ErrorCode::CommandFailed)
    {
        print::failure(&error.into());
    }
    Ok(exit::of_job(&status))
}

/// A shell that runs, and the terminal that it is shown at.
struct InteractiveShell<'a> {
    session: &'a Session,
    job: u64,
    terminal: &'a Terminal,
    approvers: &'a Approvers,
    /// True if the shell runs in a transaction. Under `guard = "off"` its changes take effect at once.
    commits: bool,
    /// True if a line was entered since the last prompt. A prompt that is only printed again ends no
    /// command.
    has_line: Cell<bool>,
}

impl InteractiveShell<'_> {
    /// Serves the shell until it has ended and its last changes are decided.
    async fn serve(&self, keys: Terminal) -> Result<JobStatus, Failure> {
        let mut signals = Signals::watch_without_interrupt()?;
        let (sender, actions) = mpsc::channel(WAITING);
        tokio::select! {
            ended = self.show(&sender) => ended,
            failure = self.act(actions) => Err(failure),
            failure = self.read_keys(keys, &sender) => Err(failure),
            failure = self.follow_size(&sender) => Err(failure),
            status = signals.next() => {
                terminal::restore();
                // The session ends with this process, and the job with it.
                std::process::exit(status.into());
            }
        }
    }

    /// Shows what the shell prints, until it has ended. A prompt behind a line commits.
    async fn show(&self, actions: &mpsc::Sender<Action>) -> Result<JobStatus, Failure> {
        let (mut filter, mut cursor) = (ScreenFilter::default(), 0);
        loop {
            let read = self.session.job_output(self.job).cursor(cursor).wait(WAIT);
            let result = read.timeout(WAIT * 2).await?;
            if let Some(error) = &result.error {
                return Err(error.into());
            }
            let status = JobStatus::of(&result).ok_or_else(no_job)?;
            let output = filter.push(&result.output);
            {
                let _turn = SCREEN.lock().await;
                print::bytes(output.text.as_bytes())?;
            }
            if output.has_prompt && self.has_line.take() && self.commits {
                // Once nothing acts any more, the shell is about to end.
                actions.send(Action::Commit).await.unwrap_or_default();
            }
            cursor = status.cursor;
            if status.has_ended() && !status.more {
                return Ok(status);
            }
        }
    }

    /// Carries out actions one after another, for as long as that works.
    async fn act(&self, mut actions: mpsc::Receiver<Action>) -> Failure {
        while let Some(action) = actions.recv().await {
            let done = match action {
                Action::Type(text) => self
                    .session
                    .job_input(self.job, text)
                    .timeout(TYPING)
                    .await
                    .map(|done| done.error),
                Action::Resize(rows, cols) => {
                    self.session.job_resize(self.job, rows, cols).await.map(|done| done.error)
                }
                Action::Commit => self.commit().await,
            };
            match done {
                Err(error) => return error.into(),
                Ok(Some(error)) => {
                    if let Err(failure) = self.tell(&error).await {
                        return failure;
                    }
                }
                Ok(None) => {}
            }
        }
        Failure::new("the shell's terminal has ended", "")
    }

    /// Commits what the shell's commands have changed. What is refused stays as it is for the shell.
    async fn commit(&self) -> Result<Option<WireError>, Error> {
        let commit = self.session.job_commit(self.job).timeout(LONGEST);
        let mut commit = std::pin::pin!(commit.into_future());
        if let Ok(done) = timeout(SOON, &mut commit).await {
            return Ok(done?.error);
        }
        if let Approvers::Operators = self.approvers {
            let waits = "note: what the command changed waits for approval (palisade pending)";
            // A terminal that is gone ends the loop of the keys.
            self.write(&[waits.to_owned()]).await.unwrap_or_default();
        }
        let error = commit.await?.error;
        if error.is_none() {
            self.redraw().await?;
        }
        Ok(error)
    }

    /// Has the shell print its prompt again, below what was shown meanwhile.
    async fn redraw(&self) -> Result<(), Error> {
        let (rows, cols) = self.terminal.size();
        for cols in [cols.saturating_add(1), cols] {
            self.session.job_resize(self.job, rows, cols).await?;
        }
        Ok(())
    }

    /// Tells of an error of an action. That the shell is ending is none.
    async fn tell(&self, error: &WireError) -> Result<(), Failure> {
        if error.code == ErrorCode::NotFound {
            return Ok(());
        }
        let lines = Failure::from(error).lines(paint::stderr());
        self.write(&lines).await.map_err(|error| gone(&error))?;
        Ok(self.redraw().await?)
    }

    /// Writes lines below what the shell has printed.
    async fn write(&self, lines: &[String]) -> io::Result<()> {
        let _turn = SCREEN.lock().await;
        let text: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        self.terminal.write(&format!("\r\n{text}"))
    }

    /// Passes on what is typed, for as long as there is a terminal.
    async fn read_keys(&self, mut keys: Terminal, actions: &mpsc::Sender<Action>) -> Failure {
        let mut typed = Vec::new();
        loop {
            match keys.typed_beside_requests().await {
                Ok(bytes) if !bytes.is_empty() => typed.extend(bytes),
                Ok(_) => return gone(&io::ErrorKind::UnexpectedEof.into()),
                Err(error) => return gone(&error),
            }
            let text = take_text(&mut typed);
            if text.contains(['\r', '\n']) {
                self.has_line.set(true);
            }
            if !text.is_empty() {
                actions.send(Action::Type(text)).await.unwrap_or_default();
            }
        }
    }

    /// Gives the shell's terminal the size of this one, whenever that changes.
    async fn follow_size(&self, actions: &mpsc::Sender<Action>) -> Failure {
        let mut changes = match signal(SignalKind::window_change()) {
            Ok(changes) => changes,
            Err(error) => return gone(&error),
        };
        while changes.recv().await.is_some() {
            let (rows, cols) = self.terminal.size();
            actions.send(Action::Resize(rows, cols)).await.unwrap_or_default();
        }
        gone(&io::ErrorKind::UnexpectedEof.into())
    }
}

/// Takes the text that is complete; the beginning of a character waits for the rest.
fn take_text(typed: &mut Vec<u8>) -> String {
    let whole = match std::str::from_utf8(typed) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Ok(_) | Err(_) => typed.len(),
    };
    let text: Vec<u8> = typed.drain(..whole).collect();
    String::from_utf8_lossy(&text).into_owned()
}

fn no_job() -> Failure {
    Failure::new("the daemon started no job", "")
}

fn gone(error: &io::Error) -> Failure {
    Failure::new(
        format!("can not use the terminal: {error}"),
        "the shell and its commands have ended",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_arrives_in_parts_is_passed_on_whole() {
        let mut typed = "aé".as_bytes()[..2].to_vec();
        assert_eq!(take_text(&mut typed), "a");
        typed.push(0xa9);
        assert_eq!(take_text(&mut typed), "é");
        typed.extend(b"\xff\x03");
        assert_eq!(take_text(&mut typed), "\u{fffd}\x03");
        assert!(typed.is_empty());
    }
}
