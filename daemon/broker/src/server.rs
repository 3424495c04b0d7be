//! What all connections share. Broker.

use crate::{
    analyst::Analyst,
    audit::Audit,
    census::Census,
    checkpoint::desk::Desk,
    course::Courses,
    journal::Journal,
    link::Link,
    lobby::Lobby,
    metrics::Metrics,
    observers::Observers,
    own::Own,
    peer::{ConnectionNumber, Peer},
    prove::proofs::Proofs,
    quotas::{Pace, Quotas},
    roles::{Identity, Roles},
    session::Session,
    spool::Spools,
    standing::Standing,
    tools::{Registry, RegistryError},
    traces::Traces,
    undo::Undos,
    veil::Scans,
};
use palisade_policy::{Profile, ProfileSet};
use palisade_protocol::{KeptOverview, SessionId};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Who connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clients {
    /// Whoever may.
    Many,
    /// The one that started this daemon, which ends with it.
    One,
}

/// Who may be an operator or a provider, besides being let in by their socket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operators {
    /// The user whose daemon it is, and root.
    Own(u32),
    /// Whom the mode and group of the system's socket let in.
    System,
}

impl Operators {
    pub(crate) const fn admit(self, peer: Peer) -> bool {
        match self {
            Self::Own(uid) => peer.uid == uid || peer.uid == 0,
            Self::System => true,
        }
    }
}

/// What a reload exchanges, all at once. What is open keeps what it began with.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) profiles: BTreeMap<String, Arc<Profile>>,
    pub(crate) own: Own,
    /// How long calls that run have when the daemon stops.
    pub(crate) drain: Duration,
    pub(crate) roles: Roles,
    pub(crate) quotas: Quotas,
    /// Whose uid sessions have.
    pub(crate) identity: Identity,
}

impl Live {
    pub(crate) fn new(profiles: &ProfileSet, own: Own) -> Self {
        let profiles = profiles
            .names()
            .filter_map(|name| Some((name.to_owned(), Arc::new(profiles.get(name)?.clone()))))
            .collect();
        Self { profiles, own, ..Self::default() }
    }
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Server {
    live: RwLock<Arc<Live>>,
    pub(crate) standing: Standing,
    pub(crate) metrics: Metrics,
    pub(crate) courses: Courses,
    pub(crate) journal: Journal,
    pub(crate) traces: Traces,
    pub(crate) pace: Pace,
    /// The daemon stops: nothing new begins, and what runs may end.
    pub(crate) draining: CancellationToken,
    pub(crate) registry: Registry,
    pub(crate) link: Link,
    pub(crate) spools: Spools,
    pub(crate) undos: Undos,
    pub(crate) census: Census,
    pub(crate) audit: Audit,
    pub(crate) analyst: Analyst,
    pub(crate) desk: Desk,
    pub(crate) operators: Operators,
    pub(crate) observers: Arc<Observers>,
    pub(crate) lobby: Lobby,
    pub(crate) proofs: Proofs,
    pub(crate) scans: Scans,
    clients: Clients,
    connections: AtomicU64,
    sessions: Mutex<Vec<Weak<Session>>>,
}

impl Server {
    pub(crate) fn new(live: Live, link: Link, spools: Spools) -> Result<Self, RegistryError> {
        spools.allow(live.quotas.spools);
        Ok(Self {
            live: RwLock::new(Arc::new(live)),
            standing: Standing::default(),
            metrics: Metrics::default(),
            courses: Courses::default(),
            journal: Journal::default(),
            traces: Traces::default(),
            pace: Pace::default(),
            draining: CancellationToken::new(),
            registry: Registry::new()?,
            link,
            spools,
            undos: Undos::new(None),
            census: Census::default(),
            audit: Audit::none("none was opened"),
            analyst: Analyst::new(None),
            desk: Desk::default(),
            operators: Operators::Own(rustix::process::geteuid().as_raw()),
            observers: Arc::default(),
            lobby: Lobby::default(),
            proofs: Proofs::default(),
            scans: Scans::default(),
            clients: Clients::Many,
            connections: AtomicU64::new(0),
            sessions: Mutex::default(),
        })
    }

    /// What is in force now.
    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts something else in force.
    pub(crate) fn replace(&self, live: Live) {
        self.undos.allow(live.quotas.undo);
        self.spools.allow(live.quotas.spools);
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
    }

    /// The same with an analyst, without which every shell line is hidden.
    pub(crate) fn analysing(self, analyst: Analyst) -> Self {
        Self { analyst, ..self }
    }

    /// The same with others who may be operators.
    pub(crate) fn operated_by(self, operators: Operators) -> Self {
        Self { operators, ..self }
    }

    /// The same with a place for what changes replace, without which nothing is changed.
    pub(crate) fn undoing(self, undos: Undos) -> Self {
        undos.allow(self.live().quotas.undo);
        Self { undos, ..self }
    }

    /// The same for one client, which it does not outlive.
    pub(crate) fn for_clients(self, clients: Clients) -> Self {
        Self { clients, ..self }
    }

    /// The same that proves its profiles, or not.
    pub(crate) fn proving(self, proofs: Proofs) -> Self {
        Self { proofs, ..self }
    }

    /// The same that tells the journal and a collector of calls.
    pub(crate) fn telling(self, journal: Journal, traces: Traces) -> Self {
        Self { journal, traces, ..self }
    }

    /// How long a session may outlive its connection.
    pub(crate) fn grace_ms(&self, profile: &Profile) -> u64 {
        match self.clients {
            Clients::Many => profile.grace_ms(),
            Clients::One => 0,
        }
    }

    /// The same with a log, without which it runs nothing.
    pub(crate) fn recording(self, audit: Audit) -> Self {
        Self { audit, ..self }
    }

    /// Numbers a connection.
    pub(crate) fn next_connection(&self) -> ConnectionNumber {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// The digest of the profile that has a name now; a session may have an older one.
    pub(crate) fn profile_now(&self, name: &str) -> Option<String> {
        self.live().profiles.get(name).map(|profile| profile.digest().to_owned())
    }

    /// A session by its id.
    pub(crate) fn session(&self, id: &SessionId) -> Option<Arc<Session>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().filter_map(Weak::upgrade).find(|session| session.id == *id)
    }

    /// Remembers a session for `status`, for as long as it lives.
    pub(crate) fn note(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|known| known.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
    }

    /// All sessions.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().filter_map(Weak::upgrade).collect()
    }

    /// The sessions of a user.
    pub(crate) fn sessions_of(&self, uid: u32) -> Vec<Arc<Session>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().filter_map(Weak::upgrade).filter(|session| session.uid() == uid).collect()
    }

    /// What is kept of each user's calls, by uid.
    pub(crate) fn kept(&self) -> Vec<KeptOverview> {
        let users = self.spools.users().into_iter().chain(self.undos.users());
        let users: BTreeSet<u32> = users.map(|(uid, _)| uid).collect();
        users.into_iter().map(|uid| self.kept_of(uid)).collect()
    }

    /// The same of one.
    pub(crate) fn kept_of(&self, uid: u32) -> KeptOverview {
        let quotas = self.live().quotas;
        KeptOverview {
            uid,
            spool_bytes: self.spools.used(uid),
            spool_most: quotas.spools.bytes,
            undo_bytes: self.undos.used(uid),
            undo_most: quotas.undo.bytes,
        }
    }
}
