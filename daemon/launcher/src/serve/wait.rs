//! Waits for events, and handles those of the sessions' processes.

use super::Launcher;
use crate::{error::LauncherError, spawn::Process};
use palisade_channel::Datagrams;
use palisade_plan::launcher::{Reply, SessionNumber};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};

/// The events that ended a wait.
pub(super) struct WaitEvents {
    pub(super) any: bool,
    pub(super) broker: bool,
    pub(super) swept: bool,
    pub(super) sessions: Vec<SessionNumber>,
}

impl Launcher {
    /// Waits for an event; returns at once if `idle`, when something can be prepared meanwhile.
    pub(super) fn wait(&self, broker: &Datagrams, idle: bool) -> Result<WaitEvents, LauncherError> {
        let mut polled = vec![PollFd::new(broker, PollFlags::IN)];
        let mut owners = Vec::new();
        for (number, session) in &self.sessions {
            if session.is_waiting()
                && let Some(files) = &session.files
            {
                polled.push(PollFd::new(&files.control, PollFlags::IN));
                owners.push(*number);
            }
            for socket in session.runner_sockets() {
                polled.push(PollFd::new(socket, PollFlags::IN));
                owners.push(*number);
            }
            for process in session.processes() {
                polled.push(PollFd::new(&process.pidfd, PollFlags::IN));
                owners.push(*number);
            }
        }
        let mut sweeps = 0;
        for sweep in self.stores.processes() {
            polled.push(PollFd::new(&sweep.pidfd, PollFlags::IN));
            sweeps += 1;
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let patience = if idle { Some(at_once) } else { self.pulse.patience() };
        match rustix::event::poll(&mut polled, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(LauncherError::Kernel("poll", error)),
        }
        let swept = polled.iter().rev().take(sweeps).any(|fd| !fd.revents().is_empty());
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        let broker = ready.next().unwrap_or(false);
        let mut sessions: Vec<_> =
            owners.into_iter().zip(ready).filter(|(_, ready)| *ready).map(|(n, _)| n).collect();
        sessions.dedup();
        Ok(WaitEvents { any: broker || swept || !sessions.is_empty(), broker, swept, sessions })
    }

    /// Handles an event of a session's processes.
    pub(super) fn handle_session_event(
        &mut self,
        number: SessionNumber,
        broker: &Datagrams,
    ) -> Result<(), LauncherError> {
        let Some(session) = self.sessions.get_mut(&number) else { return Ok(()) };
        session.handle_runner_messages();
        // The launcher may have woken because the cell ended.
        if session.is_waiting() && session.files.as_ref().is_some_and(Process::has_sent) {
            for wanted in session.receive_report() {
                let made =
                    session.runner(number, wanted, &self.facts, &self.spawner, &mut self.stores);
                if let Err(refusal) = made {
                    broker.send(&Reply::Refused { session: number, refusal }, &[])?;
                }
            }
        }
        let over = session.collect();
        for name in session.take_ended_directories() {
            self.stores.sweep(name, &self.spawner);
        }
        self.spawner.end_strays(&self.known());
        if over && let Some(session) = self.sessions.remove(&number) {
            session.remove();
            broker.send(&Reply::Ended { session: number }, &[])?;
        }
        Ok(())
    }
}
