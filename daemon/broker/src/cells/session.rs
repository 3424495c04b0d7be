//! A session: created by the launcher, held here by its channels, ended with its connection. Runs
//! in the broker.

pub(crate) mod authority;
pub(crate) mod enforced;
pub(crate) mod error;
mod hidden_names;
pub(crate) mod made;
pub(crate) mod make;

use crate::{
    base::{
        census::CensusEntry,
        error::CallError,
        identity::{SessionIdentity, WorkingDirectory},
    },
    cells::{
        analysis_cache::AnalysisCache,
        commit_lock::WorkspaceLock,
        files::FileChannels,
        hidden_names::HiddenNameSearch,
        job::Jobs,
        kept::ReplyStore,
        launcher::Launcher,
        lookup::SearchPaths,
        oom::OomCounter,
        refused::RefusedConnections,
        runner::{RunnerKind, Runners},
        spare::SpareShells,
        survival::Survival,
        todos::Todos,
        transaction::Transactions,
        turn::Turns,
        used_hosts::UsedHosts,
    },
    stores::undo::{Owner, Undos},
    telemetry::audit::Audit,
};
use authority::SessionInspection;
use palisade_plan::{
    Records,
    launcher::{Reply, Request, SessionNumber},
    record::Recording,
};
use palisade_policy::{Facts, SessionMemory};
use palisade_protocol::{
    CallOverview, CallStage, Finding, Guard, JobInfo, Receipt, SessionOverview, SessionStatus,
};
use std::{
    ops::Deref,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

/// The time limit for the launcher to end a session.
const ENDED: Duration = Duration::from_secs(10);

/// The tool that starts jobs.
const BASH: &str = "bash";

/// The state of a session: running, or the reason why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionState {
    Running,
    Ended,
    LauncherGone,
}

/// A session: one agent's workspace, cell and profile.
#[derive(Debug)]
pub(crate) struct Session {
    identity: Arc<SessionIdentity>,
    receipt: Receipt,
    /// The receipt in the reply to `open`, and its digest.
    opening_receipt: OnceLock<(Receipt, String)>,
    guard: Guard,
    pub(crate) turns: Turns,
    pub(crate) analyses: AnalysisCache,
    pub(crate) search_paths: SearchPaths,
    pub(crate) todos: Todos,
    pub(crate) files: FileChannels,
    pub(crate) spares: Arc<SpareShells>,
    runners: Runners,
    readers: Runners,
    pub(crate) transactions: Transactions,
    pub(crate) search: HiddenNameSearch,
    pub(crate) jobs: Jobs,
    pub(crate) kept: ReplyStore,
    /// The permission to outlive the connection; `None` if the session ends with it.
    pub(crate) survival: Option<Survival>,
    pub(crate) oom: OomCounter,
    opened: Instant,
    pub(crate) in_flight: AtomicU32,
    pub(crate) calls: AtomicU64,
    pub(crate) undos: Undos,
    number: SessionNumber,
    pub(crate) cwd: Arc<WorkingDirectory>,
    /// The number of times that the session's files may have changed.
    changes: AtomicU64,
    pub(crate) audit: Audit,
    /// Findings to add to the session's next result.
    untold: Mutex<Vec<Finding>>,
    /// Held from when a change is judged until it is committed, so that each change is judged
    /// against what the earlier ones left, those of other sessions included. Never held while an
    /// approver or the client is waited for.
    pub(crate) commits: WorkspaceLock,
    launcher: Arc<Launcher>,
    /// The setting of the session's seccomp filter for audit records.
    logged: Records,
    /// The client's choice to record the accesses of programs or not.
    pub(crate) recording: Recording,
    /// The listeners of the session's network, until an egress room takes them.
    listeners: Mutex<Vec<OwnedFd>>,
    /// The authority and credentials of inspected hosts; `None` if the profile has none.
    inspection: Option<SessionInspection>,
    /// The connections that the session was refused.
    pub(crate) refused: Arc<RefusedConnections>,
    /// The hosts that it was allowed to connect to, if it records.
    pub(crate) used_hosts: UsedHosts,
    state: watch::Receiver<SessionState>,
    /// True if an operator ended the session.
    aborted: AtomicBool,
    _enrolled: CensusEntry,
}

/// Gives access to the properties that never change as if they were the session's own.
impl Deref for Session {
    type Target = SessionIdentity;

    fn deref(&self) -> &SessionIdentity {
        &self.identity
    }
}

/// Reads the launcher's messages about a session until it ends.
async fn attend(
    launcher: Arc<Launcher>,
    number: SessionNumber,
    mut replies: mpsc::UnboundedReceiver<Reply>,
    state: watch::Sender<SessionState>,
) {
    let end = loop {
        match replies.recv().await {
            Some(Reply::Ended { .. }) => break SessionState::Ended,
            Some(Reply::Refused { refusal, .. }) => {
                tracing::warn!(session = number, ?refusal, "the launcher refused a request");
            }
            Some(
                Reply::Identified { .. }
                | Reply::Started { .. }
                | Reply::Welcome { .. }
                | Reply::Fatal { .. },
            ) => {}
            None => break SessionState::LauncherGone,
        }
    };
    launcher.forget(number);
    state.send_replace(end);
}

/// Asks the launcher to end a session, and waits until none of its processes are left.
async fn end(
    launcher: &Launcher,
    number: SessionNumber,
    state: &mut watch::Receiver<SessionState>,
) {
    if *state.borrow() != SessionState::Running {
        return;
    }
    if let Err(error) = launcher.send(&Request::End { session: number }, &[]).await {
        tracing::debug!(session = number, %error, "can not ask the launcher to end a session");
    }
    let over = state.wait_for(|state| *state != SessionState::Running);
    if timeout(ENDED, over).await.is_err() {
        tracing::warn!(session = number, "the launcher did not end a session in time");
    }
}

impl Session {
    /// Adds findings to the session's next result.
    pub(crate) fn tell(&self, findings: Vec<Finding>) {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).extend(findings);
    }

    /// Takes the findings that the next result is to include.
    pub(crate) fn take_findings(&self) -> Vec<Finding> {
        std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number by which the launcher and the egress room know the session.
    pub(crate) const fn number(&self) -> SessionNumber {
        self.number
    }

    /// Returns the properties that never change, to be kept beside the session.
    pub(crate) fn identity(&self) -> Arc<SessionIdentity> {
        Arc::clone(&self.identity)
    }

    /// Takes the listeners of the session's network.
    pub(crate) fn take_listeners(&self) -> Vec<OwnedFd> {
        std::mem::take(&mut *self.listeners.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the authority and credentials of inspected hosts.
    pub(crate) const fn inspection(&self) -> Option<&SessionInspection> {
        self.inspection.as_ref()
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

    /// Returns the session's runners of one kind.
    pub(crate) const fn runners(&self, kind: RunnerKind) -> &Runners {
        match kind {
            RunnerKind::Direct => &self.runners,
            RunnerKind::Reading => &self.readers,
        }
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
        end(&self.launcher, self.number, &mut self.state.clone()).await;
        self.jobs.accounted().await;
    }

    /// Ends the session for an operator; its calls say so.
    pub(crate) async fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        self.close().await;
    }

    /// Waits until the session has ended.
    pub(crate) async fn over(&self) {
        let mut state = self.state.clone();
        // The sender is dropped only after it has sent the final state.
        state.wait_for(|state| *state != SessionState::Running).await.ok();
    }

    /// Returns an error if the session has ended.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        // Its processes end before the launcher reports that.
        if self.aborted.load(Ordering::Acquire) {
            return Err(CallError::Aborted);
        }
        match *self.state.borrow() {
            SessionState::Running => Ok(()),
            SessionState::Ended => Err(CallError::SessionOver),
            SessionState::LauncherGone => {
                Err(CallError::LauncherGone(self.launcher.gone().unwrap_or_default().to_owned()))
            }
        }
    }

    /// Turns a channel's failure into an error: if the session has ended, that is the reason.
    pub(crate) fn channel_error(&self, error: impl std::fmt::Display) -> CallError {
        match (self.check(), self.launcher.gone()) {
            (Err(over), _) => over,
            (Ok(()), Some(why)) => CallError::LauncherGone(why.to_owned()),
            (Ok(()), None) => CallError::Cell(error.to_string()),
        }
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
        self.cwd.get()
    }

    /// Sets the directory in which the next call starts. The cell's answer is accepted only if it
    /// can be a path.
    pub(crate) fn set_cwd(&self, cwd: Vec<u8>) {
        if !self.cwd.set(cwd) {
            tracing::warn!(session = self.number, "a cell reported an invalid current directory");
        }
    }

    /// Returns the number of times that the session's files may have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that the session's files may have changed.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Locks what the session remembers of its committed changes.
    pub(crate) fn memory(&self) -> MutexGuard<'_, SessionMemory> {
        self.commits.memory()
    }

    pub(crate) fn status(&self) -> SessionStatus {
        SessionStatus {
            session: self.id.clone(),
            workspace: self.workspace.clone(),
            profile: self.profile_shown(),
            calls: self.calls.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
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
            calls: self.calls.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            jobs: u32::try_from(jobs).unwrap_or(u32::MAX),
            memory_bytes: self.oom.memory(),
            runs_as: self.receipt.uid,
        }
    }
}
