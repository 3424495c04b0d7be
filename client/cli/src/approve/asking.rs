//! Asking whoever typed `run` or `call`: a private daemon has one operator, and that is them, if
//! they sit at a terminal.

use crate::{
    approve::person::{self, Duty, Person},
    approve::terminal::{self, Terminal},
    connect::{self, Found},
    failure::Failure,
    options::Connection,
    paint::{Paint, Style},
    print,
};
use palisade_client::{CallResult, Client, Registration};
use std::io::IsTerminal as _;
use tokio::task::AbortHandle;

/// Questions are asked at the terminal until this is dropped.
#[derive(Debug)]
pub(crate) struct Asking(AbortHandle);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
        terminal::restore();
    }
}

/// Connects as [`connect::connect`] does; with a private daemon, and at a terminal, its questions
/// are asked there.
pub(crate) async fn connect(options: &Connection) -> Result<(Client, Option<Asking>), Failure> {
    let private = match connect::find(options).await? {
        Found::Running(client) => return Ok((client, None)),
        Found::Private(private) => private,
    };
    let Some(terminal) = here() else { return Ok((private.start().await?, None)) };
    let (client, operator) = private.with_operator().await?;
    operator.register(Registration::new(person::name())).await?;
    let person = Person::new(operator, terminal, Duty::Own);
    let task = tokio::spawn(async move {
        if let Err(failure) = person.serve().await {
            print::failure(&failure);
        }
    });
    Ok((client, Some(Asking(task.abort_handle()))))
}

/// The terminal, if somebody sits there who sees what this program says.
fn here() -> Option<Terminal> {
    if std::io::stderr().is_terminal() { Terminal::open().ok() } else { None }
}

/// Says how to be asked, if a call was denied because nobody could be.
pub(crate) fn advise(result: &CallResult, paint: Paint) {
    if let Some(text) = advice(result) {
        print::note(&format!("{} {text}", paint.apply(Style::Hint, "hint:")));
    }
}

fn advice(result: &CallResult) -> Option<&'static str> {
    let checkpoint = result.checkpoint.as_ref()?;
    (checkpoint.decision == "denied" && checkpoint.by == "default").then_some(
        "at a terminal, and with no daemon running, you are asked there; a running daemon needs a \
         handler: palisade approve",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_client::Checkpoint;

    #[test]
    fn only_where_nobody_could_be_asked_is_it_said_how() {
        let mut result = crate::exit::tests::result();
        assert_eq!(advice(&result), None);
        let checkpoint = |by: &str| {
            let (decision, by) = ("denied".to_owned(), by.to_owned());
            Some(Checkpoint { decision, by, reason: "no handler is attached".to_owned() })
        };
        result.checkpoint = checkpoint("handler:person:ann");
        assert_eq!(advice(&result), None);
        result.checkpoint = checkpoint("default");
        assert!(advice(&result).is_some_and(|text| text.contains("palisade approve")));
    }
}
