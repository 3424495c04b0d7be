//! What a client may ask of its connection, one by one. Broker.

use super::{Connection, LOOK, Next, hung_up};
use crate::{
    call,
    context::{Attachment, Context, Outbox, Streaming},
    flight::{Flight, Landing},
    observers::Audience,
    outcome::Fault,
    provider::Heard,
    server::{NAME, Server},
    session::{self, Session},
    stages::Asked,
    status,
    wire::Reader,
};
use palisade_protocol::{
    Abort, Call, CallId, Cancel, Envelope, ErrorCode, Grants, Input, Opened, Reply, Request,
    RequestId, Revoke, ServerMessage, Welcome, WireError,
    limits::{MAX_CALLS_IN_FLIGHT, VERSION},
};
use std::{
    os::fd::AsFd as _,
    sync::{Arc, atomic::Ordering},
};
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;

/// How many pieces of an attachment wait for a slow program.
const PIECES: usize = 8;

impl Connection {
    /// Answers a request, or begins the call that will.
    pub(super) async fn hear(&mut self, envelope: Envelope, reader: &Reader) -> Next {
        let Envelope { id, request } = envelope;
        let stage = match self.stage.admit(&request) {
            Ok(stage) => stage,
            Err(error) => return self.refuse(id, error).await,
        };
        if let Err(error) = self.role.permits(&request) {
            return self.refuse(id, error).await;
        }
        self.server.desk.heard(self.number);
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
            Request::Status => Ok(Reply::Status(Box::new(status::of(&self.server, self.peer.uid)))),
            Request::Register(register) => self.register(register),
            Request::Answer(answer) => self.answer(*answer),
            Request::Withdraw => {
                self.server.desk.detach(self.number);
                Ok(Reply::Done)
            }
            Request::Pending => Ok(self.pending()),
            Request::Grants => Ok(Reply::Grants(Grants { grants: self.server.desk.grants() })),
            Request::Revoke(Revoke { id }) => self.revoke(&id).await,
            Request::Subscribe(subscribe) => self.subscribe(subscribe),
            Request::Abort(Abort { session }) => self.abort(&session).await,
            Request::Provide(provide) => self.provide(provide),
            Request::Unprovide(unprovide) => self.unprovide(&unprovide),
            Request::InvokeProgress(progress) => {
                self.told(progress.invocation, Heard::Progress(progress))
            }
            Request::InvokeOutput(output) => {
                self.told(output.invocation, Heard::Output(output.text))
            }
            Request::InvokeResult(result) => self.told(result.invocation, Heard::Result(result)),
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
        if let Err(error) = self.server.audit.opened(&session).await {
            session.close().await;
            return Err(error.into());
        }
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
        let input = input.map(Attachment::new);
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
            tap: None,
            observers: Arc::clone(&self.server.observers),
            audience: Audience::Everybody,
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
        let Some(sender) = self.flights.input(&input) else { return Next::Continue };
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
    // The client has its result before anybody writes a record of it.
    tokio::task::yield_now().await;
    server.audit.nudge();
}
