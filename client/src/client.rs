//! A connection to the daemon, and the requests that need no session.

use crate::{
    Embedded, Error, Open, Operator, OperatorEvent, Session,
    embedded::Daemon,
    link::{Link, Patience, dial},
    news::NewsReceiver,
};
use palisade_protocol::{
    CallId, CallRecords, Hello, OutputPage, OutputQuery, RecordQuery, Reply, Request, SessionId,
    Status, Subscribe, ToolName, ToolSpec, ToolsQuery, UndoQuery, UndoRecords, Welcome,
    limits::VERSION,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{net::UnixStream, sync::Mutex};

/// The origin of the connection, so that it can be made again.
#[derive(Debug, Clone)]
enum Origin {
    Path(PathBuf),
    Embedded(Embedded),
    Stream,
}

#[derive(Debug)]
struct ClientInner {
    link: Arc<Link>,
    origin: Origin,
    hello: Hello,
    welcome: Welcome,
    daemon: Option<Daemon>,
    news: Mutex<NewsReceiver>,
}

/// A connection to the daemon. It is cheap to clone. All clones share the connection, which ends
/// with the last of them. Needs a tokio runtime.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

impl Client {
    /// Connects to a daemon that listens on `path`.
    ///
    /// ```no_run
    /// # use palisade_client::Client;
    /// # async fn connect() -> Result<(), palisade_client::Error> {
    /// let client = Client::connect("/run/palisade/agent.sock").await?;
    /// client.ping().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Connect`] if nothing listens there, [`Error::Remote`] if the daemon refuses this
    /// client's version.
    pub async fn connect(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::at(path.as_ref(), hello()).await
    }

    /// Starts a private daemon and connects to it. The daemon ends with the connection.
    /// [`Embedded`] has more options.
    ///
    /// # Errors
    /// [`Error::DaemonNotFound`] or [`Error::DaemonNotStarted`].
    pub async fn embedded() -> Result<Self, Error> {
        Embedded::new().start().await
    }

    /// Creates a client on a socket that is already connected.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect), once the socket is open.
    pub async fn from_stream(stream: UnixStream) -> Result<Self, Error> {
        Self::greet(stream, Origin::Stream, None, hello(), Patience::default()).await
    }

    #[cfg(test)]
    pub(crate) async fn patient(stream: UnixStream, patience: Patience) -> Result<Self, Error> {
        Self::greet(stream, Origin::Stream, None, hello(), patience).await
    }

    async fn at(path: &Path, hello: Hello) -> Result<Self, Error> {
        let stream = dial(path).await?;
        let origin = Origin::Path(path.to_owned());
        Self::greet(stream, origin, None, hello, Patience::default()).await
    }

    pub(crate) async fn with_daemon(embedded: Embedded) -> Result<Self, Error> {
        Self::embed(embedded, hello()).await
    }

    pub(crate) async fn with_operator(embedded: Embedded) -> Result<(Self, Operator), Error> {
        let (stream, operator, daemon) = embedded.spawn_with_operator()?;
        let origin = Origin::Embedded(embedded);
        let client =
            Self::greet(stream, origin, Some(daemon), hello(), Patience::default()).await?;
        Ok((client, Operator::from_stream(operator).await?))
    }

    async fn embed(embedded: Embedded, hello: Hello) -> Result<Self, Error> {
        let (stream, daemon) = embedded.spawn()?;
        let origin = Origin::Embedded(embedded);
        Self::greet(stream, origin, Some(daemon), hello, Patience::default()).await
    }

    async fn greet(
        stream: UnixStream,
        origin: Origin,
        daemon: Option<Daemon>,
        hello: Hello,
        patience: Patience,
    ) -> Result<Self, Error> {
        let (link, news) = Link::start(stream, patience);
        let welcome = match (greet(&link, hello.clone()).await, &origin) {
            // Nobody accepted the connection: the listener was closed first, for example because
            // the daemon ended.
            (Err(_), Origin::Path(path)) if link.table.was_reset() => {
                let source = io::ErrorKind::ConnectionReset.into();
                return Err(Error::Connect { path: path.clone(), source });
            }
            (welcome, _) => welcome?,
        };
        let (link, news) = (Arc::new(link), Mutex::new(news));
        Ok(Self { inner: Arc::new(ClientInner { link, origin, hello, welcome, daemon, news }) })
    }

    /// Makes a new connection in the way that this one was made. This one stays as it is. Sessions
    /// belong to their connection: [`Session::reconnect`] makes a new connection and a new session.
    ///
    /// # Errors
    /// [`Error::NotReconnectable`] for a client made from a stream; otherwise as when it was first
    /// made.
    pub async fn reconnect(&self) -> Result<Self, Error> {
        let hello = self.inner.hello.clone();
        match &self.inner.origin {
            Origin::Path(path) => Self::at(path, hello).await,
            Origin::Embedded(embedded) => Self::embed(embedded.clone(), hello).await,
            Origin::Stream => Err(Error::NotReconnectable),
        }
    }

    /// Returns the daemon's greeting.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.inner.welcome
    }

    /// Creates the connection's session.
    ///
    /// # Errors
    /// [`Error::Remote`] with the daemon's reason: the profile, the workspace, a missing layer.
    pub async fn open(&self, open: Open) -> Result<Session, Error> {
        let Reply::Opened(opened) = self.ask(Request::Open(open.to_wire()?)).await? else {
            return Err(unexpected("open"));
        };
        Ok(Session::new(self.clone(), open, *opened))
    }

    /// Checks that the daemon answers.
    ///
    /// # Errors
    /// If no answer comes.
    pub async fn ping(&self) -> Result<(), Error> {
        let Reply::Pong = self.ask(Request::Ping).await? else { return Err(unexpected("ping")) };
        Ok(())
    }

    /// Lists all tools, sorted by name.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn tools(&self) -> Result<Vec<ToolSpec>, Error> {
        self.describe(Vec::new()).await
    }

    /// Lists the tools with these names or aliases.
    ///
    /// # Errors
    /// `tool_not_found` for a name that no tool has.
    pub async fn tools_named<N: AsRef<str>>(&self, names: &[N]) -> Result<Vec<ToolSpec>, Error> {
        let names: Result<Vec<ToolName>, _> =
            names.iter().map(|name| name.as_ref().parse()).collect();
        self.describe(names?).await
    }

    async fn describe(&self, names: Vec<ToolName>) -> Result<Vec<ToolSpec>, Error> {
        let Reply::Tools(list) = self.ask(Request::Tools(ToolsQuery { names })).await? else {
            return Err(unexpected("tools"));
        };
        Ok(list.tools)
    }

    /// Returns the daemon's identity and what it can enforce on this host.
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn status(&self) -> Result<Status, Error> {
        let Reply::Status(status) = self.ask(Request::Status).await? else {
            return Err(unexpected("status"));
        };
        Ok(*status)
    }

    /// Reads a page of an earlier call's stored output, from `offset` on. It has at most `limit`
    /// bytes, or as much as one message carries, and is empty at the end.
    ///
    /// # Errors
    /// `not_found` if there is no such call, or this peer may not see it.
    pub async fn output(
        &self,
        call_id: &CallId,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<OutputPage, Error> {
        let query = OutputQuery { call_id: call_id.clone(), offset, limit };
        let Reply::Output(page) = self.ask(Request::Output(query)).await? else {
            return Err(unexpected("output"));
        };
        Ok(page)
    }

    /// Lists the undo records of this user's calls, newest first.
    ///
    /// # Errors
    /// If the records can not be read, or the connection is gone.
    pub async fn undo_records(&self, query: UndoQuery) -> Result<UndoRecords, Error> {
        let Reply::UndoRecords(records) = self.ask(Request::UndoRecords(query)).await? else {
            return Err(unexpected("undo_records"));
        };
        Ok(records)
    }

    /// Returns the audit records of one of this user's calls: of the one whose id has a prefix, or of
    /// the newest.
    ///
    /// # Errors
    /// `not_found` if this user made no such call, `invalid_request` if several calls have the prefix.
    pub async fn records(&self, prefix: Option<CallId>) -> Result<CallRecords, Error> {
        let query = RecordQuery { prefix };
        let Reply::Records(records) = self.ask(Request::Records(query)).await? else {
            return Err(unexpected("records"));
        };
        Ok(records)
    }

    /// Subscribes to the calls of one of this user's sessions, whoever makes them: their output
    /// while it arrives, decisions and results. A second subscription replaces the first.
    ///
    /// # Errors
    /// `not_found` if there is no such session, or it belongs to another user.
    pub async fn subscribe(&self, session: &SessionId) -> Result<(), Error> {
        let subscribe = Subscribe { session: Some(session.clone()) };
        let Reply::Done = self.ask(Request::Subscribe(subscribe)).await? else {
            return Err(unexpected("subscribe"));
        };
        Ok(())
    }

    /// Returns the next event of a subscription; `None` once the connection has ended. Events that
    /// are not read in time are dropped and counted ([`OperatorEvent::Lost`]).
    pub async fn heard(&self) -> Option<OperatorEvent> {
        self.inner.news.lock().await.next().await
    }

    /// Ends the connection for all clones and waits until the daemon has closed its side. For an
    /// embedded daemon, waits until it has ended. Dropping the last clone does the same without
    /// waiting.
    ///
    /// # Errors
    /// [`Error::DaemonStuck`] if an embedded daemon had to be killed.
    pub async fn shutdown(&self) -> Result<(), Error> {
        match &self.inner.daemon {
            Some(daemon) => daemon.end(&self.inner.link).await,
            None => {
                self.inner.link.finish().await;
                Ok(())
            }
        }
    }

    pub(crate) async fn ask(&self, request: Request) -> Result<Reply, Error> {
        self.inner.link.ask(request).await
    }

    pub(crate) fn link(&self) -> Arc<Link> {
        Arc::clone(&self.inner.link)
    }
}

/// Sends the greeting and checks the daemon's version in its reply.
pub(crate) async fn greet(link: &Link, hello: Hello) -> Result<Welcome, Error> {
    let Reply::Welcome(welcome) = link.ask(Request::Hello(hello)).await? else {
        return Err(unexpected("hello"));
    };
    if welcome.version != VERSION {
        let told = format!("it speaks version {}, this client speaks {VERSION}", welcome.version);
        return Err(Error::Protocol(told));
    }
    Ok(welcome)
}

pub(crate) fn hello() -> Hello {
    Hello {
        version: VERSION,
        client: format!("palisade-client {}", env!("CARGO_PKG_VERSION")),
        capabilities: Vec::new(),
    }
}

pub(crate) fn unexpected(request: &str) -> Error {
    Error::Protocol(format!("an answer that does not belong to {request:?}"))
}
