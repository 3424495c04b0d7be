//! The sessions of one broker: their processes, namespaces and cgroups.

use crate::{
    blank::Blank,
    cgroup::SessionCgroups,
    spawn::{Process, SpawnError, Spawner},
    store::Stores,
    wanted::Wanted,
};
use palisade_plan::{
    Facts, LaunchPlan, Role, Runs, Step, StepError, Upper,
    cell::{Report, Setup},
    launcher::{Refusal, SessionNumber},
    steps,
};
use std::os::fd::{AsFd as _, OwnedFd};

/// A runner, and the name of the directory on the disk that it was given.
#[derive(Debug)]
pub(crate) struct Runner {
    process: Process,
    stored: Option<String>,
}

/// Whether a session's next runner is made ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Nothing yet: its first runner is there.
    Nothing,
    /// Runners, of which it hardly needs another.
    Runners,
    /// Transactions, each of which needs one.
    Transactions,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    plan: LaunchPlan,
    runs: Runs,
    pub(crate) files: Option<Process>,
    pub(crate) runners: Vec<Runner>,
    /// Directories on the disk of transactions that are over.
    left: Vec<String>,
    /// Waits for its channel.
    spare: Option<Process>,
    /// What it was asked for so far.
    asked: Asked,
    /// None until the cell has made them.
    namespaces: Option<Vec<OwnedFd>>,
    /// Runners that were asked for before that.
    waiting: Vec<Wanted>,
    cgroups: Option<SessionCgroups>,
    /// It is ending: a process that came now would outlive it.
    over: bool,
}

impl Session {
    /// Gives a blank its setup. The cell says to the broker when it is ready.
    pub(crate) fn start(
        number: SessionNumber,
        blank: Blank,
        plan: LaunchPlan,
        runs: Runs,
        facts: &Facts,
        channels: &[OwnedFd],
    ) -> Result<Self, Refusal> {
        let session = Self {
            plan,
            runs,
            files: Some(blank.files),
            runners: Vec::new(),
            left: Vec::new(),
            spare: Some(blank.runner),
            asked: Asked::Nothing,
            namespaces: None,
            waiting: Vec::new(),
            cgroups: blank.cgroups,
            over: false,
        };
        match session.set_up_files(number, facts, channels) {
            Ok(()) => Ok(session),
            Err(refusal) => {
                // It has had no transaction yet.
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

    /// The uid of its processes.
    pub(crate) const fn uid(&self) -> u32 {
        self.runs.own.uid
    }

    pub(crate) const fn cgroups(&self) -> Option<&SessionCgroups> {
        self.cgroups.as_ref()
    }

    /// Its first runner is not asked for yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.asked == Asked::Nothing && self.spare.is_some() && self.files.is_some()
    }

    /// Its next transaction would have to wait for a process.
    pub(crate) fn lacks_spare(&self) -> bool {
        self.asked == Asked::Transactions && self.spare.is_none() && !self.over
    }

    /// Makes the process of its next transaction.
    pub(crate) fn refill(&mut self, spawner: &Spawner) -> Result<(), Refusal> {
        self.spare = Some(self.process(spawner)?);
        Ok(())
    }

    /// A process in its cgroups.
    fn process(&self, spawner: &Spawner) -> Result<Process, Refusal> {
        let process = spawner.start().map_err(|error| Refusal::Spawn(error.to_string()))?;
        if let Some(Err(error)) = self.cgroups.as_ref().map(|cgroups| cgroups.add(process.pid())) {
            process.kill();
            process.collect();
            return Err(Refusal::Spawn(format!("cgroup: {error}")));
        }
        Ok(process)
    }

    /// Still waiting to hear of the namespaces.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.namespaces.is_none() && self.files.is_some()
    }

    /// Hears from the cell that its namespaces are made.
    pub(crate) fn hear(&mut self) -> Vec<Wanted> {
        let Some(files) = &self.files else { return Vec::new() };
        match files.control.receive::<Report>() {
            Ok(Some((Report::Prepared, namespaces))) => {
                self.namespaces = Some(namespaces);
                std::mem::take(&mut self.waiting)
            }
            // It failed, which it has told the broker, or it talks nonsense.
            Ok(Some((Report::Tried { .. }, _)) | None) | Err(_) => {
                files.kill();
                self.namespaces = Some(Vec::new());
                self.waiting.clear();
                Vec::new()
            }
        }
    }

    /// Makes a runner, or notes that one is wanted once the namespaces are made.
    pub(crate) fn runner(
        &mut self,
        number: SessionNumber,
        wanted: Wanted,
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
        let Some(namespaces) = &self.namespaces else {
            self.waiting.push(wanted);
            return Ok(());
        };
        let process = match self.spare.take() {
            Some(spare) => spare,
            None => self.process(spawner)?,
        };
        self.asked = match (&wanted, self.asked) {
            (Wanted::Transaction(..), _) | (_, Asked::Transactions) => Asked::Transactions,
            (Wanted::Runner(_) | Wanted::Reader(_), Asked::Nothing | Asked::Runners) => {
                Asked::Runners
            }
        };
        let channels = u8::try_from(wanted.channels().len());
        let channels = channels.map_err(|error| Refusal::Spawn(error.to_string()))?;
        let access = self.plan.workspace.access;
        let upper = facts.overlay.upper(self.plan.transactions.upper, access);
        let stored = match (&wanted, upper) {
            (Wanted::Transaction(..), Upper::Disk) => stores.take(self.runs.own),
            (
                Wanted::Transaction(..) | Wanted::Runner(_) | Wanted::Reader(_),
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
        self.runners.push(Runner { process, stored: name });
        result
    }

    /// Ends it; `collect` says when nothing is left.
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

    /// Collects what has ended; says whether nothing is left. The end of the cell's first process
    /// is the end of the session.
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

    /// The directories on the disk of transactions that are over.
    pub(crate) fn take_left(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left)
    }

    /// Kills everything, waits for it, and removes the cgroups; gives what is left on the disk.
    pub(crate) fn end_now(mut self) -> Vec<String> {
        self.kill();
        self.processes().for_each(Process::collect);
        let mut left = self.take_left();
        left.extend(self.runners.iter_mut().filter_map(|runner| runner.stored.take()));
        self.remove();
        left
    }

    /// Removes what is left when every process is gone.
    pub(crate) fn remove(self) {
        if let Some(cgroups) = self.cgroups {
            cgroups.remove();
        }
    }
}
