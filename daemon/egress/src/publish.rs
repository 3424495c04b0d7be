//! Connections into a session: what a program of the host sends to a published port is carried to
//! that port of the session's loopback, by a socket that was made in the session's network.

use crate::{
    link::Place,
    relay::{self, Metered, Side},
    session::{Permit, Session},
    tunnel,
};
use palisade_egress_protocol::{
    Asked,
    host::{Host, Target},
};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpStream as StdStream},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    net::{TcpSocket, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// The sockets of a session's network that are free for a connection into it.
#[derive(Debug)]
pub(crate) struct InwardSockets {
    free: Mutex<Vec<OwnedFd>>,
    turns: Arc<Semaphore>,
}

impl InwardSockets {
    pub(crate) fn new(sockets: Vec<OwnedFd>) -> Arc<Self> {
        let turns = Arc::new(Semaphore::new(sockets.len()));
        Arc::new(Self { free: Mutex::new(sockets), turns })
    }

    /// Takes a socket, and waits for it if all are in use.
    async fn take(self: &Arc<Self>) -> Option<InwardSocket> {
        let turn = self.turns.clone().acquire_owned().await.ok()?;
        let socket = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(InwardSocket { socket: Some(socket), all: self.clone(), _turn: turn })
    }
}

/// A socket in use. It is free again when this value is dropped.
#[derive(Debug)]
struct InwardSocket {
    socket: Option<OwnedFd>,
    all: Arc<InwardSockets>,
    _turn: OwnedSemaphorePermit,
}

impl InwardSocket {
    /// Connects to a port of the session's loopback. The stream must be dropped before this value.
    async fn connect(&self, to: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        // A room that died may have left it connected.
        rustix::net::connect_unspec(socket)?;
        let socket = TcpSocket::from_std_stream(StdStream::from(socket.try_clone()?));
        timeout(limit, socket.connect(to))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for InwardSocket {
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        // If this fails, connecting it again fails too, and says so.
        rustix::net::connect_unspec(&socket).ok();
        self.all.free.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    }
}

/// Carries a connection that a program of the host has made to a published port.
pub(crate) async fn serve(session: Arc<Session>, client: TcpStream, port: u16, place: Place) {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let target = Target { host: Host::Address(to.ip()), port };
    let asked = session.ask_for(&client, target, Asked::Published, &place).await;
    let Permit { mut record, .. } = match asked {
        Ok(permit) => permit,
        Err(error) => {
            return tunnel::turn_away(client, &session.limits, &error.to_string()).await;
        }
    };
    let Some(socket) = session.inward.take().await else {
        return record.end(Some("the session has no socket for it".to_owned()));
    };
    match socket.connect(to, session.limits.dial).await {
        Ok(stream) => {
            record.connected(to);
            let mut inside = Metered::new(stream, Side::Client, record.meter.clone());
            let mut outside = Metered::new(client, session.outside(), record.meter.clone());
            let carried = relay::copy(&mut inside, &mut outside).await;
            drop(inside);
            record.end(carried.err().map(|error| error.to_string()));
        }
        Err(error) => {
            let reason = format!("no program of the session answers on port {port}: {error}");
            record.end(Some(reason.clone()));
            drop(record);
            drop(socket);
            tunnel::turn_away(client, &session.limits, &reason).await;
        }
    }
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
