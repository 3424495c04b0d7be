//! A person at a terminal who answers approval requests: the loop between daemon, keys and screen.

use crate::{
    approve::automatic::{BEAT, live, word},
    approve::card,
    approve::desk::{ApprovalQueue, KeyAction},
    approve::scopes::{self, OfferedScope},
    approve::signals::Signals,
    approve::terminal::{self, CLEAR, ChangedModes, Terminal},
    failure::Failure,
    paint::{self, Paint},
    programs,
    visible::{columns::Width, visible},
};
use palisade_client::{
    Answer, Answered, ApprovalRequest, ErrorCode, FileChange, Operator, OperatorEvent, Review,
};
use palisade_protocol::JsonText;
use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};
use tokio::sync::MutexGuard;

/// The longest time that the counts of earlier requests may take.
const HISTORY: Duration = Duration::from_secs(10);

/// The reason that a person is at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApproverMode {
    /// The person runs `palisade approve`, and answers every approval request until they quit.
    Standing,
    /// The person runs a command of their own that may need approval.
    Own,
}

/// A person, their terminal and the daemon.
#[derive(Debug)]
pub(crate) struct Person {
    operator: Operator,
    terminal: Terminal,
    desk: ApprovalQueue,
    duty: ApproverMode,
    paint: Paint,
    raw: Option<ChangedModes>,
    /// Held while an approval request is shown, so that nothing else is written.
    screen: Option<MutexGuard<'static, ()>>,
}

/// The next step of the loop.
enum Next {
    GoOn,
    Leave,
}

impl Person {
    pub(crate) fn new(operator: Operator, terminal: Terminal, duty: ApproverMode) -> Self {
        let desk = ApprovalQueue::new(Instant::now());
        Self { operator, terminal, desk, duty, paint: paint::terminal(), raw: None, screen: None }
    }

    /// Shows and answers approval requests until the person quits or the daemon ends. Returns the
    /// exit status. A signal ends the process, after the terminal is restored.
    pub(crate) async fn serve(mut self) -> Result<u8, Failure> {
        let mut signals = match self.duty {
            ApproverMode::Standing => Signals::watch()?,
            // Ctrl-C is for the command.
            ApproverMode::Own => Signals::watch_without_interrupt()?,
        };
        // A separate task, so that a signal ends the process whatever the loop below waits for.
        tokio::spawn(async move {
            let status = signals.next().await;
            terminal::restore();
            std::process::exit(status.into());
        });
        let mut beat = tokio::time::interval(BEAT);
        loop {
            self.show_request().await.map_err(|error| gone(&error))?;
            let wake = tokio::time::Instant::from_std(self.desk.wake(Instant::now()));
            let listens = self.raw.is_some();
            let next = tokio::select! {
                event = self.operator.next() => match event {
                    Some(event) => self.handle_event(event),
                    None => return Err(self.operator.ended().into()),
                },
                typed = self.terminal.typed(), if listens => match typed {
                    Ok(bytes) if !bytes.is_empty() => self.key(&bytes).await,
                    // The terminal is gone, and nobody can approve any more.
                    Ok(_) | Err(_) => return self.abandon().await,
                },
                _ = beat.tick() => {
                    live(&self.operator);
                    Ok(Next::GoOn)
                }
                () = tokio::time::sleep_until(wake) => Ok(Next::GoOn),
            };
            match next.map_err(|error| gone(&error))? {
                Next::GoOn => {}
                Next::Leave => return Ok(0),
            }
        }
    }

    /// Shows the first approval request, if it is not visible yet, and the prompt below.
    async fn show_request(&mut self) -> io::Result<()> {
        if self.duty == ApproverMode::Own && self.desk.front().is_none() {
            self.raw = None;
            self.screen = None;
            return Ok(());
        }
        if self.screen.is_none() {
            self.screen = Some(terminal::SCREEN.lock().await);
        }
        let now = Instant::now();
        if self.raw.is_none() {
            self.raw = Some(self.terminal.read_keys()?);
        }
        let width = self.width();
        if let Some((request, left)) = self.desk.show(now) {
            let shown = card::render(request, left, width, self.paint);
            // Keys typed before the request was shown were not meant for it.
            self.terminal.discard()?;
            self.terminal.reset()?;
            self.terminal.write(&format!("{CLEAR}\n{shown}"))?;
        }
        let prompt = self.desk.prompt(self.terminal.width(), now);
        self.terminal.write(&format!("{CLEAR}{prompt}"))
    }

    fn width(&self) -> Width {
        Width::Columns(self.terminal.width())
    }

    /// Prints a line above the prompt.
    fn print_line(&self, text: &str) -> io::Result<()> {
        self.terminal.write(&format!("{CLEAR}{text}\n"))
    }

    fn handle_event(&mut self, event: OperatorEvent) -> io::Result<Next> {
        let text = if let OperatorEvent::ApprovalRequest(request) = event {
            self.desk.add(*request, Instant::now())
        } else if let OperatorEvent::Over(over) = event {
            self.desk.over(&over)
        } else if let OperatorEvent::Approved(approved) = event {
            self.desk.approved(&approved)
        } else {
            None
        };
        text.map_or(Ok(()), |text| self.print_line(&text))?;
        Ok(Next::GoOn)
    }

    async fn key(&mut self, bytes: &[u8]) -> io::Result<Next> {
        match self.desk.typed(bytes, Instant::now()) {
            KeyAction::Nothing => {}
            KeyAction::Say(text) => self.print_line(&text)?,
            KeyAction::Offer(scopes) => self.offer(&scopes).await?,
            KeyAction::Answer(answer) => self.give(answer).await?,
            KeyAction::Edit => self.edit().await?,
            KeyAction::Abort => self.abort().await?,
            KeyAction::Quit if self.duty == ApproverMode::Standing => return Ok(Next::Leave),
            // There is nothing to quit but the approval request.
            KeyAction::Quit => {
                if let KeyAction::Answer(answer) = self.desk.deny("") {
                    self.give(answer).await?;
                }
            }
        }
        Ok(Next::GoOn)
    }

    /// Shows the scopes for which the first approval request may be remembered, each with what it
    /// would have allowed.
    async fn offer(&self, offered: &[OfferedScope]) -> io::Result<()> {
        let Some(request) = self.desk.front() else { return Ok(()) };
        let wanted = offered.iter().map(|scope| scope.remember.scope.clone()).collect();
        let history = self.operator.scope_history(request, wanted);
        let history = tokio::time::timeout(HISTORY, history).await;
        // Without an answer in time the scopes are offered alone.
        let history = history.ok().and_then(Result::ok);
        self.print_line(&scopes::describe(offered, history.as_ref(), self.width()))
    }

    async fn give(&mut self, answer: Answer) -> io::Result<()> {
        let Some(request) = self.desk.front() else { return Ok(()) };
        let told = word(&answer);
        let taken = self.operator.answer(request, answer).await;
        // If the answer was refused for its contents, the request stays open. If only remembering
        // it was refused, the answer was accepted.
        let open = taken.as_ref().is_err_and(|error| {
            let code = error.code();
            let over = matches!(code, Some(ErrorCode::StaleApproval | ErrorCode::NotFound));
            !over && !error.is_remember_refusal()
        });
        let id = card::short_id(&request.id);
        let line = match &taken {
            Ok(Answered { grant: None, missing }) => {
                card::with_missing(format!("{id} {told}"), *missing)
            }
            Ok(Answered { grant: Some(grant), .. }) => {
                format!("{id} {told}; remembered as {grant}")
            }
            Err(error) if error.is_remember_refusal() => {
                let why = error.wire().map_or("", |wire| &wire.message);
                format!("{id} {told}: {}", visible(why))
            }
            Err(error) => {
                format!("{id} was not answered: {}", visible(&error.to_string()))
            }
        };
        if taken.is_ok_and(|answered| answered.missing > 0) {
            self.desk.approved_by_this();
        } else if !open {
            self.desk.done();
        }
        self.print_line(&line)
    }

    async fn abort(&mut self) -> io::Result<()> {
        let Some(request) = self.desk.front() else { return Ok(()) };
        let session = &request.asker.session;
        let line = match self.operator.abort(session).await {
            Ok(()) => format!("ended session {session}"),
            Err(error) => {
                format!("session {session} was not ended: {}", visible(&error.to_string()))
            }
        };
        self.print_line(&line)
    }

    /// Lets the person edit what would run, and approves the edited version.
    async fn edit(&mut self) -> io::Result<()> {
        let Some(request) = self.desk.front().cloned() else { return Ok(()) };
        self.print_line(
            "opening the editor; if you save changes, the changed version is approved",
        )?;
        // The editor gets the terminal in the state in which this program found it.
        self.raw = None;
        let modes = self.terminal.as_found()?;
        let edited = self.edited(&request).await;
        drop(modes);
        self.raw = Some(self.terminal.read_keys()?);
        match edited {
            Ok(Some(answer)) => self.give(answer).await,
            Ok(None) => self.print_line("nothing was changed; nothing was decided"),
            Err(why) => self.print_line(&format!("nothing was decided: {}", visible(&why))),
        }
    }

    async fn edited(&self, request: &ApprovalRequest) -> Result<Option<Answer>, String> {
        let (before, suffix) = match request.review {
            Review::Input => (pretty(request), ".json"),
            Review::Output => (request.output.clone().unwrap_or_default(), ".txt"),
            Review::Effects => (listed(request), ".txt"),
        };
        let failed = |error: io::Error| format!("can not create a file to edit: {error}");
        let mut builder = tempfile::Builder::new();
        let mut file = builder.prefix("palisade-").suffix(suffix).tempfile().map_err(failed)?;
        file.write_all(before.as_bytes()).and_then(|()| file.flush()).map_err(failed)?;
        let editing = programs::edit(file.path(), &self.terminal);
        tokio::pin!(editing);
        let mut beat = tokio::time::interval(BEAT);
        loop {
            tokio::select! {
                ended = &mut editing => break ended?,
                _ = beat.tick() => live(&self.operator),
            }
        }
        let after = std::fs::read_to_string(file.path())
            .map_err(|error| format!("can not read the saved file: {error}"))?;
        if request.review == Review::Effects {
            return chosen(request, &after);
        }
        changed(request.review, &before, after)
    }

    /// Denies all open approval requests, because nobody can answer them any more.
    async fn abandon(mut self) -> Result<u8, Failure> {
        while let KeyAction::Answer(answer) = self.desk.deny("") {
            if let Some(request) = self.desk.front() {
                // A request that can not be answered is denied when the connection ends.
                drop(self.operator.answer(request, answer).await);
            }
            self.desk.done();
        }
        Err(Failure::new("the terminal is gone; its approval requests are denied", ""))
    }
}

/// Returns the approver name of a person at a terminal. The daemon knows their uid; the name is for
/// readers of the audit log.
pub(crate) fn name() -> String {
    let user = std::env::var("USER").ok().filter(|name| !name.is_empty());
    let uid = rustix::process::getuid();
    format!("person:{}", user.unwrap_or_else(|| format!("uid-{uid}")))
}

fn pretty(request: &ApprovalRequest) -> String {
    let text = request.arguments.as_str();
    serde_json::from_str::<serde_json::Value>(text)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .map_or_else(|_| text.to_owned(), |pretty| pretty + "\n")
}

/// Lists a command's changes, one line per path. The person deletes the lines of changes that must
/// not be committed.
fn listed(request: &ApprovalRequest) -> String {
    let line = |change: &FileChange| format!("{} {}\n", change.effect, shown(change));
    request.view.changes.iter().map(line).collect()
}

fn shown(change: &FileChange) -> String {
    visible(&change.path.as_path().display().to_string())
}

/// Returns the answer that keeps the changes whose lines are left; `None` if all are left.
fn chosen(request: &ApprovalRequest, after: &str) -> Result<Option<Answer>, String> {
    let left: Vec<&str> =
        after.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let line = |change: &FileChange| format!("{} {}", change.effect, shown(change));
    let changes = &request.view.changes;
    if let Some(other) = left.iter().find(|one| !changes.iter().any(|c| line(c) == **one)) {
        return Err(format!("{other:?} is not one of the original lines"));
    }
    let out: Vec<_> = changes
        .iter()
        .filter(|change| !left.contains(&line(change).as_str()))
        .map(|change| change.path.clone())
        .collect();
    match (out.len(), changes.len()) {
        (0, _) => Ok(None),
        (out, all) if out == all => Err("no line is left; to discard all changes, deny".to_owned()),
        (_, _) => Ok(Some(Answer::approve_without(out))),
    }
}

/// Returns the answer for the saved text; `None` if it is unchanged.
fn changed(review: Review, before: &str, after: String) -> Result<Option<Answer>, String> {
    if after == before {
        return Ok(None);
    }
    match review {
        Review::Output => Ok(Some(Answer::replace(after))),
        Review::Input | Review::Effects => {
            let arguments = JsonText::parse(after)
                .map_err(|error| format!("the saved text is not JSON: {error}"))?;
            if !arguments.is_object() {
                return Err("the saved text is not a JSON object".to_owned());
            }
            Answer::approve_modified(&arguments).map(Some).map_err(|error| error.to_string())
        }
    }
}

fn gone(error: &io::Error) -> Failure {
    Failure::new(format!("can not use the terminal: {error}"), "its approval requests are denied")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_arguments_are_approved_and_only_an_object() {
        let before = "{\n  \"a\": 1\n}\n";
        let read = |after: &str| changed(Review::Input, before, after.to_owned());
        assert_eq!(read(before), Ok(None));
        let expected = Answer::approve_modified(&serde_json::json!({"a": 2})).unwrap();
        assert_eq!(read("{\"a\":2}\n"), Ok(Some(expected)));
        for nonsense in ["", "{", "[]", "{\"a\":1,\"a\":2}"] {
            assert!(read(nonsense).is_err(), "{nonsense}");
        }
        let replaced = changed(Review::Output, "secret", String::new());
        assert_eq!(replaced, Ok(Some(Answer::replace(""))));
    }
}
