//! Makes a session: the launcher is asked for a cell, and the cell for its word that it is confined.
//! Broker.

use super::{Session, State, attend, end, made::Made};
use crate::{
    census::Counted,
    channel::{Channel, ChannelError},
    error::SessionError,
    files::FileChannels,
    job::{Jobs, Places},
    kept::Kept,
    launcher::{Launcher, LauncherError},
    oom::OomCounter,
    peer::Peer,
    receipt,
    runner::{RunnerKind, Runners},
    server::Server,
    survival::Survival,
    todos::Todos,
    transaction::Transactions,
    turn::Turns,
    veil::{Key, Search},
};
use palisade_plan::{
    Found, Records, SessionUid,
    cell::{FILE_CHANNELS, Fault, Ready},
    launcher::{Reply, Request, SessionNumber, Whose},
    record::Recording,
};
use palisade_policy::{Profile, Scene};
use palisade_protocol::{Ask, Guard, RawPath, SessionId};
use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

/// How long a cell may take to confine itself.
const READY: Duration = Duration::from_secs(30);

/// What a session is made with.
pub(super) struct Opening<'a> {
    pub(super) peer: Peer,
    /// None if it is the daemon's own.
    pub(super) client: Option<BorrowedFd<'a>>,
    pub(super) ask: Ask,
    pub(super) guard: Guard,
    pub(super) survival: Option<Survival>,
    pub(super) scene: Scene,
    pub(super) recording: Recording,
    pub(super) uid: SessionUid,
}

/// Makes a session of the daemon's own, to try what one can do. Nobody is asked about its calls.
pub(crate) async fn open_own(
    server: &Server,
    profile: &Arc<Profile>,
    scene: Scene,
) -> Result<Arc<Session>, SessionError> {
    let peer = Peer { uid: scene.uid, gid: scene.gid, pid: None };
    let (ask, guard) = (Ask::Never, Guard::Off);
    let (recording, uid) = (Recording::No, SessionUid::Peer);
    let opening = Opening { peer, client: None, ask, guard, survival: None, scene, recording, uid };
    begin(server, profile, opening).await
}

/// Makes it.
pub(super) async fn begin(
    server: &Server,
    profile: &Arc<Profile>,
    opening: Opening<'_>,
) -> Result<Arc<Session>, SessionError> {
    let Opening { peer, client, ask, guard, survival, scene, recording, uid } = opening;
    let most = usize::try_from(profile.max_sessions()).unwrap_or(usize::MAX);
    let live = server.live();
    let most = most.min(live.quotas.sessions);
    let places = Places { census: server.census.clone(), uid: peer.uid, most: live.quotas.jobs };
    let id = session_id()?;
    let enrolled =
        server.census.enroll(Counted::Session, peer.uid, most).map_err(SessionError::TooMany)?;
    let mut plan = profile.plan(&scene)?;
    plan.uid = uid;
    let unguarded = profile.unguarded(&scene)?;
    plan.recording = match profile.observed_under() {
        Some(_) => Recording::Yes,
        None => recording,
    };
    live.own.check(&plan)?;

    let launcher = server.link.launcher().await?;
    // A filter that notes what programs use is another, and leaves none.
    if launcher.records().expected().await && plan.recording == Recording::No {
        plan.records = Records::Read;
    }
    let logged = plan.records;
    let most = plan.limits.transaction_bytes;
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
    let runners = Runners::new(Arc::clone(&launcher), number, RunnerKind::Direct);
    let readers = Runners::new(Arc::clone(&launcher), number, RunnerKind::Reading);
    let transactions = Transactions::new(Arc::clone(&launcher), number);
    let overlay = &launcher.facts().overlay;
    let over = if profile.writes_workspace() { &overlay.write } else { &overlay.read };
    if let Found::No(why) = over
        && ((guard >= Guard::Auto && profile.writes_workspace()) || profile.veils())
    {
        transactions.give_up(why.clone());
    }
    let mut fault = Fault::Host;
    if let Some(why) = &made.ready.uncovered {
        transactions.give_up(why.clone());
        fault = Fault::Workspace;
    }
    // The one that its first command will most likely need.
    match (guard, transactions.none()) {
        (Guard::Auto, None) => readers.prepare().await,
        (Guard::Off | Guard::Text, _) | (_, Some(_)) => runners.prepare().await,
        (Guard::Transaction, None) => {}
    }
    let mut receipt = receipt::of_session(profile, &made, &unguarded);
    if let (true, Found::Yes(_), Found::No(why)) =
        (profile.writes_workspace(), &overlay.write, &overlay.memory)
    {
        receipt.limits.push(receipt::of_transactions(most, why));
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
        receipt,
        profile: Arc::clone(profile),
        ask,
        guard,
        scene,
        turns: Turns::new(profile.parallel_calls()),
        todos: Todos::default(),
        files: FileChannels::new(made.channels),
        runners,
        readers,
        transactions,
        search,
        kept: Kept::default(),
        survival,
        jobs: Jobs::new(profile.max_jobs(), server.audit.clone(), places),
        oom: OomCounter::open(&made.oom_file),
        opened: Instant::now(),
        in_flight: AtomicU32::new(0),
        calls: AtomicU64::new(0),
        peer,
        undos: server.undos.clone(),
        audit: server.audit.clone(),
        untold: Mutex::default(),
        number,
        logged,
        recording,
        launcher,
        state,
        _enrolled: enrolled,
    });
    if let Err(error) = session.require_transactions(fault).await {
        session.close().await;
        return Err(error);
    }
    server.note(&session);
    Ok(session)
}

fn session_id() -> Result<SessionId, SessionError> {
    let text = uuid::Uuid::now_v7().to_string();
    SessionId::try_from(text).map_err(|error| SessionError::Io(std::io::Error::other(error)))
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
    let (runs, limits, absent, oom_file) =
        match timeout(READY, replies.recv()).await.map_err(silent)? {
            Some(Reply::Started { runs, limits, absent, oom_file, .. }) => {
                (runs, limits, absent, oom_file)
            }
            Some(Reply::Refused { refusal, .. }) => return Err(SessionError::Refused(refusal)),
            Some(
                Reply::Identified { .. }
                | Reply::Ended { .. }
                | Reply::Welcome { .. }
                | Reply::Fatal { .. },
            )
            | None => {
                let why = launcher.gone().unwrap_or("it ended the session").to_owned();
                return Err(LauncherError::Gone(why).into());
            }
        };
    let first = channels.first_mut().ok_or(ChannelError::Closed)?;
    match timeout(READY, first.receive::<Ready>()).await.map_err(silent)?? {
        Ready::Confined(ready) => Ok(Made { channels, ready, runs, limits, absent, oom_file }),
        Ready::Failed { step, why, fault } => Err(SessionError::Step { step, why, fault }),
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
