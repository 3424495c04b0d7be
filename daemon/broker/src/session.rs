//! A session: made by the launcher, held here by its channels, ended with its connection. Broker.

use crate::{
    census::{Counted, Enrolled},
    channel::Channel,
    errand::Todos,
    error::{CallError, SessionError},
    files::FileChannels,
    job::{Jobs, Places},
    kept::Kept,
    launcher::Launcher,
    oom::OomCounter,
    receipt,
    runner::Runners,
    scene,
    server::Server,
    survival::Survival,
    transaction::Transactions,
    turn::Turns,
    undo::{Owner, Undos},
    veil::{Key, Search},
};
use palisade_plan::{
    Found,
    cell::{FILE_CHANNELS, Ready, Version},
    launcher::{Reply, Request, SessionNumber, Whose},
    record::Recording,
};
use palisade_policy::{DEFAULT, Facts, Profile, Scene, User, stricter_ask, stricter_guard};
use palisade_protocol::{
    Ask, Degraded, Guard, Open, RawPath, Receipt, SessionId, SessionStatus, limits,
};
use std::{
    collections::HashSet,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

/// How long a cell may take to confine itself.
const READY: Duration = Duration::from_secs(30);
/// How long the launcher may take to end a session.
const ENDED: Duration = Duration::from_secs(10);

/// How many files a session knows as its own; what it does not know is asked about.
const MOST_WRITTEN: usize = 65_536;

/// Whose a connection is, as the kernel said when it was accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// None where it can not be seen from here.
    pub(crate) pid: Option<u32>,
}

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
    pub(crate) runners: Runners,
    pub(crate) transactions: Transactions,
    pub(crate) search: Search,
    pub(crate) jobs: Jobs,
    pub(crate) kept: Kept,
    /// None if it ends with its connection.
    pub(crate) survival: Option<Survival>,
    pub(crate) oom: OomCounter,
    pub(crate) in_flight: AtomicU32,
    pub(crate) calls: AtomicU64,
    pub(crate) peer: Peer,
    pub(crate) undos: Undos,
    number: SessionNumber,
    cwd: Mutex<Vec<u8>>,
    /// How often something may have changed what is in the session.
    changes: AtomicU64,
    /// Files that the session itself wrote, as they were then.
    written: Mutex<HashSet<Version>>,
    launcher: Arc<Launcher>,
    state: watch::Receiver<State>,
    _enrolled: Enrolled,
}

/// Makes a session for the client at the other end of a socket.
pub(crate) async fn open(
    server: &Server,
    peer: Peer,
    client: BorrowedFd<'_>,
    request: Open,
) -> Result<Arc<Session>, SessionError> {
    let name = request.profile.as_deref().unwrap_or(DEFAULT);
    let live = server.live();
    let Some(profile) = live.profiles.get(name) else {
        let known = live.profiles.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(SessionError::NoProfile { name: name.to_owned(), known });
    };
    let Peer { uid, gid, .. } = peer;
    if !profile.admits(User { uid, gid }) {
        return Err(SessionError::NotForYou { name: name.to_owned(), uid, gid });
    }
    let ask = stricter_ask(profile, request.options.ask)?;
    server.proofs.require(server, profile).await?;
    let guard = stricter_guard(profile, request.options.guard)?;
    let grace = request.options.grace_ms.unwrap_or(0).min(server.grace_ms(profile));
    let survival = match grace {
        0 => None,
        grace => Some(Survival::new(Duration::from_millis(grace))?),
    };
    let scene = scene::of(peer, &request.workspace).await?;
    let client = Some(client);
    let recording = if request.options.record { Recording::Yes } else { Recording::No };
    begin(server, profile, Opening { peer, client, ask, guard, survival, scene, recording }).await
}

/// Makes a session of the daemon's own, to try what one can do. Nobody is asked about its calls.
pub(crate) async fn open_own(
    server: &Server,
    profile: &Arc<Profile>,
    scene: Scene,
) -> Result<Arc<Session>, SessionError> {
    let peer = Peer { uid: scene.uid, gid: scene.gid, pid: None };
    let (ask, guard) = (Ask::Never, Guard::Off);
    let recording = Recording::No;
    let opening = Opening { peer, client: None, ask, guard, survival: None, scene, recording };
    begin(server, profile, opening).await
}

/// What a session is made with.
struct Opening<'a> {
    peer: Peer,
    /// None if it is the daemon's own.
    client: Option<BorrowedFd<'a>>,
    ask: Ask,
    guard: Guard,
    survival: Option<Survival>,
    scene: Scene,
    recording: Recording,
}

async fn begin(
    server: &Server,
    profile: &Arc<Profile>,
    opening: Opening<'_>,
) -> Result<Arc<Session>, SessionError> {
    let Opening { peer, client, ask, guard, survival, scene, recording } = opening;
    let most = usize::try_from(profile.max_sessions()).unwrap_or(usize::MAX);
    let live = server.live();
    let most = most.min(live.quotas.sessions);
    let places = Places { census: server.census.clone(), uid: peer.uid, most: live.quotas.jobs };
    let id = session_id()?;
    let enrolled =
        server.census.enroll(Counted::Session, peer.uid, most).map_err(SessionError::TooMany)?;
    let mut plan = profile.plan(&scene)?;
    plan.recording = recording;
    live.own.check(&plan)?;

    let launcher = server.link.launcher().await?;
    let number = server.link.next_number();
    let mut replies = launcher.enroll(number)?;
    let whose = if client.is_some() { Whose::Client } else { Whose::Nobody };
    let request = Request::Session { session: number, whose, plan: Box::new(plan) };
    let made = make(&launcher, &request, client, &mut replies).await;
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            abandon(launcher, number, replies).await;
            return Err(error);
        }
    };
    let runners = Runners::new(Arc::clone(&launcher), number);
    runners.prepare().await;
    let transactions = Transactions::new(Arc::clone(&launcher), number);
    if let Found::No(why) = &launcher.facts().overlay
        && (guard >= Guard::Auto || profile.veils())
    {
        transactions.give_up(why.clone());
    }
    if let Some(why) = &made.ready.uncovered {
        transactions.give_up(why.clone());
    }
    let (sender, state) = watch::channel(State::Running);
    tokio::spawn(attend(Arc::clone(&launcher), number, replies, sender));
    let workspace = RawPath(made.ready.workspace.0.clone());
    let key =
        Key { uid: peer.uid, workspace: workspace.0.clone(), profile: profile.digest().to_owned() };
    let search = Search::new(server.scans.clone(), key);
    let session = Arc::new(Session {
        id,
        cwd: Mutex::new(workspace.0.clone()),
        changes: AtomicU64::new(0),
        written: Mutex::default(),
        workspace,
        receipt: receipt::of_session(profile, &made),
        profile: Arc::clone(profile),
        ask,
        guard,
        scene,
        turns: Turns::new(profile.parallel_calls()),
        todos: Todos::default(),
        files: FileChannels::new(made.channels),
        runners,
        transactions,
        search,
        kept: Kept::default(),
        survival,
        jobs: Jobs::new(profile.max_jobs(), server.audit.clone(), places),
        oom: OomCounter::open(&made.oom_file),
        in_flight: AtomicU32::new(0),
        calls: AtomicU64::new(0),
        peer,
        undos: server.undos.clone(),
        number,
        launcher,
        state,
        _enrolled: enrolled,
    });
    server.note(&session);
    Ok(session)
}

fn session_id() -> Result<SessionId, SessionError> {
    let text = uuid::Uuid::now_v7().to_string();
    SessionId::try_from(text).map_err(|error| SessionError::Io(std::io::Error::other(error)))
}

/// A cell that is confined.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) channels: Vec<Channel>,
    pub(crate) ready: Box<palisade_plan::CellReceipt>,
    pub(crate) limits: Vec<palisade_plan::HeldLimit>,
    pub(crate) absent: Vec<palisade_plan::Absent>,
    oom_file: String,
}

async fn make(
    launcher: &Launcher,
    request: &Request,
    client: Option<BorrowedFd<'_>>,
    replies: &mut mpsc::UnboundedReceiver<Reply>,
) -> Result<Made, SessionError> {
    let (mut channels, mut ends) = (Vec::new(), Vec::<OwnedFd>::new());
    for _ in 0..FILE_CHANNELS {
        let (channel, end) = Channel::pair()?;
        channels.push(channel);
        ends.push(end);
    }
    let mut descriptors: Vec<_> = client.into_iter().collect();
    descriptors.extend(ends.iter().map(|end| end.as_fd()));
    launcher.send(request, &descriptors).await?;
    drop(descriptors);
    drop(ends);
    let silent = |_| SessionError::Silent(READY.as_secs());
    let (limits, absent, oom_file) = match timeout(READY, replies.recv()).await.map_err(silent)? {
        Some(Reply::Started { limits, absent, oom_file, .. }) => (limits, absent, oom_file),
        Some(Reply::Refused { refusal, .. }) => return Err(SessionError::Refused(refusal)),
        Some(Reply::Ended { .. } | Reply::Welcome { .. } | Reply::Fatal { .. }) | None => {
            let why = launcher.gone().unwrap_or("it ended the session").to_owned();
            return Err(crate::launcher::LauncherError::Gone(why).into());
        }
    };
    let first = channels.first_mut().ok_or(crate::channel::ChannelError::Closed)?;
    match timeout(READY, first.receive::<Ready>()).await.map_err(silent)?? {
        Ready::Confined(ready) => Ok(Made { channels, ready, limits, absent, oom_file }),
        Ready::Failed { step, why, workspace } => Err(SessionError::Step { step, why, workspace }),
    }
}

/// Ends a session that was not made to the end.
async fn abandon(
    launcher: Arc<Launcher>,
    number: SessionNumber,
    replies: mpsc::UnboundedReceiver<Reply>,
) {
    let (sender, mut state) = watch::channel(State::Running);
    tokio::spawn(attend(Arc::clone(&launcher), number, replies, sender));
    end(&launcher, number, &mut state).await;
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
            Some(Reply::Started { .. } | Reply::Welcome { .. } | Reply::Fatal { .. }) => {}
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
    /// How `bash` is held; by text where there are no transactions.
    pub(crate) fn guard(&self) -> Guard {
        match self.transactions.none() {
            Some(_) => self.guard.min(Guard::Text),
            None => self.guard,
        }
    }

    /// What is enforced.
    pub(crate) fn receipt(&self) -> Receipt {
        let mut receipt = Receipt { guard: self.guard(), ..self.receipt.clone() };
        if let Some(why) = self.transactions.none().filter(|_| self.guard >= Guard::Auto) {
            let (layer, why) = ("transaction".to_owned(), why.to_owned());
            receipt.degraded.push(Degraded { layer, why });
        }
        if let Some(why) = self.transactions.none() {
            for layer in self.profile.veiling() {
                let layer = layer.to_string();
                if !receipt.degraded.iter().any(|known| known.layer == layer) {
                    receipt.degraded.push(Degraded { layer, why: why.to_owned() });
                }
            }
        }
        receipt
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
            profile: self.profile.name().to_owned(),
            calls: self.calls.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
        }
    }
}
