//! The client's end: starts the analyst, sends requests with a time limit, and replaces the process
//! if it does not answer. Without an answer the result is that the text's effects are hidden.

use crate::{
    error::SupervisorError,
    message::{Answered, Asked, MAX_TEXT},
    patience::{Patience, WAIT, WORK},
    process::{self, Process},
};
use palisade_channel::Channel;
use palisade_policy::analysis::{CommandAnalysis, Kind, RawFinding};
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

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// Findings and commands. If the text could not be analysed, there is always a finding.
    pub made: CommandAnalysis,
    /// The reason why the text could not be analysed; `None` if it was.
    pub failure: Option<String>,
}

/// Keeps one analyst running and sends it requests, one at a time; other callers wait.
///
/// [`Supervisor::ask`] blocks for at most 5 s, and as long again if a process has to be started
/// first. It is for programs that may block. The broker may not, and manages its own processes.
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
    /// Makes a supervisor for the analyst at this path. Nothing is started yet.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self { program, running: Mutex::new(None) }
    }

    /// Starts the analyst if it is not running, so that the first request need not wait for it.
    ///
    /// # Errors
    /// If the analyst can not be started.
    pub fn start(&self) -> Result<(), SupervisorError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            *running = Some(Running::start(&self.program)?);
        }
        Ok(())
    }

    /// Returns the id of the running process; `None` if none runs.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| running.process.id())
    }

    /// Analyses a text. If anything goes wrong, the finding is that the text's effects are hidden.
    #[must_use]
    pub fn ask(&self, text: &str) -> Analysis {
        if text.len() > MAX_TEXT {
            let why = format!("it has {} bytes, and {MAX_TEXT} are looked at", text.len());
            return failed(text, why);
        }
        let mut slot = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // A process that died between two requests is replaced, once.
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

/// The way in which a request failed.
enum Broken {
    /// The process was gone before the request could be sent.
    Before,
    /// The request was sent, but no answer came.
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

    fn ask(&mut self, text: &str, work: Duration) -> Result<CommandAnalysis, Broken> {
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
                Ok(CommandAnalysis { found, commands, nature })
            }
            Ok(Some(_)) => Err(after("the analyst answered something else")),
            Ok(None) | Err(_) => Err(after("the analyst died over it")),
        }
    }

    /// Waits for an answer. Returns `true` if it arrives before the time is over.
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
    let found = vec![RawFinding::whole(Kind::Hidden, text, &told)];
    Analysis { made: CommandAnalysis { found, ..CommandAnalysis::default() }, failure: Some(why) }
}
