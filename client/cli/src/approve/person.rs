//! A person at a terminal who answers questions: the loop between daemon, keys and screen.

use crate::{
    approve::automatic::{BEAT, live, word},
    approve::card,
    approve::desk::{Act, Desk},
    approve::signals::Signals,
    approve::terminal::{self, CLEAR, Raw, Terminal},
    failure::Failure,
    paint::{self, Paint},
    programs,
    visible::visible,
};
use palisade_client::{Answer, ErrorCode, FileChange, Operator, OperatorEvent, Question, Review};
use palisade_protocol::JsonText;
use std::{
    io::{self, Write as _},
    time::Instant,
};
use tokio::sync::MutexGuard;

/// What brings a person to the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// To answer whatever comes, until they leave.
    Standing,
    /// A command of their own that may ask.
    Own,
}

/// A person, their terminal and the daemon.
#[derive(Debug)]
pub(crate) struct Person {
    operator: Operator,
    terminal: Terminal,
    desk: Desk,
    duty: Duty,
    paint: Paint,
    raw: Option<Raw>,
    /// While a question is shown nothing else is written.
    screen: Option<MutexGuard<'static, ()>>,
}

/// Whether to go on.
enum Next {
    GoOn,
    Leave,
}

impl Person {
    pub(crate) fn new(operator: Operator, terminal: Terminal, duty: Duty) -> Self {
        let desk = Desk::new(Instant::now());
        Self { operator, terminal, desk, duty, paint: paint::terminal(), raw: None, screen: None }
    }

    /// Shows and answers questions until the person leaves or the daemon goes; the exit status. A
    /// signal ends the process, with the terminal as it was.
    pub(crate) async fn serve(mut self) -> Result<u8, Failure> {
        let mut signals = match self.duty {
            Duty::Standing => Signals::watch()?,
            // Ctrl-C is for the command.
            Duty::Own => Signals::watch_without_interrupt()?,
        };
        // A task of its own: whatever is waited for below, a signal ends this.
        tokio::spawn(async move {
            let status = signals.next().await;
            terminal::restore();
            std::process::exit(status.into());
        });
        let mut beat = tokio::time::interval(BEAT);
        loop {
            self.face().await.map_err(|error| gone(&error))?;
            let wake = tokio::time::Instant::from_std(self.desk.wake(Instant::now()));
            let listens = self.raw.is_some();
            let next = tokio::select! {
                event = self.operator.next() => match event {
                    Some(event) => self.hear(event),
                    None => return Err(self.operator.ended().into()),
                },
                typed = self.terminal.typed(), if listens => match typed {
                    Ok(bytes) if !bytes.is_empty() => self.key(&bytes).await,
                    // The terminal is gone, and with it whoever could say yes.
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

    /// Puts the question in front on the screen, if it is not there, and the prompt below.
    async fn face(&mut self) -> io::Result<()> {
        if self.duty == Duty::Own && self.desk.front().is_none() {
            self.raw = None;
            self.screen = None;
            return Ok(());
        }
        if self.screen.is_none() {
            self.screen = Some(terminal::SCREEN.lock().await);
        }
        let now = Instant::now();
        if self.raw.is_none() {
            self.raw = Some(self.terminal.raw()?);
        }
        if let Some((question, left)) = self.desk.show(now) {
            let shown = card::render(question, left, self.paint);
            // What was typed before it was shown was not meant for it.
            self.terminal.discard()?;
            self.terminal.reset()?;
            self.terminal.write(&format!("{CLEAR}\n{shown}"))?;
        }
        let prompt = self.desk.prompt(self.terminal.width(), now);
        self.terminal.write(&format!("{CLEAR}{prompt}"))
    }

    /// A line above the prompt.
    fn say(&self, text: &str) -> io::Result<()> {
        self.terminal.write(&format!("{CLEAR}{text}\n"))
    }

    fn hear(&mut self, event: OperatorEvent) -> io::Result<Next> {
        let told = if let OperatorEvent::Question(question) = event {
            self.desk.add(*question, Instant::now())
        } else if let OperatorEvent::Over(over) = event {
            self.desk.over(&over)
        } else {
            None
        };
        told.map_or(Ok(()), |text| self.say(&text))?;
        Ok(Next::GoOn)
    }

    async fn key(&mut self, bytes: &[u8]) -> io::Result<Next> {
        match self.desk.typed(bytes, Instant::now()) {
            Act::Nothing => {}
            Act::Say(text) => self.say(&text)?,
            Act::Answer(answer) => self.give(answer).await?,
            Act::Edit => self.edit().await?,
            Act::Abort => self.abort().await?,
            Act::Quit if self.duty == Duty::Standing => return Ok(Next::Leave),
            // There is nothing to leave but the question.
            Act::Quit => {
                if let Act::Answer(answer) = self.desk.deny("") {
                    self.give(answer).await?;
                }
            }
        }
        Ok(Next::GoOn)
    }

    async fn give(&mut self, answer: Answer) -> io::Result<()> {
        let Some(question) = self.desk.front() else { return Ok(()) };
        let told = word(&answer);
        let taken = self.operator.answer(question, answer).await;
        // One that was refused for what it says leaves the question open; one that only is not
        // remembered was taken.
        let open = taken.as_ref().is_err_and(|error| {
            let code = error.code();
            let over = matches!(code, Some(ErrorCode::StaleApproval | ErrorCode::NotFound));
            !over && !error.is_only_not_remembered()
        });
        let line = match taken {
            Ok(None) => format!("{} {told}", question.question),
            Ok(Some(grant)) => format!("{} {told}; remembered as {grant}", question.question),
            Err(error) if error.is_only_not_remembered() => {
                let why = error.wire().map_or("", |wire| &wire.message);
                format!("{} {told}: {}", question.question, visible(why))
            }
            Err(error) => {
                format!("{} was not answered: {}", question.question, visible(&error.to_string()))
            }
        };
        if !open {
            self.desk.done();
        }
        self.say(&line)
    }

    async fn abort(&mut self) -> io::Result<()> {
        let Some(question) = self.desk.front() else { return Ok(()) };
        let session = &question.asker.session;
        let line = match self.operator.abort(session).await {
            Ok(()) => format!("session {session} aborted"),
            Err(error) => {
                format!("session {session} was not aborted: {}", visible(&error.to_string()))
            }
        };
        self.say(&line)
    }

    /// Lets the person change what would run, and approves that.
    async fn edit(&mut self) -> io::Result<()> {
        let Some(question) = self.desk.front().cloned() else { return Ok(()) };
        self.say("opening the editor; if you save something else, that is approved instead")?;
        // The editor finds the terminal as this program found it.
        self.raw = None;
        let edited = self.edited(&question).await;
        self.raw = Some(self.terminal.raw()?);
        match edited {
            Ok(Some(answer)) => self.give(answer).await,
            Ok(None) => self.say("nothing was changed, nothing is decided"),
            Err(why) => self.say(&format!("nothing is decided: {}", visible(&why))),
        }
    }

    async fn edited(&self, question: &Question) -> Result<Option<Answer>, String> {
        let (before, suffix) = match question.review {
            Review::Input => (pretty(question), ".json"),
            Review::Output => (question.output.clone().unwrap_or_default(), ".txt"),
            Review::Effects => (listed(question), ".txt"),
        };
        let failed = |error: io::Error| format!("can not make a file to edit: {error}");
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
            .map_err(|error| format!("can not read what was saved: {error}"))?;
        if question.review == Review::Effects {
            return chosen(question, &after);
        }
        changed(question.review, &before, after)
    }

    /// Denies all that was asked here: there is nobody any more who could say anything else.
    async fn abandon(mut self) -> Result<u8, Failure> {
        while let Act::Answer(answer) = self.desk.deny("") {
            if let Some(question) = self.desk.front() {
                // What can not be answered is denied with the connection.
                drop(self.operator.answer(question, answer).await);
            }
            self.desk.done();
        }
        Err(Failure::new("the terminal is gone; what was asked there is denied", ""))
    }
}

/// Who answers at a terminal. The daemon knows their uid; this is for people who read the audit.
pub(crate) fn name() -> String {
    let user = std::env::var("USER").ok().filter(|name| !name.is_empty());
    let uid = rustix::process::getuid();
    format!("person:{}", user.unwrap_or_else(|| format!("uid-{uid}")))
}

fn pretty(question: &Question) -> String {
    let text = question.arguments.as_str();
    serde_json::from_str::<serde_json::Value>(text)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .map_or_else(|_| text.to_owned(), |pretty| pretty + "\n")
}

/// What a command did, a line for each path: what is left out of it is not to count.
fn listed(question: &Question) -> String {
    let line = |change: &FileChange| format!("{} {}\n", change.effect, shown(change));
    question.view.changes.iter().map(line).collect()
}

fn shown(change: &FileChange) -> String {
    visible(&change.path.as_path().display().to_string())
}

/// The changes whose lines are left, as an answer; none if all of them are.
fn chosen(question: &Question, after: &str) -> Result<Option<Answer>, String> {
    let left: Vec<&str> =
        after.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let line = |change: &FileChange| format!("{} {}", change.effect, shown(change));
    let changes = &question.view.changes;
    if let Some(other) = left.iter().find(|one| !changes.iter().any(|c| line(c) == **one)) {
        return Err(format!("{other:?} is no line that was there"));
    }
    let out: Vec<_> = changes
        .iter()
        .filter(|change| !left.contains(&line(change).as_str()))
        .map(|change| change.path.clone())
        .collect();
    match (out.len(), changes.len()) {
        (0, _) => Ok(None),
        (out, all) if out == all => Err("nothing is left; to keep nothing, say no".to_owned()),
        (_, _) => Ok(Some(Answer::approve_without(out))),
    }
}

/// What was saved, as an answer; none if it is what it was.
fn changed(review: Review, before: &str, after: String) -> Result<Option<Answer>, String> {
    if after == before {
        return Ok(None);
    }
    match review {
        Review::Output => Ok(Some(Answer::replace(after))),
        Review::Input | Review::Effects => {
            let arguments = JsonText::parse(after)
                .map_err(|error| format!("what was saved is not JSON: {error}"))?;
            if !arguments.is_object() {
                return Err("what was saved is not a JSON object".to_owned());
            }
            Answer::approve_modified(&arguments).map(Some).map_err(|error| error.to_string())
        }
    }
}

fn gone(error: &io::Error) -> Failure {
    Failure::new(format!("can not use the terminal: {error}"), "what was asked there is denied")
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
