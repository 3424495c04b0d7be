//! A connection to the operator socket: attach a handler, hear questions, answer them, look after
//! grants and sessions. Runs in the operator's process, never in an agent's.

use crate::{
    Answer, Error, OperatorEvent, Registration,
    client::{greet, hello, unexpected},
    link::{Link, Patience, dial},
    news::NewsReceiver,
};
use palisade_protocol::{
    Abort, Answered, CallId, Forget, Forgotten, Grant, GrantId, HandlerId, Kill, Overview,
    Question, Reply, Request, Revoke, SessionId, Subscribe, Welcome,
};
use std::{path::Path, sync::Arc};
use tokio::{net::UnixStream, sync::Mutex};

#[derive(Debug)]
struct Inner {
    link: Link,
    welcome: Welcome,
    news: Mutex<NewsReceiver>,
}

/// An operator's connection. Cheap to clone; all clones share the connection and its events. When
/// the last of them is dropped, the handler is gone and what it was asked is denied.
///
/// A handler:
///
/// ```no_run
/// use palisade_client::{Answer, Operator, OperatorEvent, Registration};
///
/// # async fn handle() -> Result<(), palisade_client::Error> {
/// let operator = Operator::connect("/run/palisade/operator.sock").await?;
/// operator.register(Registration::new("program:careful").tool("bash")).await?;
/// while let Some(event) = operator.next().await {
///     let OperatorEvent::Question(question) = event else { continue };
///     let answer = if question.view.targets.iter().any(|target| target.lost) {
///         Answer::deny("nothing that exists may be lost").guidance("write to a new file")
///     } else {
///         Answer::approve()
///     };
///     operator.answer(&question, answer).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Operator {
    inner: Arc<Inner>,
}

impl Operator {
    /// Connects to a daemon's operator socket.
    ///
    /// # Errors
    /// [`Error::Connect`] if nobody answers there or this user is no operator, [`Error::Remote`] if
    /// the daemon refuses this client's version.
    pub async fn connect(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let stream = dial(path).await?;
        Self::from_stream(stream).await
    }

    /// Speaks over a socket that is connected already.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect), once the socket is open.
    pub async fn from_stream(stream: UnixStream) -> Result<Self, Error> {
        let (link, news) = Link::start(stream, Patience::default());
        let welcome = greet(&link, hello()).await?;
        Ok(Self { inner: Arc::new(Inner { link, welcome, news: Mutex::new(news) }) })
    }

    /// What the daemon said of itself in its greeting.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.inner.welcome
    }

    /// Attaches this connection as a handler, or changes how it is attached.
    ///
    /// # Errors
    /// [`Error::Remote`] with the daemon's reason: `forbidden` if this is no operator's connection.
    pub async fn register(&self, registration: Registration) -> Result<HandlerId, Error> {
        let Reply::Registered(registered) =
            self.ask(Request::Register(registration.to_wire()?)).await?
        else {
            return Err(unexpected("register"));
        };
        Ok(registered.handler)
    }

    /// Detaches the handler; what it was asked and has not answered is denied.
    ///
    /// # Errors
    /// If the connection is gone, and the handler with it.
    pub async fn withdraw(&self) -> Result<(), Error> {
        self.done(Request::Withdraw, "withdraw").await
    }

    /// The next event; none once the connection has ended. May be given up and asked again without
    /// losing anything.
    pub async fn next(&self) -> Option<OperatorEvent> {
        self.inner.news.lock().await.next().await
    }

    /// Why there are no more events.
    #[must_use]
    pub fn ended(&self) -> Error {
        self.inner.link.table.ended()
    }

    /// Answers a question: what it showed, by its digest, and nothing else. Returns what is
    /// remembered from now on, if that was wanted.
    ///
    /// # Errors
    /// `stale_approval` if the question is over, was answered already, or is about something else;
    /// `denied` if the decision was taken but may not be remembered
    /// ([`Error::is_only_not_remembered`]). No other answer that is refused counts.
    pub async fn answer(
        &self,
        question: &Question,
        answer: impl Into<Answer>,
    ) -> Result<Option<GrantId>, Error> {
        let Answer { decision, remember } = answer.into();
        let answer = palisade_protocol::Answer {
            question: question.question.clone(),
            digest: question.digest.clone(),
            decision,
            remember,
        };
        let Reply::Answered(Answered { grant }) =
            self.ask(Request::Answer(Box::new(answer))).await?
        else {
            return Err(unexpected("answer"));
        };
        Ok(grant)
    }

    /// The questions that wait for an answer, oldest first.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn pending(&self) -> Result<Vec<Question>, Error> {
        let Reply::Pending(pending) = self.ask(Request::Pending).await? else {
            return Err(unexpected("pending"));
        };
        Ok(pending.questions)
    }

    /// What is answered from memory, oldest first.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn grants(&self) -> Result<Vec<Grant>, Error> {
        let Reply::Grants(grants) = self.ask(Request::Grants).await? else {
            return Err(unexpected("grants"));
        };
        Ok(grants.grants)
    }

    /// Takes back what was to be remembered.
    ///
    /// # Errors
    /// `not_found` if there is no such grant.
    pub async fn revoke(&self, id: &GrantId) -> Result<(), Error> {
        self.done(Request::Revoke(Revoke { id: id.clone() }), "revoke").await
    }

    /// Wants to hear of calls, their output and decisions as they happen: of one session, or of
    /// all.
    ///
    /// # Errors
    /// `not_found` if there is no such session.
    pub async fn subscribe(&self, session: Option<&SessionId>) -> Result<(), Error> {
        let subscribe = Subscribe { session: session.cloned() };
        self.done(Request::Subscribe(subscribe), "subscribe").await
    }

    /// Ends a session: its calls are killed, its questions denied.
    ///
    /// # Errors
    /// `not_found` if there is no such session.
    pub async fn abort(&self, session: &SessionId) -> Result<(), Error> {
        self.done(Request::Abort(Abort { session: session.clone() }), "abort").await
    }

    /// What goes on now: sessions, calls under way, and how the daemon is.
    ///
    /// # Errors
    /// `forbidden` if this operator may not observe.
    pub async fn overview(&self) -> Result<Overview, Error> {
        let Reply::Overview(overview) = self.ask(Request::Overview).await? else {
            return Err(unexpected("overview"));
        };
        Ok(*overview)
    }

    /// Ends a call; its agent gets a result that says it was cancelled.
    ///
    /// # Errors
    /// `not_found` if no such call is under way.
    pub async fn kill(&self, call: &CallId) -> Result<(), Error> {
        self.done(Request::Kill(Kill { call_id: call.clone() }), "kill").await
    }

    /// Lets go of what is kept of calls; says what went.
    ///
    /// # Errors
    /// `forbidden` if this operator may not administer.
    pub async fn forget(&self, forget: Forget) -> Result<Forgotten, Error> {
        let Reply::Forgotten(gone) = self.ask(Request::Forget(forget)).await? else {
            return Err(unexpected("forget"));
        };
        Ok(gone)
    }

    /// Says that this handler is alive.
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
