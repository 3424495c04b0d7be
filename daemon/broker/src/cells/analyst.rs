//! The broker's side of the analyst, a process beside it that parses hostile shell text. If the
//! analyst gives no answer, what the text would run counts as unknown. Runs in the broker.

use crate::{
    base::fair::FairQueue,
    cells::{analysis_cache::AnalysisCache, channel::Channel},
};
use palisade_analyst::{Answered, Asked, MAX_TEXT, Patience, Process, WAIT, WORK};
use palisade_policy::analysis::{CommandAnalysis, Kind, RawFinding};
use palisade_programs::Program;
use std::{
    path::PathBuf,
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

/// The number of calls that the clients of a daemon are expected to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedCalls {
    /// Any number.
    Many,
    /// One, after which the only client disconnects. More are served, but nothing is prepared for
    /// them.
    One,
}

/// An analyst process that waits for a question. A question that is not answered ends it.
#[derive(Debug)]
struct AnalystProcess {
    channel: Channel,
    /// The number of questions so far; 0 until the process is greeted.
    number: u64,
    process: Process,
    /// The path of its program, for messages.
    path: PathBuf,
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

    /// Starts processes without waiting until they are ready, so that the first calls need not wait
    /// for them. A process that does not start is tried again when it is asked.
    pub(crate) fn start(&self, expected: ExpectedCalls) {
        let count = match expected {
            ExpectedCalls::Many => COUNT,
            ExpectedCalls::One => 1,
        };
        for _ in 0..count {
            match AnalystProcess::start(self.program.as_ref()) {
                Ok(started) => self.idle().push(started),
                Err(error) => warn_of_failure(&error),
            }
        }
    }

    /// Waits until the processes that were started are ready.
    pub(crate) async fn ready(&self) {
        let started = std::mem::take(&mut *self.idle());
        for mut process in started {
            match process.greet().await {
                Ok(()) => self.idle().push(process),
                Err(failure) => warn_of_failure(&process.useless(failure)),
            }
        }
    }

    /// Analyses what a text of this user would do, unless the session's cache has it. If anything
    /// goes wrong, the answer is a `Hidden` finding: not known.
    pub(crate) async fn ask(
        &self,
        uid: u32,
        text: String,
        cache: &AnalysisCache,
    ) -> CommandAnalysis {
        if let Some(known) = cache.get(&text) {
            return known;
        }
        match self.answer(uid, &text).await {
            Ok(analysis) => {
                cache.put(text, &analysis);
                analysis
            }
            Err(why) => {
                tracing::warn!(why, "a command could not be analysed");
                let told = format!("could not be analysed, so its effects are unknown: {why}");
                let found = vec![RawFinding::whole(Kind::Hidden, &text, &told)];
                CommandAnalysis { found, ..CommandAnalysis::default() }
            }
        }
    }

    async fn answer(&self, uid: u32, text: &str) -> Result<CommandAnalysis, String> {
        if text.len() > MAX_TEXT {
            return Err(format!(
                "it has {} bytes, and at most {MAX_TEXT} are analysed",
                text.len()
            ));
        }
        let _place = self.places.enter(uid).await;
        let mut useless = None;
        // A process that died between two questions, or did not start, is replaced, once.
        for _ in 0..2 {
            let idle = self.idle().pop();
            let mut running = match idle {
                Some(running) => running,
                None => AnalystProcess::start(self.program.as_ref())?,
            };
            if let Err(failure) = running.greet().await {
                useless = Some(running.useless(failure));
                continue;
            }
            match running.ask(text, WORK).await {
                Ok(made) => {
                    self.idle().push(running);
                    return Ok(made);
                }
                Err(AnalystFailure::Before) => {}
                Err(AnalystFailure::After(why)) => return Err(why.to_owned()),
            }
        }
        Err(useless.unwrap_or_else(|| "the analyst ended repeatedly".to_owned()))
    }
}

fn warn_of_failure(error: &str) {
    tracing::warn!(error, "shell commands can not be analysed, so they need approval");
}

impl AnalystProcess {
    /// Starts the process, which is not ready yet.
    fn start(program: Option<&Program>) -> Result<Self, String> {
        let program = program.ok_or("no analyst is available")?;
        let (process, socket) =
            palisade_analyst::start(program).map_err(|error| error.to_string())?;
        let channel = Channel::over(socket).map_err(|error| error.to_string())?;
        Ok(Self { channel, number: 0, process, path: program.path().to_owned() })
    }

    /// Waits until the process is ready: it has read its tables and confined itself, and answers.
    async fn greet(&mut self) -> Result<(), AnalystFailure> {
        if self.number == 0 {
            self.ask("", WAIT).await?;
        }
        Ok(())
    }

    /// Returns the message for a process that never became ready.
    fn useless(&self, failure: AnalystFailure) -> String {
        let why = match failure {
            AnalystFailure::Before => "it ended at once",
            AnalystFailure::After(why) => why,
        };
        format!("{} did not start: {why}", self.path.display())
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
        analyst.start(ExpectedCalls::Many);
        analyst.ready().await;
        let made = analyst.ask(0, "true".to_owned(), &AnalysisCache::default()).await;
        assert_eq!(made.found.iter().map(|found| found.kind).collect::<Vec<_>>(), [Kind::Hidden]);
        assert_eq!(made.commands(), palisade_policy::Commands::Unknown);
    }
}
