//! What a client may ask of its connection, one by one. Broker.

use super::{Connection, LOOK, Next, hung_up, shutting_down};
use crate::{
    call,
    context::{Attachment, Context, Streaming},
    flight::{Flight, Landing},
    kept::{Repeat, Turn},
    observers::Audience,
    order::Role,
    outbox::ToClient,
    outcome::Fault,
    overview,
    provider::Heard,
    quotas::SOON,
    server::{NAME, Server},
    session::{self, Session},
    stages::Asked,
    status, transaction,
    wire::Reader,
};
use palisade_protocol::{
    Abort, Call, CallId, CallResult, Cancel, Envelope, ErrorCode, Grants, Input, Jobs, Kill,
    Opened, Reply, Request, RequestId, Resume, Resumed, Revoke, ServerMessage, Welcome, WireError,
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
        if let Err(error) = self.entitled(&request) {
            return self.refuse(id, error).await;
        }
        if self.server.draining.is_cancelled() && begins(&request) {
            return self.refuse(id, shutting_down()).await;
        }
        self.server.desk.heard(self.number);
        if let Err(error) = request.check() {
            if let Request::Input(input) = request {
                self.work.flights.fail(input.call, error);
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
            Request::Batch(batch) => match self.batch(id, batch).await {
                Ok(()) => {
                    self.stage = stage;
                    return Next::Continue;
                }
                Err(error) => Err(error),
            },
            Request::Resume(resume) => match self.take_over(resume).await {
                Ok((resumed, wanted)) => {
                    self.stage = stage;
                    return self.resumed(id, resumed, &wanted).await;
                }
                Err(error) => Err(error),
            },
            Request::Jobs => Ok(Reply::Jobs(self.jobs())),
            Request::Input(input) => return self.input(input, reader).await,
            Request::Cancel(Cancel { call }) => {
                self.work.flights.cancel(call).map(|()| Reply::Done)
            }
            Request::Close => {
                self.work.flights.cancel_all();
                self.work.close(&self.server).await;
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
            Request::Overview => Ok(Reply::Overview(Box::new(overview::of(&self.server)))),
            Request::Kill(Kill { call_id }) => self.kill(&call_id),
            Request::Forget(forget) => self.forget(forget).await,
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

    /// Refuses what the peer's roles and pace do not let it ask.
    fn entitled(&self, request: &Request) -> Result<(), WireError> {
        let live = self.server.live();
        match self.role {
            Role::Agent => {
                let now = std::time::Instant::now();
                self.server.pace.count(self.peer.uid, request, live.quotas, now)
            }
            Role::Operator => live.roles.permit(request, &self.who),
            Role::Provider => Ok(()),
        }
    }

    async fn open(
        &mut self,
        open: palisade_protocol::Open,
        reader: &Reader,
    ) -> Result<Reply, WireError> {
        if open.options.record {
            self.server.live().roles.let_record(&self.who)?;
        }
        let client = reader.stream().as_ref().as_fd();
        let session = session::open(&self.server, &self.who, client, open).await?;
        if let Err(error) = self.server.audit.opened(&session).await {
            session.close().await;
            return Err(error.into());
        }
        if session.profile.writes_workspace() {
            match transaction::resolve(&session).await {
                Ok(taken) => session.tell(taken.findings),
                // Transactions there say so, and try again.
                Err(error) => tracing::warn!(%error, "what was cut off is not taken back"),
            }
        }
        let opened = Opened {
            session: session.id.clone(),
            workspace: session.workspace.clone(),
            receipt: session.receipt(),
            token: session.survival.as_ref().map(|survival| survival.token.clone()),
            grace_ms: grace_ms(&session),
        };
        self.work.session = Some(session);
        Ok(Reply::Opened(Box::new(opened)))
    }

    /// Takes over a session; says of which calls the replies are wanted.
    async fn take_over(
        &mut self,
        resume: Resume,
    ) -> Result<(Box<Resumed>, Vec<RequestId>), WireError> {
        let session = self.server.session(&resume.session);
        self.work = self.server.lobby.take(session, &resume, self.peer).await?;
        let session = self.session()?;
        let wanted = |id: &RequestId| resume.calls.is_empty() || resume.calls.contains(id);
        let mut running = self.work.flights.ids();
        running.retain(wanted);
        let mut finished: Vec<RequestId> =
            session.kept.replies(&resume.calls).into_iter().map(|(id, _)| id).collect();
        finished.retain(|id| !running.contains(id));
        let resumed = Resumed {
            session: session.id.clone(),
            workspace: session.workspace.clone(),
            receipt: session.receipt(),
            grace_ms: grace_ms(&session),
            running: running.clone(),
            finished: finished.clone(),
        };
        running.append(&mut finished);
        Ok((Box::new(resumed), running))
    }

    /// Tells of it, and then what became of the calls. What ends in between is kept, and so told.
    async fn resumed(
        &mut self,
        id: RequestId,
        resumed: Box<Resumed>,
        wanted: &[RequestId],
    ) -> Next {
        let next = self.reply(id, Reply::Resumed(resumed)).await;
        self.work.client.redirect(self.outbox.clone());
        let Ok(session) = self.session() else { return next };
        if wanted.is_empty() {
            return next;
        }
        let (kept, outbox) = (session.kept.replies(wanted), self.outbox.clone());
        self.work.calls.spawn(async move {
            for (id, reply) in kept {
                let message = ServerMessage::Reply { id: Some(id), reply: Reply::clone(&reply) };
                // A client that is gone again may come once more.
                outbox.send(message).await.ok();
            }
        });
        next
    }

    /// The jobs that this peer may see.
    fn jobs(&self) -> Jobs {
        let sessions = match self.role {
            Role::Agent | Role::Provider => self.server.sessions_of(self.peer.uid),
            Role::Operator => self.server.sessions(),
        };
        let jobs = sessions.iter().flat_map(|session| session.jobs.infos(&session.id));
        Jobs { jobs: jobs.collect() }
    }

    pub(super) fn session(&self) -> Result<Arc<Session>, WireError> {
        self.work.session.clone().ok_or_else(|| {
            WireError::new(ErrorCode::OutOfOrder, "there is no session", "open one first")
        })
    }

    /// Refuses more calls than may be under way.
    pub(super) fn room(&self, more: usize) -> Result<(), WireError> {
        if self.work.flights.count() + more > MAX_CALLS_IN_FLIGHT {
            return Err(WireError::new(
                ErrorCode::LimitReached,
                format!("{MAX_CALLS_IN_FLIGHT} calls are under way already"),
                "wait for one of them to end",
            )
            .retry_after(SOON));
        }
        let live = self.server.live();
        if live.quotas.calls.is_none() {
            return Ok(());
        }
        let sessions = self.server.sessions_of(self.peer.uid);
        let running = sessions.iter().map(|session| session.in_flight.load(Ordering::Relaxed));
        live.quotas.check_calls(running.sum(), u32::try_from(more).unwrap_or(u32::MAX))
    }

    /// Starts a call; its reply comes when it is done.
    async fn call(&mut self, id: RequestId, call: Call) -> Result<(), WireError> {
        let session = self.session()?;
        self.room(1)?;
        let (sender, input) = call.options.attach.then(|| mpsc::channel(PIECES)).unzip();
        let input = input.map(Attachment::new);
        let (cancel, fault) = (CancellationToken::new(), Fault::default());
        let flight =
            Flight { cancel: cancel.clone(), input: sender, fault: fault.clone(), calls: 1 };
        let landing = self.work.flights.start(id, flight)?;
        let made = match session.kept.begin(&call)? {
            Turn::First => {
                let asked = self.asked(id, call, (cancel, fault, input)).await?;
                Made::Now { server: Arc::clone(&self.server), asked: Box::new(asked) }
            }
            Turn::Again(repeat) => Made::Before(repeat),
        };
        let server = Arc::clone(&self.server);
        let task = answer(server, made, session, id, self.work.client.clone(), landing);
        let task = self.work.calls.spawn(task);
        self.work.tasks.insert(task.id(), id);
        Ok(())
    }

    /// A call with its place among those of its session.
    pub(super) async fn asked(
        &self,
        id: RequestId,
        call: Call,
        (cancel, fault, input): (CancellationToken, Fault, Option<Attachment>),
    ) -> Result<Asked, WireError> {
        let started = std::time::Instant::now();
        let session = self.session()?;
        session.calls.fetch_add(1, Ordering::Relaxed);
        session.in_flight.fetch_add(1, Ordering::Relaxed);
        let place = session.turns.line_up().await;
        let context = Context {
            spools: self.server.spools.clone(),
            call_id: call_id()?,
            request: id,
            cancel,
            client: self.work.client.clone(),
            streaming: if call.options.stream { Streaming::Live } else { Streaming::ResultOnly },
            input,
            tap: None,
            observers: Arc::clone(&self.server.observers),
            audience: Audience::Everybody,
            session,
        };
        Ok(Asked { call, context, place, started, fault })
    }

    /// Hands a piece of an attachment to its call. While the call can not take it nothing else is
    /// read from this client, which is what slows it down; but its leaving is noticed.
    async fn input(&self, input: Input, reader: &Reader) -> Next {
        let Some(sender) = self.work.flights.input(&input) else { return Next::Continue };
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

/// Whether a request begins something that a daemon that stops would have to wait for.
const fn begins(request: &Request) -> bool {
    matches!(request, Request::Open(_) | Request::Resume(_) | Request::Call(_) | Request::Batch(_))
}

fn call_id() -> Result<CallId, WireError> {
    CallId::try_from(uuid::Uuid::now_v7().to_string())
        .map_err(|error| WireError::new(ErrorCode::Internal, error.to_string(), ""))
}

fn grace_ms(session: &Session) -> u64 {
    let grace = session.survival.as_ref().map_or_else(Default::default, |survival| survival.grace);
    u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)
}

/// A call that is made now, or was before.
pub(super) enum Made {
    Now { server: Arc<Server>, asked: Box<Asked> },
    Before(Repeat),
}

impl Made {
    /// The key that it holds until it has a result.
    pub(super) fn key(&self) -> Option<String> {
        match self {
            Self::Now { asked, .. } => asked.call.options.idempotency_key.clone(),
            Self::Before(_) => None,
        }
    }

    /// Makes the call, unless it was made before; its result is told to those who repeat it.
    pub(super) async fn result(self, session: &Session) -> Result<CallResult, WireError> {
        let unsettled = Unsettled { session, key: self.key() };
        let result = match self {
            Self::Now { server, asked } => {
                let result = call::serve(&server, *asked).await;
                session.in_flight.fetch_sub(1, Ordering::Relaxed);
                result
            }
            Self::Before(repeat) => return repeat.result().await,
        };
        unsettled.settle(&result);
        Ok(result)
    }
}

/// A key whose call has no result yet. If it never gets one, the call may be made again.
struct Unsettled<'a> {
    session: &'a Session,
    key: Option<String>,
}

impl Unsettled<'_> {
    fn settle(mut self, result: &CallResult) {
        if let Some(key) = self.key.take() {
            self.session.kept.settle(&key, result);
        }
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.session.kept.abandon(&key);
        }
    }
}

/// Serves a call and sends its result.
async fn answer(
    server: Arc<Server>,
    made: Made,
    session: Arc<Session>,
    id: RequestId,
    client: ToClient,
    landing: Landing,
) {
    let key = made.key();
    let reply = match made.result(&session).await {
        Ok(result) => Reply::Result(Box::new(result)),
        Err(error) => Reply::Error(error),
    };
    send(&server, reply, key.into_iter().collect(), &session, id, &client, landing).await;
}

/// Sends a reply, and keeps it where it may have to be sent again.
pub(super) async fn send(
    server: &Server,
    reply: Reply,
    keys: Vec<String>,
    session: &Session,
    id: RequestId,
    client: &ToClient,
    landing: Landing,
) {
    if session.survival.is_some() || !keys.is_empty() {
        session.kept.keep(id, keys, &reply);
    }
    // The id is free before the client can see the reply.
    drop(landing);
    // A client that is gone does not want it, or comes again for it.
    client.send(ServerMessage::Reply { id: Some(id), reply }).await.ok();
    server.audit.replied();
}
