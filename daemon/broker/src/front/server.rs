//! The state that all connections share. Runs in the broker.

use crate::{
    approval::{
        desk::{Approvals, ApproverAccess},
        service::ApprovalService,
    },
    base::{
        fair::FairQueue,
        live::{LiveSettings, SettingsInForce},
        peer::{ConnectionNumber, Peer},
        quotas::RequestRates,
    },
    cells::{
        analyst::{Analyst, ExpectedCalls},
        host::SessionHost,
        link::Link,
    },
    front::{lobby::DetachedSessions, prove::proofs::Proofs},
    network::{rooms::EgressRooms, source::RoomSource},
    pipeline::services::CallServices,
    stores::{spool::Spools, undo::Undos},
    telemetry::{
        Telemetry, audit::Audit, journal::Journal, service_status::ServiceStatus, traces::Traces,
    },
    tools::Registry,
};
use palisade_policy::Profile;
use palisade_protocol::KeptOverview;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio_util::sync::CancellationToken;

/// The clients that the daemon serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clients {
    /// Every client that may connect.
    Many,
    /// Only the client that started this daemon; the daemon ends with it.
    One,
    /// Only clients of the user with this uid, one of whose commands left this daemon running.
    OfUser(u32),
}

impl Clients {
    /// Returns `true` if a peer may be a client.
    pub(crate) const fn admit(self, peer: Peer) -> bool {
        match self {
            Self::Many | Self::One => true,
            Self::OfUser(uid) => peer.uid == uid,
        }
    }
}

/// The peers that may be operators or providers, if they have access to the socket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operators {
    /// The daemon's own user, and root.
    Own(u32),
    /// Whoever the mode and group of the system's socket admit.
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

/// The parts of a server.
#[derive(Debug)]
pub(crate) struct ServerParts {
    pub(crate) live: LiveSettings,
    pub(crate) link: Link,
    pub(crate) spools: Spools,
    /// The undo store, without which no change is made.
    pub(crate) undos: Undos,
    /// The audit log, without which nothing is run.
    pub(crate) audit: Audit,
    pub(crate) journal: Journal,
    pub(crate) traces: Traces,
    /// The analyst, without which every shell line counts as opaque.
    pub(crate) analyst: Analyst,
    pub(crate) operators: Operators,
    /// The profiles that must be proved, and their results.
    pub(crate) proofs: Proofs,
    pub(crate) clients: Clients,
    pub(crate) expected_calls: ExpectedCalls,
    pub(crate) registry: Registry,
    /// The source of egress rooms, without which no session has a network by name.
    pub(crate) egress: RoomSource,
}

/// The state that all connections share: what each folder below needs, and what only they know.
#[derive(Debug)]
pub(crate) struct Server {
    live: Arc<SettingsInForce>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) calls: Arc<CallServices>,
    pub(crate) host: SessionHost,
    pub(crate) spools: Spools,
    pub(crate) undos: Undos,
    pub(crate) service_status: ServiceStatus,
    pub(crate) pace: RequestRates,
    /// The turns of users at searching the audit log.
    pub(crate) log_searches: FairQueue,
    /// Cancelled when the daemon stops: no new calls begin, and running ones may finish.
    pub(crate) draining: CancellationToken,
    pub(crate) operators: Operators,
    pub(crate) lobby: DetachedSessions,
    pub(crate) proofs: Proofs,
    pub(crate) rooms: Arc<EgressRooms>,
    pub(crate) clients: Clients,
    connections: AtomicU64,
}

impl Server {
    pub(crate) fn new(parts: ServerParts) -> Self {
        let ServerParts { live, link, spools, undos, audit, journal, traces, .. } = parts;
        let (analyst, registry) = (parts.analyst, parts.registry);
        spools.allow(live.quotas.spools);
        undos.allow(live.quotas.undo);
        let live = Arc::new(SettingsInForce::new(live));
        let (stores, expected) = ((undos.clone(), audit.clone()), parts.expected_calls);
        let host = SessionHost::new(Arc::clone(&live), link, stores.0, stores.1, expected);
        let telemetry = Arc::new(Telemetry::new(audit, journal, traces));
        let access = match parts.clients {
            Clients::Many => ApproverAccess::Socket,
            Clients::One | Clients::OfUser(_) => ApproverAccess::PrivateClient,
        };
        let approvals = Arc::new(ApprovalService {
            desk: Approvals::new(access),
            telemetry: Arc::clone(&telemetry),
            live: Arc::clone(&live),
        });
        let rooms = Arc::new(EgressRooms::new(parts.egress, Arc::clone(&approvals)));
        let calls =
            Arc::new(CallServices { registry, analyst, approvals, rooms: Arc::clone(&rooms) });
        Self {
            live,
            telemetry,
            calls,
            host,
            spools,
            undos,
            service_status: ServiceStatus::default(),
            pace: RequestRates::default(),
            log_searches: FairQueue::new(1),
            draining: CancellationToken::new(),
            operators: parts.operators,
            lobby: DetachedSessions::default(),
            proofs: parts.proofs,
            rooms,
            clients: parts.clients,
            connections: AtomicU64::new(0),
        }
    }

    /// Returns the settings that are in force now.
    pub(crate) fn live(&self) -> Arc<LiveSettings> {
        self.live.now()
    }

    /// Replaces the settings in force.
    pub(crate) fn replace(&self, live: LiveSettings) {
        self.undos.allow(live.quotas.undo);
        self.spools.allow(live.quotas.spools);
        self.live.replace(live);
    }

    /// Waits until the analysts are ready. The client that started the daemon does not wait: its first
    /// call uses them as soon as they answer.
    pub(crate) async fn await_analysts(&self) {
        match self.clients {
            Clients::Many => self.calls.analyst.ready().await,
            Clients::One | Clients::OfUser(_) => {}
        }
    }

    /// Returns how long a session may outlive its connection, in milliseconds.
    pub(crate) fn grace_ms(&self, profile: &Profile) -> u64 {
        match self.clients {
            Clients::Many => profile.grace_ms(),
            Clients::One | Clients::OfUser(_) => 0,
        }
    }

    /// Returns the number for a new connection.
    pub(crate) fn next_connection(&self) -> ConnectionNumber {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns how much of the output store and the undo store each user uses, by uid.
    pub(crate) fn kept(&self) -> Vec<KeptOverview> {
        let users = self.spools.users().into_iter().chain(self.undos.users());
        let users: BTreeSet<u32> = users.map(|(uid, _)| uid).collect();
        users.into_iter().map(|uid| self.kept_of(uid)).collect()
    }

    /// Returns how much of the output store and the undo store one user uses.
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
