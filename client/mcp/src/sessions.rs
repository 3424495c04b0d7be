//! The session that calls are made in. It is opened at the first call, and again with the same
//! options when the daemon or its cell is gone.

use crate::elicit;
use palisade_client::{
    Call, CallId, CallResult, Claim, Client, Error, ErrorCode, Open, OutputPage, Running, Session,
    SessionId, ToolSpec,
};
use palisade_options::{
    Connection, SessionTerms, WorkspaceError,
    connect::{self, DaemonChoice},
};
use rmcp::{RoleServer, service::Peer};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::{sync::Mutex, task::JoinSet, time::timeout};

/// The time that a running daemon may take to list its tools before the built-in ones are listed.
const LISTING: Duration = Duration::from_secs(2);

/// The relation of a call's session to that of the call before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Continuity {
    Same,
    /// The earlier session is gone, and with it its directory, `/tmp` and jobs.
    Renewed,
}

/// A call that was sent to the daemon.
#[derive(Debug)]
pub(crate) struct StartedCall {
    pub(crate) running: Running,
    pub(crate) session: SessionId,
    pub(crate) continuity: Continuity,
}

/// The session, if it is open.
#[derive(Debug)]
pub(crate) struct Sessions {
    connection: Connection,
    /// The name of the session's profile.
    profile: Option<String>,
    open: Open,
    approval: ClientApproval,
    state: Mutex<SessionState>,
}

/// The choice to ask the agent's client for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientApproval {
    Off,
    Elicited,
}

/// A session that is open.
#[derive(Debug)]
struct OpenSession {
    session: Session,
    /// The task that asks the client for approval; it ends with this value.
    _approving: JoinSet<()>,
}

#[derive(Debug)]
struct SessionState {
    /// A connection that has no session yet.
    idle: Option<Client>,
    session: Option<OpenSession>,
    continuity: Continuity,
}

impl Sessions {
    pub(crate) fn new(
        terms: &SessionTerms,
        approval: ClientApproval,
    ) -> Result<Self, WorkspaceError> {
        Ok(Self::with(terms.connection.clone(), terms.profile.clone(), terms.open()?, approval))
    }

    /// Returns what another client uses: a session of its own, with the same terms.
    pub(crate) fn another(&self) -> Self {
        let (connection, profile) = (self.connection.clone(), self.profile.clone());
        Self::with(connection, profile, self.open.clone(), self.approval)
    }

    fn with(
        connection: Connection,
        profile: Option<String>,
        open: Open,
        approval: ClientApproval,
    ) -> Self {
        let state = SessionState { idle: None, session: None, continuity: Continuity::Same };
        Self { connection, profile, open, approval, state: Mutex::new(state) }
    }

    /// Sends a call, in a new session if there is none. Calls are sent in the order in which this is
    /// called.
    pub(crate) async fn start(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        claims: Vec<Claim>,
        peer: &Peer<RoleServer>,
    ) -> Result<StartedCall, Error> {
        let mut state = self.state.lock().await;
        let session = self.ready(&mut state, Some(peer)).await?;
        let call: Call<Value> = session.call(tool, Value::Object(arguments));
        let running = call.claims(claims).progress().start().await?;
        let continuity = std::mem::replace(&mut state.continuity, Continuity::Same);
        Ok(StartedCall { running, session: session.id().clone(), continuity })
    }

    /// Returns the session, after it was seen to be alive, or a new one.
    async fn ready(
        &self,
        state: &mut SessionState,
        peer: Option<&Peer<RoleServer>>,
    ) -> Result<Session, Error> {
        if let Some(OpenSession { session, .. }) = &state.session {
            if session.client().ping().await.is_ok() {
                return Ok(session.clone());
            }
            state.session = None;
            state.continuity = Continuity::Renewed;
        }
        let idle = match state.idle.take() {
            Some(client) if client.ping().await.is_ok() => Some(client),
            Some(_) | None => None,
        };
        let client = match idle {
            Some(client) => client,
            None => {
                let profile = self.profile.as_deref();
                let (client, daemon) = connect::connect_for(&self.connection, profile).await?;
                daemon.notice().iter().for_each(|notice| eprintln!("note: {notice}"));
                client
            }
        };
        let session = client.open(self.open.clone()).await?;
        let approving = match peer.filter(|peer| elicit::is_able(peer)) {
            Some(peer) if self.approval == ClientApproval::Elicited => {
                elicit::start(&session, peer).await
            }
            Some(_) | None => JoinSet::new(),
        };
        let opened = OpenSession { session: session.clone(), _approving: approving };
        state.session = Some(opened);
        Ok(session)
    }

    /// Gives up a session whose cell failed during a call: the next call opens another. Returns
    /// whether it was given up.
    pub(crate) async fn give_up(
        &self,
        id: &SessionId,
        outcome: &Result<CallResult, Error>,
    ) -> bool {
        let Ok(CallResult { error: Some(error), .. }) = outcome else { return false };
        if !is_loss(error.code) {
            return false;
        }
        let mut state = self.state.lock().await;
        if state.session.as_ref().is_some_and(|open| open.session.id() == id) {
            state.session = None;
            state.continuity = Continuity::Renewed;
        }
        true
    }

    /// Lists the tools of a daemon that runs already; `None` if there is none, or it does not answer.
    pub(crate) async fn running_tools(&self) -> Option<Vec<ToolSpec>> {
        timeout(LISTING, self.list()).await.ok()?
    }

    async fn list(&self) -> Option<Vec<ToolSpec>> {
        let mut state = self.state.lock().await;
        if let Some(OpenSession { session, .. }) = &state.session {
            return session.client().tools().await.ok();
        }
        if state.idle.is_none()
            && let Ok(DaemonChoice::Running(client)) = connect::find(&self.connection).await
        {
            state.idle = Some(client);
        }
        let tools = state.idle.as_ref()?.tools().await;
        if tools.is_err() {
            state.idle = None;
        }
        tools.ok()
    }

    /// Reads a page of a call's stored output.
    pub(crate) async fn output(
        &self,
        call: &CallId,
        offset: u64,
        limit: u64,
    ) -> Result<OutputPage, Error> {
        let mut state = self.state.lock().await;
        let session = self.ready(&mut state, None).await?;
        drop(state);
        session.client().output(call, offset, Some(limit)).await
    }

    /// Ends the session and waits until all its processes are gone.
    pub(crate) async fn close(&self) {
        let mut state = self.state.lock().await;
        if let Some(OpenSession { session, .. }) = state.session.take() {
            // If the connection is gone, the session has ended with it.
            drop(session.close().await);
            if let Err(error) = session.client().shutdown().await {
                eprintln!("warning: {error}");
            }
        }
    }
}

/// Returns `true` if an error means that the session is over, or not to be relied on any more.
fn is_loss(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::CellFailed | ErrorCode::LauncherGone | ErrorCode::ShuttingDown)
}
