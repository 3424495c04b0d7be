//! A session: made by the launcher, held here by its channels, ended with its connection. Broker.

mod enforced;
pub(crate) mod made;
pub(crate) mod make;
pub(crate) mod open;
mod veiled;

use crate::{
    audit::Audit,
    census::Enrolled,
    error::CallError,
    files::FileChannels,
    job::Jobs,
    kept::Kept,
    launcher::Launcher,
    oom::OomCounter,
    peer::Peer,
    runner::{RunnerKind, Runners},
    survival::Survival,
    todos::Todos,
    transaction::Transactions,
    turn::Turns,
    undo::{Owner, Undos},
    veil::Search,
};
use palisade_plan::{
    Records,
    change::Version,
    launcher::{Reply, Request, SessionNumber},
    record::Recording,
};
use palisade_policy::{Facts, Profile, Scene};
use palisade_protocol::{
    Ask, Finding, Guard, RawPath, Receipt, SessionId, SessionOverview, SessionStatus, limits,
};
use std::{
    collections::HashSet,
    os::unix::ffi::OsStrExt as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

/// How long the launcher may take to end a session.
const ENDED: Duration = Duration::from_secs(10);

/// How many files a session knows as its own; what it does not know is asked about.
const MOST_WRITTEN: usize = 65_536;

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Ended,
    LauncherGone,
}

/// One agent's workspace, cell and profile.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) workspace: RawPath,
    pub(crate) profile: Arc<Profile>,
    pub(crate) ask: Ask,
    pub(crate) scene: Scene,
    receipt: Receipt,
    guard: Guard,
    pub(crate) turns: Turns,
    pub(crate) todos: Todos,
    pub(crate) files: FileChannels,
    runners: Runners,
    readers: Runners,
    pub(crate) transactions: Transactions,
    pub(crate) search: Search,
    pub(crate) jobs: Jobs,
    pub(crate) kept: Kept,
    /// None if it ends with its connection.
    pub(crate) survival: Option<Survival>,
    pub(crate) oom: OomCounter,
    opened: Instant,
    pub(crate) in_flight: AtomicU32,
    pub(crate) calls: AtomicU64,
    pub(crate) peer: Peer,
    pub(crate) undos: Undos,
    number: SessionNumber,
    cwd: Mutex<Vec<u8>>,
    /// How often something may have changed what is in the session.
    changes: AtomicU64,
    pub(crate) audit: Audit,
    /// What its next result is to say besides.
    untold: Mutex<Vec<Finding>>,
    /// Files that the session itself wrote, as they were then.
    written: Mutex<HashSet<Version>>,
    launcher: Arc<Launcher>,
    /// Whether its filter was to leave records.
    logged: Records,
    /// Whether its client asked what programs use.
    pub(crate) recording: Recording,
    state: watch::Receiver<State>,
    _enrolled: Enrolled,
}

/// Hears what the launcher says of a session until it is over.
async fn attend(
    launcher: Arc<Launcher>,
    number: SessionNumber,
    mut replies: mpsc::UnboundedReceiver<Reply>,
    state: watch::Sender<State>,
) {
    let end = loop {
        match replies.recv().await {
            Some(Reply::Ended { .. }) => break State::Ended,
            Some(Reply::Refused { refusal, .. }) => {
                tracing::warn!(session = number, ?refusal, "the launcher refused");
            }
            Some(
                Reply::Identified { .. }
                | Reply::Started { .. }
                | Reply::Welcome { .. }
                | Reply::Fatal { .. },
            ) => {}
            None => break State::LauncherGone,
        }
    };
    launcher.forget(number);
    state.send_replace(end);
}

/// Asks the launcher to end a session, and waits until nothing of it is left.
async fn end(launcher: &Launcher, number: SessionNumber, state: &mut watch::Receiver<State>) {
    if *state.borrow() != State::Running {
        return;
    }
    if let Err(error) = launcher.send(&Request::End { session: number }, &[]).await {
        tracing::debug!(session = number, %error, "can not ask for the end of a session");
    }
    let over = state.wait_for(|state| *state != State::Running);
    if timeout(ENDED, over).await.is_err() {
        tracing::warn!(session = number, "the launcher did not end a session in time");
    }
}

impl Session {
    /// Has its next result say this besides.
    pub(crate) fn tell(&self, findings: Vec<Finding>) {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).extend(findings);
    }

    /// What a result is to say besides.
    pub(crate) fn untold(&self) -> Vec<Finding> {
        std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its runners of one kind.
    pub(crate) const fn runners(&self, kind: RunnerKind) -> &Runners {
        match kind {
            RunnerKind::Direct => &self.runners,
            RunnerKind::Reading => &self.readers,
        }
    }

    pub(crate) const fn uid(&self) -> u32 {
        self.peer.uid
    }

    /// Whose changes can be undone in it.
    pub(crate) fn owner(&self) -> Owner {
        Owner { uid: self.uid(), workspace: self.workspace.clone() }
    }

    /// Where its workspace and home are, for rules about paths.
    pub(crate) fn places(&self) -> Facts {
        let home = self.scene.home.as_ref().map(|home| home.as_os_str().as_bytes().to_vec());
        Facts { workspace: self.workspace.0.clone(), home, ..Facts::default() }
    }

    /// Ends it; returns when nothing of it is left.
    pub(crate) async fn close(&self) {
        self.jobs.close();
        end(&self.launcher, self.number, &mut self.state.clone()).await;
        self.jobs.accounted().await;
    }

    /// Returns when it is over.
    pub(crate) async fn over(&self) {
        let mut state = self.state.clone();
        // The sender goes only when it has said so.
        state.wait_for(|state| *state != State::Running).await.ok();
    }

    /// An error if it is over.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        match *self.state.borrow() {
            State::Running => Ok(()),
            State::Ended => Err(CallError::SessionOver),
            State::LauncherGone => {
                Err(CallError::LauncherGone(self.launcher.gone().unwrap_or_default().to_owned()))
            }
        }
    }

    /// What a channel's failure means: the session may be over, and that is then the reason.
    pub(crate) fn channel_error(&self, error: impl std::fmt::Display) -> CallError {
        match (self.check(), self.launcher.gone()) {
            (Err(over), _) => over,
            (Ok(()), Some(why)) => CallError::LauncherGone(why.to_owned()),
            (Ok(()), None) => CallError::Cell(error.to_string()),
        }
    }

    /// A path as the cell is to see it: relative ones start at the current directory. Nothing is
    /// resolved here; that is the kernel's, inside the cell.
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
        self.cwd.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where the next call starts. What the cell says is believed only if it can be a path.
    pub(crate) fn set_cwd(&self, cwd: Vec<u8>) {
        if cwd.first() != Some(&b'/') || cwd.contains(&0) || cwd.len() > limits::MAX_PATH {
            tracing::warn!(session = self.number, "a cell named a current directory that is none");
            return;
        }
        *self.cwd.lock().unwrap_or_else(PoisonError::into_inner) = cwd;
    }

    /// How often something may have changed what is in the session.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Something may have changed what is in the session.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the session itself wrote this file, and nobody changed it since.
    pub(crate) fn wrote(&self, version: Version) -> bool {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).contains(&version)
    }

    /// Its profile, and whether that is only observed.
    fn profile_shown(&self) -> String {
        let name = self.profile.name();
        match self.profile.observed_under() {
            Some(under) => format!("{name} (observed under {under}, not enforced)"),
            None => name.to_owned(),
        }
    }

    /// Remembers a file that the session made, or wrote over one of its own.
    pub(crate) fn note_written(&self, version: Version) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.len() < MOST_WRITTEN {
            written.insert(version);
        }
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

    /// The same for an operator.
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
