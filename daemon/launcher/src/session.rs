//! The sessions of one broker: their processes, namespaces and cgroups.

use crate::{
    blank::PrestartedSession,
    cgroup::SessionCgroups,
    overlays::RunnerOverlays,
    spawn::{Process, SpawnError, Spawner},
    store::Stores,
    wanted::RunnerRequest,
};
use palisade_channel::Datagrams;
use palisade_plan::{
    Facts, LaunchPlan, Role, Runs, Step, StepError, Upper,
    cell::{Report, Setup},
    launcher::{Refusal, SessionNumber, SessionOwner},
    steps,
};
use std::os::fd::{AsFd as _, OwnedFd};

/// A runner, the name of its directory on disk, and its overlays.
#[derive(Debug)]
pub(crate) struct Runner {
    process: Process,
    stored: Option<String>,
    overlays: RunnerOverlays,
}

/// The kinds of runners requested so far, which decide whether the next one is started ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedRunners {
    /// Nothing yet: its first runner is already started.
    Nothing,
    /// Runners; it is unlikely to need another.
    Runners,
    /// Transactions; each of them needs a new process.
    Transactions,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    whose: SessionOwner,
    plan: LaunchPlan,
    runs: Runs,
    pub(crate) files: Option<Process>,
    pub(crate) runners: Vec<Runner>,
    /// Directories on disk of transactions that have ended.
    left: Vec<String>,
    /// A process started ahead, which waits for its channel.
    spare: Option<Process>,
    /// The kinds of runners requested so far.
    asked: RequestedRunners,
    /// The namespaces; `None` until the cell has created them.
    namespaces: Option<Vec<OwnedFd>>,
    /// Runners that were requested before the namespaces were created.
    waiting: Vec<RunnerRequest>,
    cgroups: Option<SessionCgroups>,
    /// True if the session is ending: a process started now would outlive it.
    over: bool,
}

impl Session {
    /// Gives the processes started ahead their setup. The cell tells the broker when it is ready.
    pub(crate) fn start(
        number: SessionNumber,
        blank: PrestartedSession,
        (whose, plan): (SessionOwner, LaunchPlan),
        runs: Runs,
        facts: &Facts,
        channels: &[OwnedFd],
    ) -> Result<Self, Refusal> {
        let session = Self {
            whose,
            plan,
            runs,
            files: Some(blank.files),
            runners: Vec::new(),
            left: Vec::new(),
            spare: Some(blank.runner),
            asked: RequestedRunners::Nothing,
            namespaces: None,
            waiting: Vec::new(),
            cgroups: blank.cgroups,
            over: false,
        };
        match session.set_up_files(number, facts, channels) {
            Ok(()) => Ok(session),
            Err(refusal) => {
                // The session has had no transaction yet, so there are no directories to delete.
                session.end_now();
                Err(refusal)
            }
        }
    }

    fn set_up_files(
        &self,
        number: SessionNumber,
        facts: &Facts,
        channels: &[OwnedFd],
    ) -> Result<(), Refusal> {
        let spawn = |error: SpawnError| Refusal::Spawn(error.to_string());
        let (steps, _) = steps(&self.plan, facts, self.runs, Role::Files)
            .map_err(|error| Refusal::Spawn(error.to_string()))?;
        let setup = Setup {
            role: Role::Files,
            session: number,
            steps,
            channels: u8::try_from(channels.len()).map_err(|e| Refusal::Spawn(e.to_string()))?,
            scanned: 0,
        };
        let fds: Vec<_> = channels.iter().map(|fd| fd.as_fd()).collect();
        match &self.files {
            Some(files) => files.set_up(&setup, &fds).map_err(spawn),
            None => Err(Refusal::Session("its cell is gone".into())),
        }
    }

    pub(crate) const fn whose(&self) -> SessionOwner {
        self.whose
    }

    /// Returns how many runners there are, or wait to be started.
    pub(crate) const fn runner_count(&self) -> usize {
        self.runners.len() + self.waiting.len()
    }

    /// Returns the uid of the session's processes.
    pub(crate) const fn uid(&self) -> u32 {
        self.runs.own.uid
    }

    pub(crate) const fn cgroups(&self) -> Option<&SessionCgroups> {
        self.cgroups.as_ref()
    }

    /// Returns `true` if the session's first runner has not been requested yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.asked == RequestedRunners::Nothing && self.spare.is_some() && self.files.is_some()
    }

    /// Returns `true` if the next transaction would have to wait for a process.
    pub(crate) fn needs_transaction_process(&self) -> bool {
        self.asked == RequestedRunners::Transactions && self.spare.is_none() && !self.over
    }

    /// Starts the process for the next transaction.
    pub(crate) fn refill(&mut self, spawner: &Spawner) -> Result<(), Refusal> {
        self.spare = Some(self.process(spawner)?);
        Ok(())
    }

    /// Starts a process in the session's cgroups.
    fn process(&self, spawner: &Spawner) -> Result<Process, Refusal> {
        let process = spawner.start().map_err(|error| Refusal::Spawn(error.to_string()))?;
        if let Some(Err(error)) = self.cgroups.as_ref().map(|cgroups| cgroups.add(process.pid())) {
            process.kill();
            process.collect();
            return Err(Refusal::Spawn(format!("cgroup: {error}")));
        }
        Ok(process)
    }

    /// Returns `true` if the cell has not reported its namespaces yet.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.namespaces.is_none() && self.files.is_some()
    }

    /// Receives the cell's report that its namespaces are created; returns the runners that waited
    /// for it.
    pub(crate) fn receive_report(&mut self) -> Vec<RunnerRequest> {
        let Some(files) = &self.files else { return Vec::new() };
        match files.control.receive::<Report>() {
            Ok(Some((Report::Prepared, namespaces))) => {
                self.namespaces = Some(namespaces);
                std::mem::take(&mut self.waiting)
            }
            // The cell failed, which it has told the broker, or it sent an invalid report.
            Ok(Some((Report::Tried { .. } | Report::Overlays, _)) | None) | Err(_) => {
                files.kill();
                self.namespaces = Some(Vec::new());
                self.waiting.clear();
                Vec::new()
            }
        }
    }

    /// Creates a runner, or queues the request until the namespaces are created.
    pub(crate) fn runner(
        &mut self,
        number: SessionNumber,
        wanted: RunnerRequest,
        facts: &Facts,
        spawner: &Spawner,
        stores: &mut Stores,
    ) -> Result<(), Refusal> {
        let spawn = |error: SpawnError| Refusal::Spawn(error.to_string());
        if self.over {
            return Err(Refusal::Session(format!("session {number} is ending")));
        }
        let (mut steps, _) =
            steps(&self.plan, facts, self.runs, wanted.role()).map_err(|error| match error {
                StepError::Transaction(why) => Refusal::Transaction(why),
                StepError::Missing(_) | StepError::Empty(_) => Refusal::Spawn(error.to_string()),
            })?;
        if let RunnerRequest::Watch(_, directories) = &wanted {
            palisade_plan::watch(&mut steps, &self.plan, directories.clone());
        }
        let Some(namespaces) = &self.namespaces else {
            self.waiting.push(wanted);
            return Ok(());
        };
        let process = match self.spare.take() {
            Some(spare) => spare,
            None => self.process(spawner)?,
        };
        self.asked = match (&wanted, self.asked) {
            (RunnerRequest::Transaction(..) | RunnerRequest::Watch(..), _)
            | (_, RequestedRunners::Transactions) => RequestedRunners::Transactions,
            (
                RunnerRequest::Runner(_) | RunnerRequest::Reader(_),
                RequestedRunners::Nothing | RequestedRunners::Runners,
            ) => RequestedRunners::Runners,
        };
        let channels = u8::try_from(wanted.channels().len());
        let channels = channels.map_err(|error| Refusal::Spawn(error.to_string()))?;
        let access = self.plan.workspace.access;
        let upper = facts.overlay.upper(self.plan.transactions.upper, access);
        let stored = match (&wanted, upper) {
            (RunnerRequest::Transaction(..) | RunnerRequest::Watch(..), Upper::Disk) => {
                stores.take(self.runs.own)
            }
            (
                RunnerRequest::Transaction(..)
                | RunnerRequest::Watch(..)
                | RunnerRequest::Runner(_)
                | RunnerRequest::Reader(_),
                Upper::Memory | Upper::Disk,
            ) => None,
        };
        let name = stored.as_ref().map(|store| store.name.clone());
        if let Some(store) = stored {
            steps.insert(0, Step::Store(store));
        }
        let scanned = u8::from(wanted.scanned().is_some());
        let setup = Setup { role: wanted.role(), session: number, steps, channels, scanned };
        let fds = wanted.channels().iter().chain(wanted.scanned()).chain(namespaces);
        let fds: Vec<_> = fds.map(|fd| fd.as_fd()).collect();
        let result = process.set_up(&setup, &fds).map_err(spawn);
        let overlays = match wanted.role() {
            Role::Transaction => RunnerOverlays::Awaited,
            Role::Files | Role::Runner | Role::Reader | Role::Trial | Role::Sweep => {
                RunnerOverlays::None
            }
        };
        self.runners.push(Runner { process, stored: name, overlays });
        result
    }

    /// Returns the sockets of the runners that may send messages.
    pub(crate) fn runner_sockets(&self) -> impl Iterator<Item = &Datagrams> {
        let senders = self.runners.iter().filter(|runner| runner.overlays.may_send());
        senders.map(|runner| &runner.process.control)
    }

    /// Handles one message of each runner that has sent one.
    pub(crate) fn handle_runner_messages(&mut self) {
        let senders = self.runners.iter_mut().filter(|runner| runner.overlays.may_send());
        for Runner { process, overlays, .. } in senders {
            if process.has_sent() {
                overlays.handle_message(process);
            }
        }
    }

    /// Begins to end the session; `collect` reports when nothing is left.
    pub(crate) fn begin_end(&mut self) {
        self.over = true;
        self.kill();
    }

    pub(crate) fn kill(&self) {
        self.processes().for_each(Process::kill);
    }

    pub(crate) fn processes(&self) -> impl Iterator<Item = &Process> {
        let runners = self.runners.iter().map(|runner| &runner.process);
        self.files.iter().chain(runners).chain(&self.spare)
    }

    /// Reaps processes that have ended, and returns whether none is left. The session ends with the
    /// cell's first process.
    pub(crate) fn collect(&mut self) -> bool {
        let left = &mut self.left;
        self.runners.retain_mut(|runner| {
            let ended = runner.process.has_ended();
            if ended {
                left.extend(runner.stored.take());
            }
            !ended
        });
        if self.spare.as_ref().is_some_and(Process::has_ended) {
            self.spare = None;
        }
        if self.files.as_ref().is_some_and(Process::has_ended) {
            self.files = None;
            self.begin_end();
        }
        self.processes().next().is_none()
    }

    /// Takes the directories on disk of transactions that have ended.
    pub(crate) fn take_ended_directories(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left)
    }

    /// Kills everything, waits for it, and deletes the cgroups. Returns the directories that are
    /// left on disk.
    pub(crate) fn end_now(mut self) -> Vec<String> {
        self.kill();
        self.processes().for_each(Process::collect);
        let mut left = self.take_ended_directories();
        left.extend(self.runners.iter_mut().filter_map(|runner| runner.stored.take()));
        self.remove();
        left
    }

    /// Deletes the cgroups, when every process is gone.
    pub(crate) fn remove(self) {
        if let Some(cgroups) = self.cgroups {
            cgroups.remove();
        }
    }
}
