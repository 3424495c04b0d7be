//! Accepts clients until told to stop, then ends everything that was begun. Broker.

use crate::{
    census::CONNECTIONS, closed::Closed, connection, listen::Bound, moment::Moment, order::Role,
    peer::Peer, server::Server, standing::notify,
};
use sd_notify::NotifyState;
use std::{io, os::unix::net, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    net::{UnixListener, UnixStream},
    signal::unix::{SignalKind, signal},
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// How long connections have to end their sessions when the daemon stops.
const FAREWELL: Duration = Duration::from_secs(15);
/// How long a launcher that this daemon started has to end.
const LAUNCHER: Duration = Duration::from_secs(5);
/// How often spools are swept.
const SWEEP: Duration = Duration::from_secs(60 * 60);
/// Connections over the limit that are told so; more are closed without a word.
const TURNED_AWAY: usize = 64;
/// How often, and how long each time, one over that is kept waiting for others to end.
const MOMENTS: u32 = 100;
const MOMENT: Duration = Duration::from_millis(1);
/// How long to wait when the kernel has no descriptor or memory for a client.
const SHORTAGE: Duration = Duration::from_millis(100);

/// Where clients come from.
#[derive(Debug)]
pub(crate) enum Listener {
    /// A socket, and what to keep or remove with it.
    Socket { listener: UnixListener, bound: Option<Door> },
    /// One client that is there already.
    One(UnixStream),
}

/// Who else is heard.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) operators: Option<Listener>,
    pub(crate) providers: Option<Listener>,
}

/// A socket of our own: its lock is held, and its path is removed at the end.
#[derive(Debug)]
pub(crate) struct Door {
    path: PathBuf,
    _bound: Bound,
}

impl Listener {
    pub(crate) fn bound(bound: Bound) -> io::Result<Self> {
        let listener = bound.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        let door = Door { path: bound.path.clone(), _bound: bound };
        Ok(Self::Socket { listener: UnixListener::from_std(listener)?, bound: Some(door) })
    }

    pub(crate) fn activated(listener: net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self::Socket { listener: UnixListener::from_std(listener)?, bound: None })
    }

    pub(crate) fn one(client: net::UnixStream) -> io::Result<Self> {
        client.set_nonblocking(true)?;
        Ok(Self::One(UnixStream::from_std(client)?))
    }
}

/// How the daemon is told to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    /// No more clients; what runs may end.
    pub(crate) gently: CancellationToken,
    /// At once.
    pub(crate) now: CancellationToken,
}

/// Stops on SIGTERM and SIGINT: gently, and at once when another comes.
pub(crate) fn stop_on_signals(stop: &Stop) -> io::Result<()> {
    let (mut term, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // Heard by nobody, but no longer deadly: a file over the limit is an error of that write.
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
pub(crate) async fn serve(listener: Listener, beside: Beside, server: Arc<Server>, stop: Stop) {
    let sweeper = tokio::spawn(sweep(Arc::clone(&server)));
    // Operators and providers are heard for as long as there are clients to serve.
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
            // The one client's end is the end.
            while connections.join_next().await.is_some() {}
        }
        Listener::Socket { listener, bound } => {
            let until = Until { accepting: &stop.gently, serving: &stop.now };
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
        tracing::warn!("some operators or providers did not leave in time");
    }
    sweeper.abort();
    server.link.close(LAUNCHER).await;
}

/// Serves operators or providers until the clients are gone.
async fn attend(listener: Listener, role: Role, server: Arc<Server>, over: CancellationToken) {
    let mut connections = JoinSet::new();
    match listener {
        Listener::One(operator) => {
            admit(&server, operator, role, &mut connections, &over);
            over.cancelled().await;
        }
        Listener::Socket { listener, bound } => {
            let until = Until { accepting: &over, serving: &over };
            accept(&listener, &server, role, &mut connections, until).await;
            drop(listener);
            remove(bound);
        }
    }
    while connections.join_next().await.is_some() {}
}

/// Lets calls that run come to their end, for a time; then ends all of them.
async fn drain(server: &Server, connections: &mut JoinSet<()>, stop: &Stop) {
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

/// How long clients are let in, and how long they are served.
#[derive(Debug, Clone, Copy)]
struct Until<'a> {
    accepting: &'a CancellationToken,
    serving: &'a CancellationToken,
}

async fn accept(
    listener: &UnixListener,
    server: &Arc<Server>,
    role: Role,
    connections: &mut JoinSet<()>,
    until: Until<'_>,
) {
    let mut closed = Closed::default();
    loop {
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
        }
    }
}

fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended by a defect");
    }
}

/// Whether there is room for one more. Where many of one user come at once, most of them end at once:
/// somebody else's waits for that, and is not closed with them.
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
            if role != Role::Agent && !server.operators.admit(peer) {
                tracing::warn!(uid = peer.uid, ?role, "a peer that may not be this was refused");
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
        Err(error) => tracing::warn!(%error, "a client without credentials was refused"),
    }
}

/// Takes the socket away, where the directory lets us.
fn remove(door: Option<Door>) {
    if let Some(door) = door
        && let Err(error) = std::fs::remove_file(&door.path)
    {
        tracing::debug!(%error, "the socket stays; the next start replaces it");
    }
}

async fn sweep(server: Arc<Server>) {
    loop {
        let spools = server.spools.clone();
        let swept = tokio::task::spawn_blocking(move || spools.sweep(Moment::now())).await;
        match swept {
            Ok(Ok(0)) => {}
            Ok(Ok(files)) => tracing::info!(files, "old spools were removed"),
            Ok(Err(error)) => tracing::warn!(%error, "spools could not be swept"),
            Err(error) => tracing::debug!(%error, "sweeping was interrupted"),
        }
        let undos = server.undos.clone();
        let swept = tokio::task::spawn_blocking(move || undos.sweep(Moment::now())).await;
        match swept {
            Ok(Ok(0)) => {}
            Ok(Ok(calls)) => tracing::info!(calls, "old calls can not be undone any more"),
            Ok(Err(error)) => tracing::warn!(%error, "what can be undone could not be swept"),
            Err(error) => tracing::debug!(%error, "sweeping was interrupted"),
        }
        sleep(SWEEP).await;
    }
}
