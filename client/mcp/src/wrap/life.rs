//! One life of a server: a session, a job in it, and the requests to it. Everything ends with the
//! session.

mod commit;

pub(super) use commit::CommitOutcome;

use super::{
    agent::{AgentRequest, AgentWriter},
    input::{self, Outgoing, explain_result},
    message::{RpcError, RpcMessage, progress_message},
    output::{OutputReader, STDERR, ServerEvent},
    tool_list::{ToolList, ToolListError},
};
use crate::{
    activity::{self, Activity},
    explain::explain,
    tool_name,
};
use palisade_client::{Call, Error, JobStatus, Open, Route, Session, arguments::ServerTools};
use palisade_options::{Connection, connect};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until, timeout_at},
};

/// Starts the server with its standard error in a file: a job has one stream of output, and that is
/// for messages.
const START: &str = "exec \"$@\" 2>>\"$0\"";

/// The number of messages that may wait between the tasks of a life.
const QUEUE: usize = 16;

/// The maximum number of pages of a list of tools.
const MAX_PAGES: usize = 32;

/// The server to start, and the session to start it in.
#[derive(Debug)]
pub(super) struct ServerSetup {
    pub(super) name: String,
    pub(super) connection: Connection,
    pub(super) open: Open,
    /// The name of the session's profile.
    pub(super) profile: Option<String>,
    pub(super) command: Vec<String>,
    /// Variables of the server's environment, beside the profile's.
    pub(super) environment: BTreeMap<String, String>,
    /// The time that a request may take.
    pub(super) timeout: Duration,
}

/// The request of an agent that a request to the server is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Requester<'a> {
    pub(super) agent: &'a AgentWriter,
    pub(super) request: &'a AgentRequest,
}

/// The reason there is no server.
#[derive(Debug, thiserror::Error)]
pub(super) enum LifeError {
    #[error("MCP server {name} was not started: {why}")]
    NotStarted { name: String, why: String },
    #[error("MCP server {name} did not answer {method}: {why}")]
    NoAnswer { name: String, method: &'static str, why: String },
    #[error("the list of tools of MCP server {name} is refused: {source}")]
    Tools { name: String, source: ToolListError },
}

/// The reason a request has no answer.
#[derive(Debug)]
pub(super) enum RequestError {
    /// The server's own error.
    Answered(RpcError),
    /// The message to the server was denied. The server runs on.
    Denied(String),
    /// The agent wants no answer any more.
    Cancelled,
    TimedOut,
    Ended(String),
}

impl RequestError {
    fn describe(&self, timeout: Duration) -> String {
        match self {
            Self::Answered(error) => format!("it answered with an error: {}", error.message),
            Self::Denied(why) | Self::Ended(why) => why.clone(),
            Self::Cancelled => "the request was cancelled".to_owned(),
            Self::TimedOut => format!("there was no answer within {timeout:?}"),
        }
    }
}

/// A running server.
#[derive(Debug)]
pub(super) struct ServerLife {
    name: String,
    session: Session,
    job: u64,
    route: Option<Route>,
    events: mpsc::Receiver<ServerEvent>,
    writer: mpsc::Sender<Outgoing>,
    timeout: Duration,
    requests: u64,
    /// True if the server said that its tools have changed.
    pub(super) has_new_tools: bool,
    /// Hears what this relay's own requests are doing.
    told: watch::Sender<Activity>,
    /// The tasks that read and write; they end with this value.
    _tasks: JoinSet<()>,
}

impl ServerLife {
    /// Opens a session and starts the server in it. Tells whether that waits for approval.
    pub(super) async fn start(
        setup: &ServerSetup,
        told: watch::Sender<Activity>,
    ) -> Result<Self, LifeError> {
        let name = setup.name.clone();
        let not_started = |why| LifeError::NotStarted { name: name.clone(), why };
        let failed = |error: Error| not_started(explain(&error));
        let (client, daemon) = connect::connect_for(&setup.connection, setup.profile.as_deref())
            .await
            .map_err(failed)?;
        daemon.notice().iter().for_each(|notice| eprintln!("note: {notice}"));
        let session = client.open(setup.open.clone()).await.map_err(failed)?;
        let words = ["sh", "-c", START, STDERR].map(str::to_owned);
        let started = session
            .exec(words.into_iter().chain(setup.command.iter().cloned()))
            .background()
            .typing()
            .description(format!("MCP server {name}"))
            .reason(format!("MCP server {name}: start"));
        let started = setup
            .environment
            .iter()
            .fold(started, |started, (variable, value)| started.env(variable, value));
        let result = activity::make(started, &told).await.map_err(failed)?;
        let job = match JobStatus::of(&result) {
            Some(status) if result.success => status.job,
            Some(_) | None => return Err(not_started(explain_result(&result))),
        };
        let (sender, events) = mpsc::channel(QUEUE);
        let (writer, outgoing) = mpsc::channel(QUEUE);
        let reader = OutputReader {
            name: name.clone(),
            session: session.clone(),
            job,
            events: sender.clone(),
            writer: writer.clone(),
            reported: BTreeSet::new(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(reader.run());
        tasks.spawn(input::write(session.clone(), job, outgoing, sender));
        let (route, timeout) = (result.route, setup.timeout);
        let (requests, has_new_tools) = (0, false);
        Ok(Self {
            name,
            session,
            job,
            route,
            events,
            writer,
            timeout,
            requests,
            has_new_tools,
            told,
            _tasks: tasks,
        })
    }

    /// Makes the server known to this client, as far as the agent's own message says. Returns the
    /// server's answer.
    pub(super) async fn initialize(
        &mut self,
        params: &Map<String, Value>,
    ) -> Result<Value, LifeError> {
        let mut params = params.clone();
        // No request of the server is passed on, so it is offered nothing.
        params.insert("capabilities".to_owned(), json!({}));
        params.remove("_meta");
        let answer = self.ask("initialize", params).await?;
        let initialized = self.notification("notifications/initialized", Map::new());
        self.send(initialized, Instant::now() + self.timeout)
            .await
            .map_err(|error| self.no_answer("initialize", &error))?;
        Ok(answer)
    }

    /// Reads the server's tools, all pages of them.
    pub(super) async fn tools(&mut self, instructions: &str) -> Result<ToolList, LifeError> {
        // Whatever is announced from here on is another change.
        self.has_new_tools = false;
        let (mut tools, mut params) = (Vec::new(), Map::new());
        for _ in 0..MAX_PAGES {
            let mut answer = self.ask("tools/list", params).await?;
            if let Some(Value::Array(page)) = answer.get_mut("tools").map(Value::take) {
                tools.extend(page);
            }
            match answer.get_mut("nextCursor").map(Value::take) {
                Some(cursor @ Value::String(_)) => {
                    params = Map::from_iter([("cursor".to_owned(), cursor)])
                }
                Some(_) | None => {
                    return ToolList::new(tools, instructions)
                        .map_err(|source| LifeError::Tools { name: self.name.clone(), source });
                }
            }
        }
        let why = format!("its list of tools has more than {MAX_PAGES} pages");
        Err(LifeError::NoAnswer { name: self.name.clone(), method: "tools/list", why })
    }

    /// Returns the list of a server without tools.
    pub(super) fn no_tools(&self, instructions: &str) -> Result<ToolList, LifeError> {
        ToolList::new(Vec::new(), instructions)
            .map_err(|source| LifeError::Tools { name: self.name.clone(), source })
    }

    /// Makes a request of this relay's own.
    async fn ask(
        &mut self,
        method: &'static str,
        params: Map<String, Value>,
    ) -> Result<Value, LifeError> {
        let answer = self.request(method, params, method, None).await;
        answer.map_err(|error| self.no_answer(method, &error))
    }

    fn no_answer(&self, method: &'static str, error: &RequestError) -> LifeError {
        LifeError::NoAnswer { name: self.name.clone(), method, why: error.describe(self.timeout) }
    }

    /// Sends a request and waits for its answer. Its progress is told to the agent, if the request has
    /// a progress token. The time that approvers take is not the server's.
    pub(super) async fn request(
        &mut self,
        method: &str,
        params: Map<String, Value>,
        what: &str,
        requester: Option<Requester<'_>>,
    ) -> Result<Value, RequestError> {
        let mut deadline = Instant::now() + self.timeout;
        let told = match requester {
            Some(Requester { request, .. }) => request.served.told.clone(),
            None => self.told.clone(),
        };
        let mut activity = told.subscribe();
        let cancelled = async {
            match requester {
                Some(Requester { request, .. }) => request.cancelled.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(cancelled);
        self.requests += 1;
        let number = self.requests;
        let token = params.get("_meta").and_then(|meta| meta.get("progressToken")).cloned();
        let tool = match (method, params.get("name").and_then(Value::as_str)) {
            ("tools/call", Some(tool)) => Some(tool_name::of_tool(&self.name, tool)),
            _ => None,
        };
        let id = json!(number);
        let line =
            RpcMessage::Request { id: id.clone(), method: method.to_owned(), params }.to_line();
        let reason = self.reason(what);
        self.send(Outgoing { request: Some(number), tool, line, reason, told }, deadline).await?;
        loop {
            let is_waiting = *activity.borrow() == Activity::WaitingForApproval;
            let event = tokio::select! {
                biased;
                () = &mut cancelled => {
                    let params = Map::from_iter([("requestId".to_owned(), id)]);
                    self.send(self.notification("notifications/cancelled", params), deadline).await?;
                    return Err(RequestError::Cancelled);
                }
                () = sleep_until(deadline), if !is_waiting => return Err(RequestError::TimedOut),
                Ok(()) = activity.changed() => {
                    deadline = Instant::now() + self.timeout;
                    continue;
                }
                event = self.events.recv() => event,
            };
            match event {
                Some(ServerEvent::Answer { id: answered, outcome }) if answered == id => {
                    return outcome.map_err(RequestError::Answered);
                }
                Some(ServerEvent::Progress(progress)) => {
                    if let (Some(Requester { agent, .. }), Some(token)) = (requester, &token)
                        && let Some(message) = progress_message(&progress, token)
                    {
                        agent.send(&message).await;
                    }
                }
                Some(ServerEvent::Denied { request: Some(denied), why }) if denied == number => {
                    return Err(RequestError::Denied(why));
                }
                Some(event) => self.note(event)?,
                None => return Err(RequestError::Ended("its session has ended".to_owned())),
            }
        }
    }

    /// Waits for something that the server does while no request is made of it. Returns why it ended.
    pub(super) async fn idle(&mut self) -> String {
        loop {
            match self.events.recv().await {
                Some(event) => {
                    if let Err(error) = self.note(event) {
                        return error.describe(self.timeout);
                    }
                }
                None => return "its session has ended".to_owned(),
            }
        }
    }

    /// Takes note of an event that answers no request.
    fn note(&mut self, event: ServerEvent) -> Result<(), RequestError> {
        match event {
            ServerEvent::ToolsChanged => self.has_new_tools = true,
            ServerEvent::Ended(why) => return Err(RequestError::Ended(why)),
            ServerEvent::Denied { why, .. } => {
                eprintln!("warning: MCP server {}: a message to it was denied: {why}", self.name);
            }
            // Answers to requests that were cancelled, or never made; progress of no request.
            ServerEvent::Answer { .. } | ServerEvent::Progress(_) => {}
        }
        Ok(())
    }

    /// Returns the reason that approvers and the audit log are told.
    fn reason(&self, what: &str) -> String {
        format!("MCP server {}: {what}", self.name)
    }

    fn notification(&self, method: &str, params: Map<String, Value>) -> Outgoing {
        let line = RpcMessage::Notification { method: method.to_owned(), params }.to_line();
        let (reason, told) = (self.reason(method), watch::Sender::new(Activity::Running));
        Outgoing { request: None, tool: None, line, reason, told }
    }

    async fn send(&mut self, outgoing: Outgoing, deadline: Instant) -> Result<(), RequestError> {
        match timeout_at(deadline, self.writer.send(outgoing)).await {
            Ok(Ok(())) => Ok(()),
            // The reason has been said, or is about to be.
            Ok(Err(_)) => match timeout_at(deadline, self.idle()).await {
                Ok(why) => Err(RequestError::Ended(why)),
                Err(_) => Err(RequestError::TimedOut),
            },
            Err(_) => Err(RequestError::TimedOut),
        }
    }

    /// Returns the call of the daemon that asks for approval of the server's list of tools.
    pub(super) fn call_about_list(&self, tools: ServerTools) -> Call<ServerTools> {
        let reason = self.reason("other tools than were accepted");
        self.session.call(tool_name::of_list(&self.name), tools).reason(reason)
    }

    /// Ends the session with everything in it. What was not committed is discarded.
    pub(super) async fn end(self) {
        // If the connection is gone, the session has ended with it.
        drop(self.session.close().await);
        if let Err(error) = self.session.client().shutdown().await {
            eprintln!("warning: {error}");
        }
    }
}
