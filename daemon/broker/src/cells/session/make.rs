//! Makes a session: requests a cell from the launcher, and waits for the cell to report that it is
//! confined. Runs in the broker.

use super::{
    Session, authority,
    cell::{SessionCell, SessionState, attend, end},
    handles::{SessionCalls, SessionNetwork, SessionReceipt, WorkspaceHandles},
    made::ConfinedCell,
};
use crate::{
    base::{
        census::CountedKind,
        identity::{SessionIdentity, WorkingDirectory},
        peer::Peer,
        results::ResultRoom,
    },
    cells::{
        analysis_cache::AnalysisCache,
        channel::{Channel, ChannelError},
        files::FileChannels,
        hidden_names::{HiddenNameSearch, ScanKey},
        host::SessionHost,
        job::{JobQuota, Jobs},
        launcher::{Launcher, LauncherError},
        lookup::SearchPaths,
        oom::OomCounter,
        receipt,
        runner::{RunnerKind, Runners},
        session::error::SessionError,
        spare::SpareShells,
        survival::Survival,
        todos::Todos,
        transaction::Transactions,
        turn::Turns,
    },
};
use palisade_plan::{
    Found, Namespace, Records, SessionUid,
    cell::{FILE_CHANNELS, Fault, Ready},
    launcher::{Reply, Request, SessionNumber, SessionOwner},
    record::Recording,
};
use palisade_policy::{Profile, Scene};
use palisade_protocol::{Ask, Guard, RawPath, SessionId};
use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

/// The time limit for a cell to confine itself.
const READY: Duration = Duration::from_secs(30);

/// The parameters of a new session.
pub(crate) struct SessionParameters<'a> {
    pub(crate) peer: Peer,
    /// The client's socket; `None` for a session of the daemon's own.
    pub(crate) client: Option<BorrowedFd<'a>>,
    pub(crate) ask: Ask,
    pub(crate) guard: Guard,
    pub(crate) survival: Option<Survival>,
    pub(crate) scene: Scene,
    pub(crate) recording: Recording,
    pub(crate) uid: SessionUid,
}

/// Makes a session of the daemon's own, for proving a profile. Its calls need no approval.
pub(crate) async fn open_own(
    host: &SessionHost,
    profile: &Arc<Profile>,
    scene: Scene,
) -> Result<Arc<Session>, SessionError> {
    let peer = Peer { uid: scene.uid, gid: scene.gid, pid: None };
    let (ask, guard) = (Ask::Never, Guard::Off);
    let (recording, uid) = (Recording::No, SessionUid::Peer);
    let opening =
        SessionParameters { peer, client: None, ask, guard, survival: None, scene, recording, uid };
    let session = begin(host, profile, opening).await?;
    // No egress room serves it: connections are refused.
    drop(session.network.take_listeners());
    Ok(session)
}

/// Makes a session with the given profile.
pub(crate) async fn begin(
    host: &SessionHost,
    profile: &Arc<Profile>,
    opening: SessionParameters<'_>,
) -> Result<Arc<Session>, SessionError> {
    let SessionParameters { peer, client, ask, guard, survival, scene, recording, uid } = opening;
    let most = usize::try_from(profile.max_sessions()).unwrap_or(usize::MAX);
    let live = host.live.now();
    let most = most.min(live.quotas.sessions);
    let places = JobQuota { census: host.census.clone(), uid: peer.uid, most: live.quotas.jobs };
    let id = session_id()?;
    let enrolled =
        host.census.enroll(CountedKind::Session, peer.uid, most).map_err(SessionError::TooMany)?;
    let mut plan = profile.plan(&scene)?;
    plan.uid = uid;
    let inspection = match profile.egress() {
        Some(policy) => authority::inspect(&policy).map_err(SessionError::Authority)?,
        None => None,
    };
    let inspection = inspection.map(|(inspection, certificate)| {
        plan.authority = Some(certificate);
        inspection
    });
    let unguarded = profile.unguarded(&scene)?;
    let search_paths = SearchPaths::new(profile, &scene)?;
    plan.recording = match profile.observed_under() {
        Some(_) => Recording::Yes,
        None => recording,
    };
    live.own.check(&plan)?;

    let launcher = host.link.launcher().await?;
    // A recording session uses a different seccomp filter, which leaves no audit records.
    if launcher.records().will_record().await && plan.recording == Recording::No {
        plan.records = Records::Read;
    }
    let records = plan.records;
    let most = plan.limits.transaction_bytes;
    let number = host.link.next_number();
    let mut replies = launcher.enroll(number)?;
    let whose = if client.is_some() { SessionOwner::Client } else { SessionOwner::Nobody };
    let request = Request::Session { session: number, whose, plan: Box::new(plan) };
    let place = host.link.starts.enter(peer.uid).await;
    let made = make(&launcher, &request, client, &mut replies).await;
    drop(place);
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            abandon(launcher, number, replies).await;
            return Err(error);
        }
    };
    let mut receipt = receipt::of_session(profile, &made, &unguarded);
    let landlock_abi = receipt.landlock.as_ref().map_or(0, |landlock| landlock.abi);
    let spares =
        SpareShells::new(Arc::clone(&launcher), search_paths.shell().to_vec(), landlock_abi);
    let runners = |kind| Runners::new(Arc::clone(&launcher), number, kind, Arc::clone(&spares));
    let (runners, readers) = (runners(RunnerKind::Direct), runners(RunnerKind::Reading));
    let transactions = Transactions::new(Arc::clone(&launcher), number, Arc::clone(&spares));
    let overlay = &launcher.facts().overlay;
    let over = if profile.writes_workspace() { &overlay.write } else { &overlay.read };
    if let Found::No(why) = over
        && ((guard >= Guard::Auto && profile.writes_workspace()) || profile.restricts_names())
    {
        transactions.give_up(why.clone());
    }
    let mut fault = Fault::Host;
    if let Some(why) = &made.ready.uncovered {
        transactions.give_up(why.clone());
        fault = Fault::Workspace;
    }
    // Prepares the runner that the first command will most likely need.
    let mounted = [Namespace::Mount, Namespace::Pid];
    let has_reading_view = mounted.iter().all(|own| made.ready.namespaces.contains(own));
    match (guard, transactions.unavailable_reason()) {
        (Guard::Transaction, None) => {}
        (Guard::Auto, None) => readers.prepare().await,
        (Guard::Text | Guard::Auto | Guard::Transaction, _) if has_reading_view => {
            readers.prepare().await;
        }
        (Guard::Off | Guard::Text | Guard::Auto | Guard::Transaction, _) => {
            runners.prepare().await;
        }
    }
    if let (true, Found::Yes(_), Found::No(why)) =
        (profile.writes_workspace(), &overlay.write, &overlay.memory)
    {
        receipt.limits.push(receipt::of_transactions(most, why));
    }
    let (sender, state) = watch::channel(SessionState::Running);
    tokio::spawn(attend(Arc::clone(&launcher), number, replies, sender));
    let workspace = RawPath(made.ready.workspace.0.clone());
    let key = ScanKey {
        uid: peer.uid,
        workspace: workspace.0.clone(),
        profile: profile.digest().to_owned(),
    };
    let session = Arc::new(Session {
        files: WorkspaceHandles {
            cwd: Arc::new(WorkingDirectory::new(workspace.0.clone())),
            commits: host.commits.of_session(made.runs.peer.uid, made.ready.trees.clone()),
            undos: host.undos.clone(),
            hidden_names: HiddenNameSearch::new(host.scans.clone(), key),
            changes: AtomicU64::new(0),
        },
        identity: Arc::new(SessionIdentity {
            id,
            peer,
            workspace,
            profile: Arc::clone(profile),
            ask,
            guard,
            recording,
            scene,
            opened: Instant::now(),
        }),
        receipt: SessionReceipt { made: receipt, opening: OnceLock::new(), records },
        cell: SessionCell {
            launcher,
            number,
            state,
            aborted: AtomicBool::new(false),
            files: FileChannels::new(made.channels),
            spares,
            runners,
            readers,
            has_reading_view,
            transactions,
            expected_calls: host.expected_calls,
            oom: OomCounter::open(&made.oom_file),
        },
        network: SessionNetwork::new(made.listeners, inspection),
        calls: SessionCalls::new(
            Turns::new(profile.parallel_calls()),
            ResultRoom::new(host.census.results(peer.uid)),
        ),
        jobs: Jobs::new(profile.max_jobs(), host.audit.clone(), places),
        analyses: AnalysisCache::default(),
        search_paths,
        todos: Todos::default(),
        survival,
        audit: host.audit.clone(),
        _enrolled: enrolled,
    });
    if let Err(error) = session.require_transactions(fault).await {
        session.close().await;
        return Err(error);
    }
    host.note(&session);
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
) -> Result<ConfinedCell, SessionError> {
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
    let (ready, listeners) =
        timeout(READY, first.receive_first::<Ready>()).await.map_err(silent)??;
    match ready {
        Ready::Confined(ready) => {
            Ok(ConfinedCell { channels, listeners, ready, runs, limits, absent, oom_file })
        }
        Ready::Failed { step, why, fault } => Err(SessionError::Step { step, why, fault }),
    }
}

/// Ends a session that failed while it was being made.
async fn abandon(
    launcher: Arc<Launcher>,
    number: SessionNumber,
    replies: mpsc::UnboundedReceiver<Reply>,
) {
    let (sender, mut state) = watch::channel(SessionState::Running);
    tokio::spawn(attend(Arc::clone(&launcher), number, replies, sender));
    end(&launcher, number, &mut state).await;
}
