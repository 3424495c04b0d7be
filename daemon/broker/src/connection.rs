//! One client: its requests in order, its calls side by side, its session to the end. Broker.

use crate::{
    call,
    census::{CONNECTIONS_OF_USER, Counted},
    context::{Context, Outbox, Streaming},
    flight::{Flight, Flights, Landing},
    order::Stage,
    outcome::Fault,
    server::{NAME, Server},
    session::{self, Peer, Session},
    stages::Asked,
    status,
    wire::{self, Incoming, Reader},
};
use palisade_protocol::{
    Call, CallId, Cancel, Envelope, ErrorCode, Input, Opened, Reply, Request, RequestId,
    ServerMessage, Welcome, WireError,
    limits::{MAX_CALLS_IN_FLIGHT, VERSION},
    wire::Dialect,
};
use std::{
    collections::HashMap,
    os::fd::AsFd as _,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{
    net::UnixStream,
    sync::mpsc,
    task::{self, JoinError, JoinHandle, JoinSet},
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// How long a client may take to say `hello`.
const GREETING: Duration = Duration::from_secs(10);
/// How many messages wait for a slow client.
const QUEUE: usize = 32;
/// How many pieces of an attachment wait for a slow program.
const PIECES: usize = 8;
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
    peer: Peer,
    stage: Stage,
    session: Option<Arc<Session>>,
    outbox: Outbox,
    flights: Flights,
    calls: JoinSet<()>,
    /// Whose task is whose, for calls that end by a defect.
    tasks: HashMap<task::Id, RequestId>,
}

/// Serves a client until it leaves, breaks the rules, or the daemon stops.
pub(crate) async fn serve(
    server: Arc<Server>,
    stream: UnixStream,
    peer: Peer,
    shutdown: CancellationToken,
) {
    let (read, write) = stream.into_split();
    let enrolled = server.census.enroll(Counted::Connection, peer.uid, CONNECTIONS_OF_USER);
    // One too many is only waited for until it shows in which dialect to tell it so.
    let deadline = Instant::now() + if enrolled.is_ok() { GREETING } else { LAST_WORDS };
    let opened = tokio::select! {
        opened = timeout_at(deadline, Reader::new(read)) => opened.unwrap_or_else(|_| Err(silent())),
        () = shutdown.cancelled() => return,
    };
    let (outbox, queue) = mpsc::channel(QUEUE);
    let (dialect, reader) = match opened {
        Ok(Some(reader)) => (reader.dialect(), Ok(reader)),
        Ok(None) => return,
        Err(error) => (Dialect::JsonLines, Err(error)),
    };
    let writer = tokio::spawn(wire::write(write, dialect, queue));
    let mut connection = Connection {
        server,
        peer,
        stage: Stage::New,
        session: None,
        outbox,
        flights: Flights::default(),
        calls: JoinSet::new(),
        tasks: HashMap::new(),
    };
    let end = match (reader, &enrolled) {
        (Err(error), _) => Err(error),
        (Ok(_), Err(count)) => Err(crowded(*count)),
        (Ok(reader), Ok(_)) => connection.run(reader, deadline, &shutdown).await,
    };
    connection.finish(end, writer).await;
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
            let next = tokio::select! {
                next = reader.next() => next?,
                Some(done) = self.calls.join_next_with_id() => {
                    self.landed(done).await;
                    continue;
                }
                () = tokio::time::sleep_until(greeting), if self.stage == Stage::New => {
                    return Err(silent());
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
        while !self.calls.is_empty() && !hung_up(reader.stream().as_ref()) {
            tokio::select! {
                Some(done) = self.calls.join_next_with_id() => self.landed(done).await,
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
        if let (Some(id), Some(crash)) = (self.tasks.remove(&task), crash) {
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

    async fn hear(&mut self, envelope: Envelope, reader: &Reader) -> Next {
        let Envelope { id, request } = envelope;
        let stage = match self.stage.admit(&request) {
            Ok(stage) => stage,
            Err(error) => return self.refuse(id, error).await,
        };
        if let Err(error) = request.check() {
            if let Request::Input(input) = request {
                self.flights.fail(input.call, error);
                return Next::Continue;
            }
            return self.refuse(id, error).await;
        }
        let answer = match request {
            Request::Hello(hello) => {
                tracing::debug!(uid = self.peer.uid, client = ?hello.client, "a client");
                let (version, server) = (VERSION, NAME.to_owned());
                Ok(Reply::Welcome(Welcome { version, server, capabilities: Vec::new() }))
            }
            Request::Open(open) => self.open(open, reader).await,
            Request::Call(call) => match self.call(id, call).await {
                Ok(()) => {
                    self.stage = stage;
                    return Next::Continue;
                }
                Err(error) => Err(error),
            },
            Request::Input(input) => return self.input(input, reader).await,
            Request::Cancel(Cancel { call }) => self.flights.cancel(call).map(|()| Reply::Done),
            Request::Close => {
                self.flights.cancel_all();
                self.close().await;
                Ok(Reply::Done)
            }
            Request::Ping => Ok(Reply::Pong),
            Request::Output(query) => {
                self.server.spools.page(query, self.peer.uid).await.map(Reply::Output)
            }
            Request::Tools(query) => self.server.registry.describe(&query.names).map(Reply::Tools),
            Request::Status => {
                Ok(Reply::Status(Box::new(status::of(&self.server, self.peer.uid).await)))
            }
        };
        match answer {
            Ok(reply) => {
                self.stage = stage;
                self.reply(id, reply).await
            }
            Err(error) => self.refuse(id, error).await,
        }
    }

    async fn open(
        &mut self,
        open: palisade_protocol::Open,
        reader: &Reader,
    ) -> Result<Reply, WireError> {
        let client = reader.stream().as_ref().as_fd();
        let session = session::open(&self.server, self.peer, client, open).await?;
        let opened = Opened {
            session: session.id.clone(),
            workspace: session.workspace.clone(),
            receipt: session.receipt.clone(),
        };
        self.session = Some(session);
        Ok(Reply::Opened(Box::new(opened)))
    }

    /// Starts a call; its reply comes when it is done.
    async fn call(&mut self, id: RequestId, call: Call) -> Result<(), WireError> {
        let started = std::time::Instant::now();
        let session = self.session.clone().ok_or_else(|| {
            WireError::new(ErrorCode::OutOfOrder, "there is no session", "open one first")
        })?;
        if self.flights.count() >= MAX_CALLS_IN_FLIGHT {
            return Err(WireError::new(
                ErrorCode::LimitReached,
                format!("{MAX_CALLS_IN_FLIGHT} calls are under way already"),
                "wait for one of them to end",
            ));
        }
        let (sender, input) = call.options.attach.then(|| mpsc::channel(PIECES)).unzip();
        let (cancel, fault) = (CancellationToken::new(), Fault::default());
        let flight = Flight { cancel: cancel.clone(), input: sender, fault: fault.clone() };
        let landing = self.flights.start(id, flight)?;
        session.calls.fetch_add(1, Ordering::Relaxed);
        session.in_flight.fetch_add(1, Ordering::Relaxed);
        let place = session.turns.line_up().await;
        let context = Context {
            spools: self.server.spools.clone(),
            call_id: call_id()?,
            request: id,
            cancel,
            outbox: self.outbox.clone(),
            streaming: if call.options.stream { Streaming::Live } else { Streaming::ResultOnly },
            input,
            session: Arc::clone(&session),
        };
        let asked = Asked { call, context, place, started, fault };
        let task = answer(Arc::clone(&self.server), session, asked, self.outbox.clone(), landing);
        let task = self.calls.spawn(task);
        self.tasks.insert(task.id(), id);
        Ok(())
    }

    /// Hands a piece of an attachment to its call. While the call can not take it nothing else is
    /// read from this client, which is what slows it down; but its leaving is noticed.
    async fn input(&self, input: Input, reader: &Reader) -> Next {
        let Some(sender) = self.flights.input(input.call) else { return Next::Continue };
        loop {
            tokio::select! {
                permit = sender.reserve() => {
                    // A call that ended takes no more; that is its own result's to tell.
                    if let Ok(permit) = permit {
                        permit.send(input);
                    }
                    return Next::Continue;
                }
                () = sleep(LOOK) => {
                    if hung_up(reader.stream().as_ref()) {
                        return Next::End;
                    }
                }
            }
        }
    }

    async fn close(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }

    /// Ends what is left: calls, session, and last the queue with what is still to be said.
    async fn finish(mut self, end: Result<(), WireError>, writer: JoinHandle<()>) {
        if let Err(error) = end {
            tracing::debug!(uid = self.peer.uid, %error, "a connection ends");
            let message = ServerMessage::Reply { id: None, reply: Reply::Error(error) };
            // A client that does not read does not hear this either.
            timeout(LAST_WORDS, self.outbox.send(message)).await.ok();
        }
        self.calls.shutdown().await;
        self.close().await;
        drop(self);
        let abort = writer.abort_handle();
        if timeout(LAST_WORDS, writer).await.is_err() {
            abort.abort();
        }
    }
}

fn call_id() -> Result<CallId, WireError> {
    CallId::try_from(uuid::Uuid::now_v7().to_string())
        .map_err(|error| WireError::new(ErrorCode::Internal, error.to_string(), ""))
}

/// Serves a call and sends its result.
async fn answer(
    server: Arc<Server>,
    session: Arc<Session>,
    asked: Asked,
    outbox: Outbox,
    landing: Landing,
) {
    let id = asked.context.request;
    let result = call::serve(&server, asked).await;
    session.in_flight.fetch_sub(1, Ordering::Relaxed);
    // The id is free before the client can see the reply.
    drop(landing);
    let reply = Reply::Result(Box::new(result));
    // A client that is gone does not want it.
    outbox.send(ServerMessage::Reply { id: Some(id), reply }).await.ok();
}

#[cfg(test)]
mod tests;
