//! Accepts clients until the daemon is told to stop, then ends everything that was started. Runs in
//! the broker.

use crate::{
    base::{census::CONNECTIONS, peer::Peer, roles::Role},
    front::{closed::ClosedConnections, connection, listen::BoundSocket, server::Server},
    stores::moment::Moment,
    telemetry::service_status::notify,
};
use sd_notify::NotifyState;
use std::{
    io,
    os::unix::net,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{UnixListener, UnixStream},
    signal::unix::{SignalKind, signal},
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// The time limit for connections to end their sessions when the daemon stops.
const FAREWELL: Duration = Duration::from_secs(15);
/// The time limit for a launcher that this daemon started to exit.
const LAUNCHER: Duration = Duration::from_secs(5);
/// The interval at which expired entries of the output store and the undo store are deleted, and
/// old files of the audit log are archived.
const SWEEP: Duration = Duration::from_secs(60 * 60);
/// The number of connections over the limit that get an error; others are closed unanswered.
const TURNED_AWAY: usize = 64;
/// The number and length of the pauses in which a connection beyond that waits for others to end.
const MOMENTS: u32 = 100;
const MOMENT: Duration = Duration::from_millis(1);
/// The time to wait when the kernel has no descriptor or memory for a client.
const SHORTAGE: Duration = Duration::from_millis(100);

/// The source of client connections.
#[derive(Debug)]
pub(crate) enum Listener {
    /// A listening socket. `bound` is set if this daemon removes it at the end, and `rest` if it ends
    /// after this time without clients.
    Socket { listener: UnixListener, bound: Option<OwnedSocket>, rest: Option<Duration> },
    /// A single client that is already connected.
    One(UnixStream),
}

/// The listeners for operators and providers, next to the one for agents.
#[derive(Debug, Default)]
pub(crate) struct OtherListeners {
    pub(crate) operators: Option<Listener>,
    pub(crate) providers: Option<Listener>,
}

/// A socket whose path is removed at the end. If this daemon created it, its lock is held.
#[derive(Debug)]
pub(crate) struct OwnedSocket {
    path: PathBuf,
    _bound: Option<BoundSocket>,
}

impl Listener {
    pub(crate) fn bound(bound: BoundSocket) -> io::Result<Self> {
        let listener = bound.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        let socket = OwnedSocket { path: bound.path.clone(), _bound: Some(bound) };
        let listener = UnixListener::from_std(listener)?;
        Ok(Self::Socket { listener, bound: Some(socket), rest: None })
    }

    pub(crate) fn activated(listener: net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        Ok(Self::Socket { listener, bound: None, rest: None })
    }

    /// The socket of a daemon that a command left running.
    pub(crate) fn lingering(listener: net::UnixListener, rest: Duration) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let path = address.as_pathname().map(Path::to_owned);
        let bound = path.map(|path| OwnedSocket { path, _bound: None });
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        Ok(Self::Socket { listener, bound, rest: Some(rest) })
    }

    pub(crate) fn one(client: net::UnixStream) -> io::Result<Self> {
        client.set_nonblocking(true)?;
        Ok(Self::One(UnixStream::from_std(client)?))
    }
}

/// The ways in which the daemon is told to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopTokens {
    /// Accept no more clients; running calls may finish.
    pub(crate) gently: CancellationToken,
    /// Stop at once.
    pub(crate) now: CancellationToken,
}

/// Stops gently on the first SIGTERM or SIGINT, and at once on the second.
pub(crate) fn stop_on_signals(stop: &StopTokens) -> io::Result<()> {
    let (mut term, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // Registering a handler keeps SIGXFSZ from killing the daemon: a write over the file size limit
    // then just fails.
    drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
    let stop = stop.clone();
    tokio::spawn(async move {
        for token in [stop.gently, stop.now] {
            tokio::select! {
                _ = term.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
    });
    Ok(())
}

/// Serves clients, operators and providers until told to stop.
pub(crate) async fn serve(
    listener: Listener,
    beside: OtherListeners,
    server: Arc<Server>,
    stop: StopTokens,
) {
    let wait = sweep_delay(&server, &listener).await;
    let sweeper = tokio::spawn(sweep(Arc::clone(&server), wait));
    // Operators and providers are served for as long as there are clients.
    let over = CancellationToken::new();
    let mut attended = JoinSet::new();
    for (listener, role) in [(beside.operators, Role::Operator), (beside.providers, Role::Provider)]
    {
        if let Some(listener) = listener {
            attended.spawn(attend(listener, role, Arc::clone(&server), over.clone()));
        }
    }
    let mut connections = JoinSet::new();
    match listener {
        Listener::One(client) => {
            admit(&server, client, Role::Agent, &mut connections, &stop.gently);
            // The daemon ends with its one client.
            while connections.join_next().await.is_some() {}
        }
        Listener::Socket { listener, bound, rest } => {
            let until = ServePhases { accepting: &stop.gently, serving: &stop.now, rest };
            accept(&listener, &server, Role::Agent, &mut connections, until).await;
            notify(&[NotifyState::Stopping]);
            drop(listener);
            remove(bound);
            drain(&server, &mut connections, &stop).await;
            let ended = async { while connections.join_next().await.is_some() {} };
            if timeout(FAREWELL, ended).await.is_err() {
                tracing::warn!("some connections did not end in time");
            }
        }
    }
    connections.shutdown().await;
    over.cancel();
    let gone = async { while attended.join_next().await.is_some() {} };
    if timeout(FAREWELL, gone).await.is_err() {
        tracing::warn!("some operators or providers did not disconnect in time");
    }
    sweeper.abort();
    server.host.link.close(LAUNCHER).await;
}

/// Serves operators or providers until the clients are gone.
async fn attend(listener: Listener, role: Role, server: Arc<Server>, over: CancellationToken) {
    let mut connections = JoinSet::new();
    match listener {
        Listener::One(operator) => {
            admit(&server, operator, role, &mut connections, &over);
            over.cancelled().await;
        }
        Listener::Socket { listener, bound, rest } => {
            let until = ServePhases { accepting: &over, serving: &over, rest };
            accept(&listener, &server, role, &mut connections, until).await;
            drop(listener);
            remove(bound);
        }
    }
    while connections.join_next().await.is_some() {}
}

/// Waits for running calls to finish, for a limited time, then ends all of them.
async fn drain(server: &Server, connections: &mut JoinSet<()>, stop: &StopTokens) {
    server.draining.cancel();
    let ended = async { while connections.join_next().await.is_some() {} };
    let patience = server.live().drain;
    tokio::select! {
        () = ended => {}
        () = sleep(patience) => {
            tracing::warn!("calls were still under way {} ms after the stop", patience.as_millis());
        }
        () = stop.now.cancelled() => {}
    }
    stop.now.cancel();
}

/// Until when clients are accepted, and until when they are served.
#[derive(Debug, Clone, Copy)]
struct ServePhases<'a> {
    accepting: &'a CancellationToken,
    serving: &'a CancellationToken,
    /// The time without clients after which no more are accepted.
    rest: Option<Duration>,
}

impl ServePhases<'_> {
    /// Returns after the time of rest, if nobody is connected.
    async fn idle_timeout(&self, connections: usize) {
        match self.rest {
            Some(rest) if connections == 0 => sleep(rest).await,
            Some(_) | None => std::future::pending().await,
        }
    }
}

async fn accept(
    listener: &UnixListener,
    server: &Arc<Server>,
    role: Role,
    connections: &mut JoinSet<()>,
    until: ServePhases<'_>,
) {
    let mut closed = ClosedConnections::default();
    loop {
        let connected = connections.len();
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) if has_room(connections).await => {
                    admit(server, client, role, connections, until.serving);
                }
                Ok(_) => closed.one_more(),
                Err(error) => {
                    tracing::warn!(%error, "can not accept a client");
                    sleep(SHORTAGE).await;
                }
            },
            Some(ended) = connections.join_next() => note(ended),
            () = until.accepting.cancelled() => return,
            () = until.idle_timeout(connected) => return,
        }
    }
}

fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended because of an internal error");
    }
}

/// Returns `true` if there is room for one more connection. When one user opens many at once, most
/// are rejected and end at once. Another user's connection waits for that instead of being closed
/// with them.
async fn has_room(connections: &mut JoinSet<()>) -> bool {
    for _ in 0..MOMENTS {
        if connections.len() < CONNECTIONS + TURNED_AWAY {
            return true;
        }
        sleep(MOMENT).await;
        while let Some(ended) = connections.try_join_next() {
            note(ended);
        }
    }
    false
}

fn admit(
    server: &Arc<Server>,
    client: UnixStream,
    role: Role,
    connections: &mut JoinSet<()>,
    shutdown: &CancellationToken,
) {
    match client.peer_cred() {
        Ok(peer) => {
            let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
            let peer = Peer { uid: peer.uid(), gid: peer.gid(), pid };
            let may = match role {
                Role::Agent => server.clients.admit(peer),
                Role::Operator | Role::Provider => server.operators.admit(peer),
            };
            if !may {
                tracing::warn!(uid = peer.uid, ?role, "refused a peer that may not have this role");
                return;
            }
            connections.spawn(connection::serve(
                Arc::clone(server),
                client,
                peer,
                role,
                shutdown.clone(),
            ));
        }
        Err(error) => tracing::warn!(%error, "refused a client without credentials"),
    }
}

/// Deletes the socket, if the permissions of its directory allow it.
fn remove(socket: Option<OwnedSocket>) {
    if let Some(socket) = socket
        && let Err(error) = std::fs::remove_file(&socket.path)
    {
        tracing::debug!(%error, "the socket could not be deleted; the next start replaces it");
    }
}

/// Returns the time until the first sweep. A daemon that ends with its clients leaves it out if
/// another one of the same stores swept them lately: reading them takes longer than a call.
async fn sweep_delay(server: &Server, listener: &Listener) -> Duration {
    match listener {
        Listener::Socket { rest: None, .. } => Duration::ZERO,
        Listener::One(_) | Listener::Socket { rest: Some(_), .. } => {
            let spools = server.spools.clone();
            let look = tokio::task::spawn_blocking(move || spools.since_sweep());
            look.await.ok().flatten().map_or(Duration::ZERO, |since| SWEEP.saturating_sub(since))
        }
    }
}

async fn sweep(server: Arc<Server>, wait: Duration) {
    sleep(wait).await;
    loop {
        let spools = server.spools.clone();
        let swept = tokio::task::spawn_blocking(move || {
            spools.note_sweep()?;
            spools.sweep(Moment::now())
        });
        match swept.await {
            Ok(Ok(0)) => {}
            Ok(Ok(files)) => tracing::info!(files, "deleted expired output"),
            Ok(Err(error)) => tracing::warn!(%error, "expired output could not be deleted"),
            Err(error) => tracing::debug!(%error, "sweeping was interrupted"),
        }
        let undos = server.undos.clone();
        let swept = tokio::task::spawn_blocking(move || undos.sweep(Moment::now())).await;
        match swept {
            Ok(Ok(0)) => {}
            Ok(Ok(calls)) => tracing::info!(calls, "deleted expired undo records"),
            Ok(Err(error)) => tracing::warn!(%error, "expired undo records could not be deleted"),
            Err(error) => tracing::debug!(%error, "sweeping was interrupted"),
        }
        server.telemetry.audit.retain().await;
        sleep(SWEEP).await;
    }
}
