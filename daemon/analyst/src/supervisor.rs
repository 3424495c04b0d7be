//! The asker's end: starts the analyst, asks it within a time, kills and replaces it when it does
//! not answer. No answer is an answer: what the text does is hidden.

use crate::{
    error::SupervisorError,
    message::{Answered, Asked, MAX_TEXT},
    patience::{Patience, WAIT, WORK},
    process::{self, Process},
};
use palisade_channel::Channel;
use palisade_policy::analysis::{Analysed, Found, Kind};
use palisade_programs::Program;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::sockopt::{Timeout, set_socket_timeout},
};
use std::{
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// Findings and commands. There is always a finding if the text could not be looked at.
    pub made: Analysed,
    /// Why the text could not be looked at; none if it was.
    pub failure: Option<String>,
}

/// Keeps one analyst running and asks it. One question at a time; others wait.
///
/// [`Supervisor::ask`] blocks for at most 5 s, and as long again when a process has to be started
/// first. It is for programs that may wait; the broker, which may not, keeps processes of its own.
#[derive(Debug)]
pub struct Supervisor {
    program: PathBuf,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    channel: Channel,
    next: u64,
}

impl Supervisor {
    /// A supervisor of the analyst at this path. Nothing is started yet.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self { program, running: Mutex::new(None) }
    }

    /// Starts the analyst if it does not run, so that the first question need not wait for it.
    ///
    /// # Errors
    /// If it can not be started.
    pub fn start(&self) -> Result<(), SupervisorError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            *running = Some(Running::start(&self.program)?);
        }
        Ok(())
    }

    /// The process that answers now; none if none runs.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| running.process.id())
    }

    /// What a text would do. Whatever goes wrong, the answer is then that this is hidden.
    #[must_use]
    pub fn ask(&self, text: &str) -> Analysis {
        if text.len() > MAX_TEXT {
            let why = format!("it has {} bytes, and {MAX_TEXT} are looked at", text.len());
            return failed(text, why);
        }
        let mut slot = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // A process that died between two questions is replaced, once.
        for _ in 0..2 {
            let mut running = match slot.take() {
                Some(running) => running,
                None => match Running::start(&self.program) {
                    Ok(running) => running,
                    Err(error) => return failed(text, error.to_string()),
                },
            };
            match running.ask(text, WORK) {
                Ok(made) => {
                    *slot = Some(running);
                    return Analysis { made, failure: None };
                }
                Err(Broken::Before) => {}
                Err(Broken::After(why)) => return failed(text, why),
            }
        }
        failed(text, "the analyst does not stay up".to_owned())
    }
}

/// How a question failed.
enum Broken {
    /// It was gone before it could be asked.
    Before,
    /// It was asked, and gave no answer.
    After(String),
}

impl Running {
    fn start(program: &Path) -> Result<Self, SupervisorError> {
        let opened = Program::at(program)
            .map_err(|source| SupervisorError::Start { path: program.to_owned(), source })?;
        let (process, socket) = process::start(&opened)?;
        let mut running = Self { process, channel: Channel::new(socket), next: 0 };
        match running.ask("", WAIT) {
            Ok(_) => Ok(running),
            Err(Broken::Before) => Err(useless(program, "it ended at once")),
            Err(Broken::After(why)) => Err(useless(program, &why)),
        }
    }

    fn ask(&mut self, text: &str, work: Duration) -> Result<Analysed, Broken> {
        let number = self.next;
        self.next += 1;
        let patience = Patience::new(&self.process, work);
        let after = |why: &str| Broken::After(why.to_owned());
        let limit = set_socket_timeout(self.channel.as_fd(), Timeout::Send, Some(WAIT))
            .and_then(|()| set_socket_timeout(self.channel.as_fd(), Timeout::Recv, Some(WAIT)));
        limit.map_err(|_| after("the channel to the analyst takes no time limit"))?;
        let asked = Asked { number, text: text.to_owned() };
        if self.channel.send(&asked).is_err() {
            return Err(Broken::Before);
        }
        if !self.answers(&patience) {
            return Err(after("the analyst did not answer in time"));
        }
        match self.channel.receive::<Answered>() {
            Ok(Some((answered, _))) if answered.number == number => {
                let Answered { found, commands, nature, .. } = answered;
                Ok(Analysed { found, commands, nature })
            }
            Ok(Some(_)) => Err(after("the analyst answered something else")),
            Ok(None) | Err(_) => Err(after("the analyst died over it")),
        }
    }

    /// Whether there is something to read before that is enough.
    fn answers(&self, patience: &Patience) -> bool {
        while let Some(left) = patience.left(&self.process) {
            let Ok(left) = Timespec::try_from(left) else { return false };
            let mut waiting = [PollFd::new(&self.channel, PollFlags::IN)];
            match poll(&mut waiting, Some(&left)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
        false
    }
}

fn useless(program: &Path, why: &str) -> SupervisorError {
    SupervisorError::Useless { path: program.to_owned(), why: why.to_owned() }
}

fn failed(text: &str, why: String) -> Analysis {
    let told = format!("could not be analysed, so what it does is not known: {why}");
    let found = vec![Found::whole(Kind::Hidden, text, &told)];
    Analysis { made: Analysed { found, ..Analysed::default() }, failure: Some(why) }
}
