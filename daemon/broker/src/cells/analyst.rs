//! The broker's side of the analyst, a process beside it that parses hostile shell text. If the
//! analyst gives no answer, what the text would run counts as unknown. Runs in the broker.

use crate::{base::fair::FairQueue, cells::channel::Channel};
use palisade_analyst::{Answered, Asked, MAX_TEXT, Patience, Process, WAIT, WORK};
use palisade_policy::analysis::{CommandAnalysis, Kind, RawFinding};
use palisade_programs::Program;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::timeout;

/// The number of analyst processes, so that one hostile text does not hold up everybody.
const COUNT: usize = 2;

/// A small pool of analyst processes, which the users' texts get in turn.
#[derive(Debug)]
pub(crate) struct Analyst {
    /// The program to start. `None`: nothing is analysed.
    program: Option<Program>,
    places: FairQueue,
    /// The processes that no text uses just now.
    idle: Mutex<Vec<AnalystProcess>>,
}

/// An analyst process that waits for a question. A question that is not answered ends it.
#[derive(Debug)]
struct AnalystProcess {
    channel: Channel,
    number: u64,
    process: Process,
}

/// The failure of a question to an analyst.
enum AnalystFailure {
    /// The process was gone before it could be asked.
    Before,
    /// The process was asked, and gave no answer.
    After(&'static str),
}

impl Analyst {
    /// Makes a pool of this program. Without one, what every shell line does counts as unknown.
    pub(crate) fn new(program: Option<Program>) -> Self {
        Self { program, places: FairQueue::new(COUNT), idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<AnalystProcess>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the processes, so that the first call need not wait. A process that does not start is
    /// tried again when it is asked.
    pub(crate) async fn start(&self) {
        for _ in 0..COUNT {
            match AnalystProcess::start(self.program.as_ref()).await {
                Ok(running) => self.idle().push(running),
                Err(error) => tracing::warn!(
                    error,
                    "shell commands can not be analysed, so they need approval"
                ),
            }
        }
    }

    /// Analyses what a text of this user would do. If anything goes wrong, the answer is a `Hidden`
    /// finding: not known.
    pub(crate) async fn ask(&self, uid: u32, text: String) -> CommandAnalysis {
        self.answer(uid, &text).await.unwrap_or_else(|why| {
            tracing::warn!(why, "a command could not be analysed");
            let told = format!("could not be analysed, so its effects are unknown: {why}");
            let found = vec![RawFinding::whole(Kind::Hidden, &text, &told)];
            CommandAnalysis { found, ..CommandAnalysis::default() }
        })
    }

    async fn answer(&self, uid: u32, text: &str) -> Result<CommandAnalysis, String> {
        if text.len() > MAX_TEXT {
            return Err(format!(
                "it has {} bytes, and at most {MAX_TEXT} are analysed",
                text.len()
            ));
        }
        let _place = self.places.enter(uid).await;
        // A process that died between two questions is replaced, once.
        for _ in 0..2 {
            let idle = self.idle().pop();
            let mut running = match idle {
                Some(running) => running,
                None => AnalystProcess::start(self.program.as_ref()).await?,
            };
            match running.ask(text, WORK).await {
                Ok(made) => {
                    self.idle().push(running);
                    return Ok(made);
                }
                Err(AnalystFailure::Before) => {}
                Err(AnalystFailure::After(why)) => return Err(why.to_owned()),
            }
        }
        Err("the analyst ended repeatedly".to_owned())
    }
}

impl AnalystProcess {
    async fn start(program: Option<&Program>) -> Result<Self, String> {
        let program = program.ok_or("no analyst is available")?;
        let (process, socket) =
            palisade_analyst::start(program).map_err(|error| error.to_string())?;
        let channel = Channel::over(socket).map_err(|error| error.to_string())?;
        let mut running = Self { channel, number: 0, process };
        let useless = |why| format!("{} did not start: {why}", program.path().display());
        match running.ask("", WAIT).await {
            Ok(_) => Ok(running),
            Err(AnalystFailure::Before) => Err(useless("it ended at once")),
            Err(AnalystFailure::After(why)) => Err(useless(why)),
        }
    }

    async fn ask(&mut self, text: &str, work: Duration) -> Result<CommandAnalysis, AnalystFailure> {
        self.number += 1;
        let patience = Patience::new(&self.process, work);
        let asked = Asked { number: self.number, text: text.to_owned() };
        let exchange = async {
            self.channel.send(&asked, &[]).await.map_err(|_| AnalystFailure::Before)?;
            let answered = self.channel.receive::<Answered>().await;
            answered.map_err(|_| {
                AnalystFailure::After("the analyst ended while it analysed the command")
            })
        };
        tokio::pin!(exchange);
        let answer = loop {
            let Some(left) = patience.left(&self.process) else {
                return Err(AnalystFailure::After("the analyst did not answer in time"));
            };
            if let Ok(answer) = timeout(left, &mut exchange).await {
                break answer?;
            }
        };
        let Answered { number, found, commands, nature } = answer;
        if number != asked.number {
            return Err(AnalystFailure::After("the analyst answered another request"));
        }
        Ok(CommandAnalysis { found, commands, nature })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_analyst_is_an_answer() {
        let analyst = Analyst::new(None);
        analyst.start().await;
        let made = analyst.ask(0, "true".to_owned()).await;
        assert_eq!(made.found.iter().map(|found| found.kind).collect::<Vec<_>>(), [Kind::Hidden]);
        assert_eq!(made.commands(), palisade_policy::Commands::Unknown);
    }
}
