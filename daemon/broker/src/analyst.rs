//! The analyst as the broker has it: a process beside it that parses hostile shell text. No answer is
//! an answer: what runs is then hidden. Broker.

use crate::channel::Channel;
use palisade_analyst::{Answered, Asked, MAX_TEXT, Patience, Process, WAIT, WORK};
use palisade_policy::analysis::{Analysed, Found, Kind};
use palisade_programs::Program;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{sync::Mutex, time::timeout};

/// How many there are, so that one hostile text does not hold up everybody.
const COUNT: usize = 2;

/// A few analysts.
#[derive(Debug)]
pub(crate) struct Analyst {
    /// None: nothing is analysed.
    program: Option<Program>,
    running: [Mutex<Option<Running>>; COUNT],
    next: AtomicUsize,
}

/// One that waits for a question. A question that is given up ends it.
#[derive(Debug)]
struct Running {
    channel: Channel,
    number: u64,
    process: Process,
}

/// How a question failed.
enum Broken {
    /// It was gone before it could be asked.
    Before,
    /// It was asked, and gave no answer.
    After(&'static str),
}

impl Analyst {
    /// Analysts of a program; without one every shell line is hidden.
    pub(crate) fn new(program: Option<Program>) -> Self {
        let running = [const { Mutex::const_new(None) }; COUNT];
        Self { program, running, next: AtomicUsize::new(0) }
    }

    /// Starts them, so that the first call need not wait. One that does not start is tried again
    /// when it is asked.
    pub(crate) async fn start(&self) {
        for slot in &self.running {
            let mut slot = slot.lock().await;
            if slot.is_none() {
                match Running::start(self.program.as_ref()).await {
                    Ok(running) => *slot = Some(running),
                    Err(error) => tracing::warn!(
                        error,
                        "shell commands can not be analysed, so they are asked about"
                    ),
                }
            }
        }
    }

    /// What a text would do. Whatever goes wrong, the answer is then that this is hidden.
    pub(crate) async fn ask(&self, text: String) -> Analysed {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let answer = match self.running.get(turn % COUNT) {
            Some(slot) => self.ask_one(slot, &text).await,
            None => Err("there is nobody to analyse it".to_owned()),
        };
        answer.unwrap_or_else(|why| {
            tracing::warn!(why, "a command could not be analysed");
            let told = format!("could not be analysed, so what it does is not known: {why}");
            let found = vec![Found::whole(Kind::Hidden, &text, &told)];
            Analysed { found, ..Analysed::default() }
        })
    }

    async fn ask_one(&self, slot: &Mutex<Option<Running>>, text: &str) -> Result<Analysed, String> {
        if text.len() > MAX_TEXT {
            return Err(format!("it has {} bytes, and {MAX_TEXT} are looked at", text.len()));
        }
        let mut slot = slot.lock().await;
        // A process that died between two questions is replaced, once.
        for _ in 0..2 {
            let mut running = match slot.take() {
                Some(running) => running,
                None => Running::start(self.program.as_ref()).await?,
            };
            match running.ask(text, WORK).await {
                Ok(made) => {
                    *slot = Some(running);
                    return Ok(made);
                }
                Err(Broken::Before) => {}
                Err(Broken::After(why)) => return Err(why.to_owned()),
            }
        }
        Err("the analyst does not stay up".to_owned())
    }
}

impl Running {
    async fn start(program: Option<&Program>) -> Result<Self, String> {
        let program = program.ok_or("there is no analyst")?;
        let (process, socket) =
            palisade_analyst::start(program).map_err(|error| error.to_string())?;
        let channel = Channel::over(socket).map_err(|error| error.to_string())?;
        let mut running = Self { channel, number: 0, process };
        let useless = |why| format!("{} does not come up: {why}", program.path().display());
        match running.ask("", WAIT).await {
            Ok(_) => Ok(running),
            Err(Broken::Before) => Err(useless("it ended at once")),
            Err(Broken::After(why)) => Err(useless(why)),
        }
    }

    async fn ask(&mut self, text: &str, work: Duration) -> Result<Analysed, Broken> {
        self.number += 1;
        let patience = Patience::new(&self.process, work);
        let asked = Asked { number: self.number, text: text.to_owned() };
        let exchange = async {
            self.channel.send(&asked, &[]).await.map_err(|_| Broken::Before)?;
            let answered = self.channel.receive::<Answered>().await;
            answered.map_err(|_| Broken::After("the analyst died over it"))
        };
        tokio::pin!(exchange);
        let answer = loop {
            let Some(left) = patience.left(&self.process) else {
                return Err(Broken::After("the analyst did not answer in time"));
            };
            if let Ok(answer) = timeout(left, &mut exchange).await {
                break answer?;
            }
        };
        let Answered { number, found, commands, nature } = answer;
        if number != asked.number {
            return Err(Broken::After("the analyst answered something else"));
        }
        Ok(Analysed { found, commands, nature })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_analyst_is_an_answer() {
        let analyst = Analyst::new(None);
        analyst.start().await;
        let made = analyst.ask("true".to_owned()).await;
        assert_eq!(made.found.iter().map(|found| found.kind).collect::<Vec<_>>(), [Kind::Hidden]);
        assert_eq!(made.commands(), palisade_policy::Commands::Unknown);
    }
}
