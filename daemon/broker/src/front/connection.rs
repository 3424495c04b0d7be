//! One client connection: its requests in order, its calls in parallel, its session to the end.
//! Runs in the broker.

use crate::{
    base::{
        census::{CONNECTIONS_OF_USER, CountedKind, TURNED_AWAY_OF_USER},
        outbox::{ClientOutbox, Outbox},
        peer::{ConnectionNumber, Peer},
        quotas::SOON,
        roles::Role,
        who::PeerIdentity,
    },
    cells::session::Session,
    front::{
        lobby::SessionWork,
        order::Stage,
        server::{Clients, Server},
        wire::{self, IncomingMessage, Reader},
    },
    tools::provider::Provider,
};
use palisade_protocol::{ErrorCode, Reply, RequestId, ServerMessage, WireError, wire::Dialect};
use std::{sync::Arc, time::Duration};
use tokio::{
    net::UnixStream,
    sync::mpsc,
    task::{self, JoinError, JoinHandle},
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// The time limit for a client to send `hello`.
const GREETING: Duration = Duration::from_secs(10);
/// The number of messages that are queued for a slow client.
const QUEUE: usize = 16;
/// The number of messages queued for operators and providers, which may get many at once.
const OPERATOR_QUEUE: usize = 256;
/// The time limit for the last messages to reach a client.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The interval at which a client that is not being read from is checked for having disconnected.
const LOOK: Duration = Duration::from_millis(100);

/// The decision to continue or end the connection.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Continue,
    End,
}

/// One client connection.
struct Connection {
    server: Arc<Server>,
    number: ConnectionNumber,
    peer: Peer,
    who: PeerIdentity,
    role: Role,
    stage: Stage,
    provider: Option<Arc<Provider>>,
    outbox: Outbox,
    /// The session of the connection, if it has one, and the calls under way in it.
    work: SessionWork,
}

/// Serves a client until it disconnects, breaks the protocol, or the daemon stops.
pub(crate) async fn serve(
    server: Arc<Server>,
    stream: UnixStream,
    peer: Peer,
    role: Role,
    shutdown: CancellationToken,
) {
    let who = PeerIdentity::of(&stream, peer);
    let (read, write) = stream.into_split();
    let admitted = server.live().roles.admit(role, &who);
    let enrolled =
        server.host.census.enroll(CountedKind::Connection, peer.uid, CONNECTIONS_OF_USER);
    let census = &server.host.census;
    // However many connections one user opens at once, there is room for those of another.
    let turned_away = match &enrolled {
        Ok(_) => None,
        Err(_) => match census.enroll(CountedKind::TurnedAway, peer.uid, TURNED_AWAY_OF_USER) {
            Ok(turned_away) => Some(turned_away),
            Err(_) => return,
        },
    };
    // A connection over the limit is read only until it shows which dialect its error must be sent
    // in.
    let deadline = Instant::now() + if enrolled.is_ok() { GREETING } else { LAST_WORDS };
    let opened = tokio::select! {
        opened = timeout_at(deadline, Reader::new(read, server.host.census.large(peer.uid))) => opened.unwrap_or_else(|_| Err(silent())),
        () = shutdown.cancelled() => return,
    };
    let (outbox, queue) = mpsc::channel(match role {
        Role::Agent => QUEUE,
        Role::Operator | Role::Provider => OPERATOR_QUEUE,
    });
    let (dialect, reader) = match opened {
        Ok(Some(reader)) => (reader.dialect(), Ok(reader)),
        Ok(None) => return,
        Err(error) => (Dialect::JsonLines, Err(error)),
    };
    let writer = tokio::spawn(wire::write(write, dialect, queue));
    let mut connection = Connection {
        number: server.next_connection(),
        server,
        peer,
        who,
        role,
        stage: Stage::New,
        provider: None,
        work: SessionWork::new(ClientOutbox::new(outbox.clone())),
        outbox,
    };
    let end = match (reader, &enrolled, admitted) {
        (Err(error), ..) => Err(error),
        (Ok(_), _, Err(refused)) => {
            tracing::warn!(error = %refused, "a peer was refused");
            Err(refused)
        }
        (Ok(_), Err(count), Ok(())) => Err(too_many_connections(*count)),
        (Ok(reader), Ok(_), Ok(())) => connection.run(reader, deadline, &shutdown).await,
    };
    let (server, work) = connection.finish(end, writer).await;
    // A client that has disconnected is not counted any more, whatever its session does.
    drop((enrolled, turned_away));
    work.linger(&server, &shutdown).await;
}

fn silent() -> WireError {
    WireError::new(
        ErrorCode::OutOfOrder,
        format!("no hello within {} s", GREETING.as_secs()),
        "send hello right after connecting",
    )
}

fn too_many_connections(count: usize) -> WireError {
    WireError::new(
        ErrorCode::LimitReached,
        format!("{count} connections are already open"),
        format!(
            "the limit for one user is {CONNECTIONS_OF_USER}; close one that is no longer needed"
        ),
    )
    .retry_after(SOON)
}

fn shutting_down() -> WireError {
    WireError::new(ErrorCode::ShuttingDown, "the daemon is stopping", "connect again later")
}

/// Returns `true` if the other end has closed the connection, not only its sending half.
fn peer_closed(stream: &UnixStream) -> bool {
    let mut watched = [rustix::event::PollFd::new(stream, rustix::event::PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0)
}

impl Connection {
    /// Reads and serves requests. An error concerns the connection as a whole.
    async fn run(
        &mut self,
        mut reader: Reader,
        greeting: Instant,
        shutdown: &CancellationToken,
    ) -> Result<(), WireError> {
        loop {
            let session = self.work.session.clone();
            let next = tokio::select! {
                next = reader.next() => next?,
                () = taken(session.as_deref()) => return Err(taken_over()),
                Some(done) = self.work.calls.join_next_with_id() => {
                    self.finish_call(done).await;
                    continue;
                }
                () = tokio::time::sleep_until(greeting), if self.stage == Stage::New => {
                    return Err(silent());
                }
                () = self.server.draining.cancelled(), if self.work.calls.is_empty() && self.role == Role::Agent => {
                    return Err(shutting_down());
                }
                () = shutdown.cancelled() => return Err(shutting_down()),
            };
            let next = match next {
                None => {
                    self.finish_remaining_calls(&reader).await;
                    return Ok(());
                }
                Some(IncomingMessage::Request(envelope)) => {
                    self.handle_request(envelope, &reader).await
                }
                Some(IncomingMessage::Rejected { id: Some(id), error }) => {
                    self.refuse(id, error).await
                }
                Some(IncomingMessage::Rejected { id: None, error }) => return Err(error),
            };
            if next == Next::End {
                return Ok(());
            }
        }
    }

    /// Finishes the calls of a client that has stopped sending: it still gets their results.
    async fn finish_remaining_calls(&mut self, reader: &Reader) {
        self.work.flights.no_more_input();
        while !self.work.calls.is_empty() && !peer_closed(reader.stream().as_ref()) {
            tokio::select! {
                Some(done) = self.work.calls.join_next_with_id() => self.finish_call(done).await,
                () = sleep(LOOK) => {}
            }
        }
    }

    /// Handles the end of a call's task. A call whose task panicked still gets a reply.
    async fn finish_call(&mut self, done: Result<(task::Id, ()), JoinError>) {
        let (task, crash) = match done {
            Ok((task, ())) => (task, None),
            Err(error) => (error.id(), Some(error)),
        };
        if let (Some(id), Some(crash)) = (self.work.tasks.remove(&task), crash) {
            tracing::error!(%crash, "a call failed because of a bug in the daemon");
            let error = WireError::new(
                ErrorCode::Internal,
                "the call failed because of a bug in the daemon",
                "",
            );
            self.refuse(id, error).await;
        }
    }

    async fn reply(&self, id: RequestId, reply: Reply) -> Next {
        match self.outbox.send(ServerMessage::Reply { id: Some(id), reply }.into()).await {
            Ok(()) => Next::Continue,
            Err(_) => Next::End,
        }
    }

    async fn refuse(&self, id: RequestId, error: WireError) -> Next {
        self.reply(id, Reply::Error(error)).await
    }

    /// Sends the last error, if any. Ends the calls and the session, unless the session survives a
    /// disconnect or ends after it.
    async fn finish(
        mut self,
        end: Result<(), WireError>,
        writer: JoinHandle<()>,
    ) -> (Arc<Server>, SessionWork) {
        self.leave();
        self.server.calls.approvals.desk.detach(self.number);
        self.server.telemetry.observers.remove(self.number);
        if let Err(error) = end {
            tracing::debug!(uid = self.peer.uid, code = ?error.code, "a connection ends");
            let message = ServerMessage::Reply { id: None, reply: Reply::Error(error) };
            // A client that does not read does not get this either.
            timeout(LAST_WORDS, self.outbox.send(message.into())).await.ok();
        }
        let Self { server, mut work, outbox, .. } = self;
        match server.clients {
            // The next command need not wait until the session of this one is gone. It finds the records
            // of its calls.
            Clients::OfUser(_) => server.telemetry.audit.catch_up(),
            Clients::Many | Clients::One => {
                if work.session.as_ref().is_none_or(|session| session.survival.is_none()) {
                    work.calls.shutdown().await;
                    work.close(&server).await;
                }
            }
        }
        // The queue ends when no sender is left.
        work.client.redirect(mpsc::channel(1).0);
        drop(outbox);
        let abort = writer.abort_handle();
        if timeout(LAST_WORDS, writer).await.is_err() {
            abort.abort();
        }
        (server, work)
    }
}

/// Returns when another connection takes over the session.
async fn taken(session: Option<&Session>) {
    match session.and_then(|session| session.survival.as_ref()) {
        Some(survival) => survival.taken.notified().await,
        None => std::future::pending().await,
    }
}

fn taken_over() -> WireError {
    WireError::new(
        ErrorCode::OutOfOrder,
        "the session was taken over by another connection",
        "continue on that connection",
    )
}

mod batch;
mod calls;
mod made;
mod opening;
mod operator;
mod provider;
mod requests;

#[cfg(test)]
mod tests;
