//! One client: its requests in order, its calls side by side, its session to the end. Broker.

use crate::{
    census::{CONNECTIONS_OF_USER, Counted, TURNED_AWAY_OF_USER},
    lobby::Work,
    order::{Role, Stage},
    outbox::{Outbox, ToClient},
    peer::{ConnectionNumber, Peer},
    provider::Provider,
    quotas::SOON,
    server::Server,
    session::Session,
    who::Who,
    wire::{self, Incoming, Reader},
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

/// How long a client may take to say `hello`.
const GREETING: Duration = Duration::from_secs(10);
/// How many messages wait for a slow client.
const QUEUE: usize = 16;
/// The same for operators and providers, who may be asked many things at once.
const OPERATOR_QUEUE: usize = 256;
/// How long the last words may take to reach a client.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often a client is looked after that is not being read from.
const LOOK: Duration = Duration::from_millis(100);

/// Whether the connection goes on.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Continue,
    End,
}

/// One client.
struct Connection {
    server: Arc<Server>,
    number: ConnectionNumber,
    peer: Peer,
    who: Who,
    role: Role,
    stage: Stage,
    provider: Option<Arc<Provider>>,
    outbox: Outbox,
    /// Its session, if it has one, and what is under way in it.
    work: Work,
}

/// Serves a client until it leaves, breaks the rules, or the daemon stops.
pub(crate) async fn serve(
    server: Arc<Server>,
    stream: UnixStream,
    peer: Peer,
    role: Role,
    shutdown: CancellationToken,
) {
    let who = Who::of(&stream, peer);
    let (read, write) = stream.into_split();
    let admitted = server.live().roles.admit(role, &who);
    let enrolled = server.census.enroll(Counted::Connection, peer.uid, CONNECTIONS_OF_USER);
    let census = &server.census;
    // However many one user opens at once, there is room for another's.
    let turned_away = match &enrolled {
        Ok(_) => None,
        Err(_) => match census.enroll(Counted::TurnedAway, peer.uid, TURNED_AWAY_OF_USER) {
            Ok(turned_away) => Some(turned_away),
            Err(_) => return,
        },
    };
    // One too many is only waited for until it shows in which dialect to tell it so.
    let deadline = Instant::now() + if enrolled.is_ok() { GREETING } else { LAST_WORDS };
    let opened = tokio::select! {
        opened = timeout_at(deadline, Reader::new(read, server.census.large(peer.uid))) => opened.unwrap_or_else(|_| Err(silent())),
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
        work: Work::new(ToClient::new(outbox.clone())),
        outbox,
    };
    let end = match (reader, &enrolled, admitted) {
        (Err(error), ..) => Err(error),
        (Ok(_), _, Err(refused)) => {
            tracing::warn!(error = %refused, "a peer was refused");
            Err(refused)
        }
        (Ok(_), Err(count), Ok(())) => Err(crowded(*count)),
        (Ok(reader), Ok(_), Ok(())) => connection.run(reader, deadline, &shutdown).await,
    };
    let (server, work) = connection.finish(end, writer).await;
    // Who is gone is not counted any more, whatever its session does.
    drop((enrolled, turned_away));
    work.linger(&server, &shutdown).await;
}

fn silent() -> WireError {
    WireError::new(
        ErrorCode::OutOfOrder,
        format!("no hello within {} s", GREETING.as_secs()),
        "begin with hello at once",
    )
}

fn crowded(count: usize) -> WireError {
    WireError::new(
        ErrorCode::LimitReached,
        format!("{count} connections are open already"),
        format!("one user may have {CONNECTIONS_OF_USER}; close one that is not needed any more"),
    )
    .retry_after(SOON)
}

fn shutting_down() -> WireError {
    WireError::new(ErrorCode::ShuttingDown, "the daemon is stopping", "connect again later")
}

/// Whether the other end is gone, not only done with sending.
fn hung_up(stream: &UnixStream) -> bool {
    let mut watched = [rustix::event::PollFd::new(stream, rustix::event::PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0)
}

impl Connection {
    /// Reads and serves. An error is about the connection as a whole.
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
                    self.landed(done).await;
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
                    self.see_off(&reader).await;
                    return Ok(());
                }
                Some(Incoming::Request(envelope)) => self.hear(envelope, &reader).await,
                Some(Incoming::Rejected { id: Some(id), error }) => self.refuse(id, error).await,
                Some(Incoming::Rejected { id: None, error }) => return Err(error),
            };
            if next == Next::End {
                return Ok(());
            }
        }
    }

    /// A client that only stopped sending still hears the results of its calls.
    async fn see_off(&mut self, reader: &Reader) {
        self.work.flights.no_more_input();
        while !self.work.calls.is_empty() && !hung_up(reader.stream().as_ref()) {
            tokio::select! {
                Some(done) = self.work.calls.join_next_with_id() => self.landed(done).await,
                () = sleep(LOOK) => {}
            }
        }
    }

    /// A call that ended by a defect still has a reply.
    async fn landed(&mut self, done: Result<(task::Id, ()), JoinError>) {
        let (task, crash) = match done {
            Ok((task, ())) => (task, None),
            Err(error) => (error.id(), Some(error)),
        };
        if let (Some(id), Some(crash)) = (self.work.tasks.remove(&task), crash) {
            tracing::error!(%crash, "a call ended by a defect");
            let error = WireError::new(ErrorCode::Internal, "the call ended by a defect", "");
            self.refuse(id, error).await;
        }
    }

    async fn reply(&self, id: RequestId, reply: Reply) -> Next {
        match self.outbox.send(ServerMessage::Reply { id: Some(id), reply }).await {
            Ok(()) => Next::Continue,
            Err(_) => Next::End,
        }
    }

    async fn refuse(&self, id: RequestId, error: WireError) -> Next {
        self.reply(id, Reply::Error(error)).await
    }

    /// Says what is still to be said, and leaves what is under way to itself.
    async fn finish(
        mut self,
        end: Result<(), WireError>,
        writer: JoinHandle<()>,
    ) -> (Arc<Server>, Work) {
        self.leave();
        self.server.desk.detach(self.number);
        self.server.observers.remove(self.number);
        if let Err(error) = end {
            tracing::debug!(uid = self.peer.uid, code = ?error.code, "a connection ends");
            let message = ServerMessage::Reply { id: None, reply: Reply::Error(error) };
            // A client that does not read does not hear this either.
            timeout(LAST_WORDS, self.outbox.send(message)).await.ok();
        }
        let Self { server, mut work, outbox, .. } = self;
        if work.session.as_ref().is_none_or(|session| session.survival.is_none()) {
            work.calls.shutdown().await;
            work.close(&server).await;
        }
        // The queue ends when nobody can put anything into it any more.
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
        "go on there",
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
