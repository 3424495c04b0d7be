//! A connection to the operator socket: register as an approver, receive and answer approval
//! requests, manage remembered approvals and sessions. Runs in the operator's process, never in an
//! agent's.

use crate::{
    Answer, Error, OperatorEvent, Registration,
    client::{greet, hello, unexpected},
    link::{Link, Patience, dial},
    news::NewsReceiver,
};
use palisade_protocol::{
    Abort, Answered, ApprovalRequest, CallId, CallRecords, ConnectionInfo, Forget, Forgotten,
    Grant, GrantId, HandlerId, Kill, Overview, RecordQuery, Reply, Request, Revoke, Scope,
    ScopeHistory, ScopeQuery, SessionId, Subscribe, Welcome,
};
use std::{path::Path, sync::Arc};
use tokio::{net::UnixStream, sync::Mutex};

#[derive(Debug)]
struct OperatorInner {
    link: Link,
    welcome: Welcome,
    news: Mutex<NewsReceiver>,
}

/// An operator's connection. It is cheap to clone; all clones share the connection and its events.
/// When the last clone is dropped, the approver is removed and its open approval requests are
/// denied.
///
/// [`handle`](Self::handle) answers approval requests with a function. [`register`](Self::register),
/// [`next`](Self::next) and [`answer`](Self::answer) are its parts, for a program that does more.
#[derive(Debug, Clone)]
pub struct Operator {
    inner: Arc<OperatorInner>,
}

impl Operator {
    /// Connects to a daemon's operator socket.
    ///
    /// # Errors
    /// [`Error::Connect`] if nothing listens there or this user is not an operator,
    /// [`Error::Remote`] if the daemon refuses this client's version.
    pub async fn connect(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let stream = dial(path).await?;
        Self::from_stream(stream).await
    }

    /// Creates a connection on a socket that is already connected.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect), once the socket is open.
    pub async fn from_stream(stream: UnixStream) -> Result<Self, Error> {
        let (link, news) = Link::start(stream, Patience::default());
        let welcome = greet(&link, hello()).await?;
        Ok(Self { inner: Arc::new(OperatorInner { link, welcome, news: Mutex::new(news) }) })
    }

    /// Returns the daemon's greeting.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.inner.welcome
    }

    /// Registers this connection as an approver, or changes its registration.
    ///
    /// # Errors
    /// [`Error::Remote`] with the daemon's reason: `forbidden` if this is not an operator's
    /// connection.
    pub async fn register(&self, registration: Registration) -> Result<HandlerId, Error> {
        let Reply::Registered(registered) =
            self.ask(Request::Register(registration.to_wire()?)).await?
        else {
            return Err(unexpected("register"));
        };
        Ok(registered.handler)
    }

    /// Removes this connection as an approver. Approval requests that it has not answered are
    /// denied.
    ///
    /// # Errors
    /// If the connection is gone, and the approver with it.
    pub async fn withdraw(&self) -> Result<(), Error> {
        self.done(Request::Withdraw, "withdraw").await
    }

    /// Returns the next event; `None` once the connection has ended. Cancelling this future loses
    /// no event.
    pub async fn next(&self) -> Option<OperatorEvent> {
        self.inner.news.lock().await.next().await
    }

    /// Returns the reason that there are no more events.
    #[must_use]
    pub fn ended(&self) -> Error {
        self.inner.link.table.ended()
    }

    /// Answers an approval request. The answer is bound by the digest to exactly what was shown.
    /// Returns the id of the remembered approval, if the answer asked for one, and how many more
    /// approvals are needed.
    ///
    /// # Errors
    /// `stale_approval` if the request is over, was answered already, or is about something else.
    /// `denied` if the decision was accepted but may not be remembered
    /// ([`Error::is_remember_refusal`]). With any other error the answer does not count.
    pub async fn answer(
        &self,
        request: &ApprovalRequest,
        answer: impl Into<Answer>,
    ) -> Result<Answered, Error> {
        let answer = answer.into().to_wire(request);
        let Reply::Answered(answered) = self.ask(Request::Answer(Box::new(answer))).await? else {
            return Err(unexpected("answer"));
        };
        Ok(answered)
    }

    /// Lists the approval requests that wait for an answer, oldest first.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn pending(&self) -> Result<Vec<ApprovalRequest>, Error> {
        let Reply::Pending(pending) = self.ask(Request::Pending).await? else {
            return Err(unexpected("pending"));
        };
        Ok(pending.requests)
    }

    /// Lists the remembered approvals, oldest first.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn grants(&self) -> Result<Vec<Grant>, Error> {
        let Reply::Grants(grants) = self.ask(Request::Grants).await? else {
            return Err(unexpected("grants"));
        };
        Ok(grants.grants)
    }

    /// Counts the approval requests of the last week that each scope would have covered, of the same
    /// user, profile and tool as the waiting one.
    ///
    /// # Errors
    /// `stale_approval` or `not_found` if the request does not wait any more.
    pub async fn scope_history(
        &self,
        request: &ApprovalRequest,
        scopes: Vec<Scope>,
    ) -> Result<ScopeHistory, Error> {
        let query = ScopeQuery { request: request.id.clone(), scopes };
        let Reply::ScopeHistory(history) = self.ask(Request::ScopeHistory(query)).await? else {
            return Err(unexpected("scope_history"));
        };
        Ok(history)
    }

    /// Deletes a remembered approval.
    ///
    /// # Errors
    /// `not_found` if there is no such remembered approval.
    pub async fn revoke(&self, id: &GrantId) -> Result<(), Error> {
        self.done(Request::Revoke(Revoke { id: id.clone() }), "revoke").await
    }

    /// Subscribes to calls, their output and decisions, of one session or of all.
    ///
    /// # Errors
    /// `not_found` if there is no such session.
    pub async fn subscribe(&self, session: Option<&SessionId>) -> Result<(), Error> {
        let subscribe = Subscribe { session: session.cloned() };
        self.done(Request::Subscribe(subscribe), "subscribe").await
    }

    /// Ends a session: its calls are killed and its approval requests denied.
    ///
    /// # Errors
    /// `not_found` if there is no such session.
    pub async fn abort(&self, session: &SessionId) -> Result<(), Error> {
        self.done(Request::Abort(Abort { session: session.clone() }), "abort").await
    }

    /// Returns the daemon's current activity: sessions, running calls, and the daemon's health.
    ///
    /// # Errors
    /// `forbidden` if this operator may not observe.
    pub async fn overview(&self) -> Result<Overview, Error> {
        let Reply::Overview(overview) = self.ask(Request::Overview).await? else {
            return Err(unexpected("overview"));
        };
        Ok(*overview)
    }

    /// Lists the open network connections of all sessions.
    ///
    /// # Errors
    /// `forbidden` if this operator may not observe.
    pub async fn connections(&self) -> Result<Vec<ConnectionInfo>, Error> {
        let Reply::Connections(listed) = self.ask(Request::Connections).await? else {
            return Err(unexpected("connections"));
        };
        Ok(listed.connections)
    }

    /// Returns the audit records of a call of any user: of the one whose id has a prefix, or of the
    /// newest.
    ///
    /// # Errors
    /// `not_found` if there is no such call, `forbidden` if this operator may not observe.
    pub async fn records(&self, prefix: Option<CallId>) -> Result<CallRecords, Error> {
        let query = RecordQuery { prefix };
        let Reply::Records(records) = self.ask(Request::Records(query)).await? else {
            return Err(unexpected("records"));
        };
        Ok(records)
    }

    /// Ends a call; its agent gets a result that says it was cancelled.
    ///
    /// # Errors
    /// `not_found` if no such call is running.
    pub async fn kill(&self, call: &CallId) -> Result<(), Error> {
        self.done(Request::Kill(Kill { call_id: call.clone() }), "kill").await
    }

    /// Deletes what is stored for calls, and returns what was deleted.
    ///
    /// # Errors
    /// `forbidden` if this operator may not administer.
    pub async fn forget(&self, forget: Forget) -> Result<Forgotten, Error> {
        let Reply::Forgotten(gone) = self.ask(Request::Forget(forget)).await? else {
            return Err(unexpected("forget"));
        };
        Ok(gone)
    }

    /// Tells the daemon that this approver is alive.
    ///
    /// # Errors
    /// If no answer comes.
    pub async fn ping(&self) -> Result<(), Error> {
        let Reply::Pong = self.ask(Request::Ping).await? else {
            return Err(unexpected("ping"));
        };
        Ok(())
    }

    async fn done(&self, request: Request, name: &str) -> Result<(), Error> {
        let Reply::Done = self.ask(request).await? else {
            return Err(unexpected(name));
        };
        Ok(())
    }

    async fn ask(&self, request: Request) -> Result<Reply, Error> {
        self.inner.link.ask(request).await
    }
}
