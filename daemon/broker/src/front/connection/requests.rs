//! Dispatches the requests of a client. Runs in the broker.

use super::{Connection, Next, shutting_down};
use crate::{
    base::{release::NAME, roles::Role},
    cells::session::Session,
    front::{overview, status, wire::Reader},
    tools::provider::ProviderMessage,
};
use palisade_protocol::{
    Abort, Cancel, Connections, Envelope, ErrorCode, Grants, Jobs, Kill, OutputPage, OutputQuery,
    Phase, Reply, Request, Revoke, ToolList, Welcome, WireError, limits::VERSION,
};
use std::sync::Arc;

impl Connection {
    /// Answers a request, or starts the call that will answer it.
    pub(super) async fn handle_request(&mut self, envelope: Envelope, reader: &Reader) -> Next {
        let Envelope { id, request } = envelope;
        let stage = match self.stage.admit(&request) {
            Ok(stage) => stage,
            Err(error) => return self.refuse(id, error).await,
        };
        if let Err(error) = self.role.permits(&request) {
            return self.refuse(id, error).await;
        }
        if let Err(error) = self.check_permission(&request) {
            return self.refuse(id, error).await;
        }
        if self.server.draining.is_cancelled() && begins(&request) {
            return self.refuse(id, shutting_down()).await;
        }
        self.server.calls.approvals.desk.heard(self.number);
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
            Request::Connections => Ok(Reply::Connections(self.connections())),
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
            Request::Output(query) => self.output(query).await.map(Reply::Output),
            Request::UndoRecords(query) => {
                let listed = self.server.undos.list(self.peer.uid, query).await;
                listed.map(Reply::UndoRecords).map_err(WireError::from)
            }
            Request::Tools(query) => {
                let tools = self.server.calls.registry.describe(&query.names);
                tools.map(|tools| Reply::Tools(ToolList { tools }))
            }
            Request::Status => Ok(Reply::Status(Box::new(status::of(&self.server, self.peer.uid)))),
            Request::Register(register) => self.register(register),
            Request::Answer(answer) => self.answer(*answer),
            Request::Withdraw => self.withdraw(),
            Request::Pending => Ok(self.pending()),
            Request::Grants => {
                Ok(Reply::Grants(Grants { grants: self.server.calls.approvals.desk.grants() }))
            }
            Request::Revoke(Revoke { id }) => self.revoke(&id).await,
            Request::Subscribe(subscribe) => self.subscribe(subscribe),
            Request::Abort(Abort { session }) => self.abort(&session).await,
            Request::Overview => Ok(Reply::Overview(Box::new(overview::of(&self.server)))),
            Request::Kill(Kill { call_id }) => self.kill(&call_id),
            Request::Forget(forget) => self.forget(forget).await,
            Request::ScopeHistory(query) => self.scope_history(query).await,
            Request::Records(query) => self.records(query).await,
            Request::Provide(provide) => self.provide(provide),
            Request::Unprovide(unprovide) => self.unprovide(&unprovide),
            Request::InvokeProgress(progress) => {
                self.forward_to_provider(progress.invocation, ProviderMessage::Progress(progress))
            }
            Request::InvokeOutput(output) => {
                self.forward_to_provider(output.invocation, ProviderMessage::Output(output.text))
            }
            Request::InvokeResult(result) => {
                self.forward_to_provider(result.invocation, ProviderMessage::Result(result))
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

    /// Denies a request that the peer's roles or its rate limit do not allow.
    fn check_permission(&self, request: &Request) -> Result<(), WireError> {
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

    /// The jobs that this peer may see.
    fn jobs(&self) -> Jobs {
        let sessions = match self.role {
            Role::Agent | Role::Provider => self.server.host.sessions_of(self.peer.uid),
            Role::Operator => self.server.host.sessions(),
        };
        let jobs = sessions.iter().flat_map(|session| session.jobs.infos(&session.id));
        Jobs { jobs: jobs.collect() }
    }

    /// A page of a call's stored output, or of what a running job of this peer has printed so far.
    async fn output(&self, query: OutputQuery) -> Result<OutputPage, WireError> {
        let sessions = self.server.host.sessions_of(self.peer.uid);
        let job = sessions.iter().find_map(|session| session.jobs.running(&query.call_id));
        match job {
            Some(job) => Ok(job.page(&query).await),
            None => self.server.spools.page(query, self.peer.uid).await,
        }
    }

    /// The network connections that this peer may see.
    fn connections(&self) -> Connections {
        let uid = match self.role {
            Role::Agent | Role::Provider => Some(self.peer.uid),
            Role::Operator => None,
        };
        Connections { connections: self.server.rooms.connections(uid) }
    }

    pub(super) fn session(&self) -> Result<Arc<Session>, WireError> {
        self.work.session.clone().ok_or_else(|| {
            WireError::new(ErrorCode::OutOfOrder, "there is no session", "open a session first")
        })
    }
}

/// Returns `true` if a request starts something that a stopping daemon would have to wait for.
const fn begins(request: &Request) -> bool {
    matches!(request.phase(), Phase::Opening | Phase::Calling)
}
