//! A session: created by the launcher, held here by its channels, ended with its connection. Runs
//! in the broker.

pub(crate) mod authority;
mod cell;
pub(crate) mod enforced;
pub(crate) mod error;
mod handles;
mod hidden_names;
pub(crate) mod made;
pub(crate) mod make;

use crate::{
    base::{census::CensusEntry, error::CallError, identity::SessionIdentity},
    cells::{
        analysis_cache::AnalysisCache, job::Jobs, lookup::SearchPaths, survival::Survival,
        todos::Todos,
    },
    stores::undo::Owner,
    telemetry::audit::Audit,
};
use cell::SessionCell;
use handles::{SessionCalls, SessionNetwork, SessionReceipt, WorkspaceHandles};
use palisade_plan::launcher::SessionNumber;
use palisade_policy::{Facts, SessionMemory};
use palisade_protocol::{
    CallOverview, CallStage, Finding, JobInfo, SessionOverview, SessionStatus,
};
use std::{
    ops::Deref,
    os::unix::ffi::OsStrExt as _,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering},
};

/// The tool that starts jobs.
const BASH: &str = "bash";

/// A session: one agent's workspace, cell and profile. Its identity never changes; everything else is
/// a handle of what it uses.
#[derive(Debug)]
pub(crate) struct Session {
    identity: Arc<SessionIdentity>,
    receipt: SessionReceipt,
    pub(crate) cell: SessionCell,
    pub(crate) network: SessionNetwork,
    pub(crate) files: WorkspaceHandles,
    pub(crate) calls: SessionCalls,
    pub(crate) jobs: Jobs,
    pub(crate) analyses: AnalysisCache,
    pub(crate) search_paths: SearchPaths,
    pub(crate) todos: Todos,
    /// The permission to outlive the connection; `None` if the session ends with it.
    pub(crate) survival: Option<Survival>,
    pub(crate) audit: Audit,
    _enrolled: CensusEntry,
}

/// Gives access to the properties that never change as if they were the session's own.
impl Deref for Session {
    type Target = SessionIdentity;

    fn deref(&self) -> &SessionIdentity {
        &self.identity
    }
}

impl Session {
    /// Adds findings to the session's next result.
    pub(crate) fn tell(&self, findings: Vec<Finding>) {
        self.calls.untold.lock().unwrap_or_else(PoisonError::into_inner).extend(findings);
    }

    /// Takes the findings that the next result is to include.
    pub(crate) fn take_findings(&self) -> Vec<Finding> {
        std::mem::take(&mut *self.calls.untold.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number by which the launcher and the egress room know the session.
    pub(crate) const fn number(&self) -> SessionNumber {
        self.cell.number
    }

    /// Returns the properties that never change, to be kept beside the session.
    pub(crate) fn identity(&self) -> Arc<SessionIdentity> {
        Arc::clone(&self.identity)
    }

    /// Returns the calls whose jobs run.
    pub(crate) fn running_jobs(&self) -> Vec<CallOverview> {
        let jobs = self.jobs.infos(&self.id).into_iter().filter(|job| job.running);
        let overview = |job: JobInfo| {
            let (call_id, session, tool) = (job.call_id, job.session, BASH.parse().ok()?);
            let (stage, time_ms, summary) = (CallStage::Execute, job.time_ms, job.command);
            Some(CallOverview { call_id, session, tool, stage, time_ms, summary })
        };
        jobs.filter_map(overview).collect()
    }

    /// Returns the owner (user and workspace) whose changes can be undone in this session.
    pub(crate) fn owner(&self) -> Owner {
        Owner { uid: self.uid(), workspace: self.workspace.clone() }
    }

    /// Returns the paths of the workspace and the home, for rules about paths.
    pub(crate) fn places(&self) -> Facts {
        let home = self.scene.home.as_ref().map(|home| home.as_os_str().as_bytes().to_vec());
        Facts { workspace: self.workspace.0.clone(), home, ..Facts::default() }
    }

    /// Ends the session; returns when none of its processes are left.
    pub(crate) async fn close(&self) {
        self.jobs.close();
        self.cell.end().await;
        self.jobs.accounted().await;
    }

    /// Ends the session for an operator; its calls say so.
    pub(crate) async fn abort(&self) {
        self.cell.aborted.store(true, Ordering::Release);
        self.close().await;
    }

    /// Prepares for the next call what the last one has used up, as soon as the reply to the last one
    /// has been sent.
    pub(crate) fn prepare_next(self: &Arc<Self>) {
        if self.cell.lacks_preparation() {
            let session = Arc::clone(self);
            tokio::spawn(async move {
                // Everything that is ready to run now, such as the sending of the reply, runs first.
                tokio::task::yield_now().await;
                session.cell.prepare_next().await;
            });
        }
    }

    /// Waits until the session has ended.
    pub(crate) async fn over(&self) {
        self.cell.over().await;
    }

    /// Returns an error if the session has ended.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        self.cell.check()
    }

    /// Turns a channel's failure into an error: if the session has ended, that is the reason.
    pub(crate) fn channel_error(&self, error: impl std::fmt::Display) -> CallError {
        self.cell.channel_error(error)
    }

    /// Makes a path absolute for the cell; relative ones start at the current directory. Nothing is
    /// resolved here: the kernel does that inside the cell.
    pub(crate) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        if path.first() == Some(&b'/') {
            return path.to_vec();
        }
        let mut joined = self.cwd();
        if joined.last() != Some(&b'/') {
            joined.push(b'/');
        }
        joined.extend_from_slice(path);
        joined
    }

    pub(crate) fn cwd(&self) -> Vec<u8> {
        self.files.cwd.get()
    }

    /// Sets the directory in which the next call starts. The cell's answer is accepted only if it
    /// can be a path.
    pub(crate) fn set_cwd(&self, cwd: Vec<u8>) {
        if !self.files.cwd.set(cwd) {
            tracing::warn!(session = self.number(), "a cell reported an invalid current directory");
        }
    }

    /// Returns the number of times that the session's files may have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.files.changes.load(Ordering::Acquire)
    }

    /// Notes that the session's files may have changed.
    pub(crate) fn changed(&self) {
        self.files.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Locks what the session remembers of its committed changes.
    pub(crate) fn memory(&self) -> MutexGuard<'_, SessionMemory> {
        self.files.commits.memory()
    }

    pub(crate) fn status(&self) -> SessionStatus {
        SessionStatus {
            session: self.id.clone(),
            workspace: self.workspace.clone(),
            profile: self.profile_shown(),
            calls: self.calls.total.load(Ordering::Relaxed),
            in_flight: self.calls.in_flight.load(Ordering::Relaxed),
        }
    }

    /// Returns the session's overview for an operator.
    pub(crate) fn overview(&self) -> SessionOverview {
        let jobs = self.jobs.all().iter().filter(|job| !job.is_over()).count();
        SessionOverview {
            session: self.id.clone(),
            uid: self.peer.uid,
            pid: self.peer.pid,
            profile: self.profile_shown(),
            workspace: self.workspace.clone(),
            time_ms: u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX),
            calls: self.calls.total.load(Ordering::Relaxed),
            in_flight: self.calls.in_flight.load(Ordering::Relaxed),
            jobs: u32::try_from(jobs).unwrap_or(u32::MAX),
            memory_bytes: self.cell.oom.memory(),
            runs_as: self.receipt.made.uid,
        }
    }
}
