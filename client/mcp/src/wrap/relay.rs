//! The relay between an agent and a server: one request at a time, each checked on its way there and
//! its answer on its way back.

use super::{
    WrapError,
    agent::{AgentRequest, AgentWriter},
    approval::ToolsApproval,
    backoff::Backoff,
    label::ServerLabel,
    life::{CommitOutcome, LifeError, RequestError, Requester, ServerSetup},
    message::{RpcError, printable},
    output::ended_because,
    pin::{Comparison, PinFile},
    result::{add_note, bound_answer, bound_result, failure, passed_parts},
    started::StartedServer,
    tool_list::ToolList,
};
use crate::activity::Activity;
use serde_json::{Map, Value, json};
use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

/// The choices of the user who starts the relay.
#[derive(Debug)]
pub(super) struct RelayOptions {
    /// The maximum length of a result's text, in characters.
    pub(super) max_output: usize,
    /// The command with which a person accepts the server's tools.
    pub(super) accept_command: String,
}

/// The relay.
#[derive(Debug)]
pub(super) struct Relay {
    setup: ServerSetup,
    pin: PinFile,
    agent: Arc<AgentWriter>,
    options: RelayOptions,
    /// The parameters of the agent's `initialize`, which each new server gets.
    introduction: Option<Map<String, Value>>,
    server: Option<StartedServer>,
    backoff: Backoff,
    approval: ToolsApproval,
}

/// The readiness to wait until an approver has answered about changed tools.
#[derive(Debug, Clone, Copy)]
enum Patience<'a> {
    None,
    UntilCancelled(&'a AgentRequest),
}

/// The answer to a request; `None` if the agent wants none.
type RelayedAnswer = Option<Result<Value, RpcError>>;

impl Relay {
    pub(super) fn new(
        setup: ServerSetup,
        pin: PinFile,
        agent: Arc<AgentWriter>,
        options: RelayOptions,
    ) -> Self {
        let (introduction, server, backoff) = (None, None, Backoff::default());
        let approval = ToolsApproval::default();
        Self { setup, pin, agent, options, introduction, server, backoff, approval }
    }

    /// Serves requests until there are no more.
    pub(super) async fn serve(&mut self, mut requests: mpsc::Receiver<AgentRequest>) {
        loop {
            let idle = async {
                match &mut self.server {
                    Some(server) => server.life.idle().await,
                    None => std::future::pending().await,
                }
            };
            let request = tokio::select! {
                biased;
                why = idle => {
                    self.lose(&why).await;
                    continue;
                }
                request = requests.recv() => request,
            };
            let Some(request) = request else { return };
            if request.cancelled.is_cancelled() {
                continue;
            }
            self.agent.take(&request.id);
            if let Some(outcome) = self.answer(&request).await {
                self.agent.answer(request.id, outcome).await;
            }
        }
    }

    /// Shows what changed in the server's tools, and accepts them; at a terminal, if the person there
    /// says so.
    pub(super) async fn accept_tools(&mut self) -> Result<(), WrapError> {
        let client = json!({"name": "palisade", "version": env!("CARGO_PKG_VERSION")});
        self.introduction = Some(Map::from_iter([
            ("protocolVersion".to_owned(), json!("2025-11-25")),
            ("clientInfo".to_owned(), client),
        ]));
        let unheard = watch::Sender::new(Activity::Running);
        let server =
            self.start(&unheard).await.map_err(|error| WrapError::Server(error.to_string()))?;
        let server = self.server.insert(server);
        let before = self.pin.read()?;
        let (name, path) = (&self.setup.name, self.pin.path().display());
        let changes = match &before {
            None => vec![format!("no tools were accepted before in {path}")],
            Some(before) => server.list.changes_since(before),
        };
        if changes.is_empty() {
            println!("MCP server {name}: its tools are those that were accepted in {path}");
            return Ok(());
        }
        println!("MCP server {name}: {}", changes.join("; "));
        for text in server.list.new_texts(before.as_ref()) {
            println!("\n{text}");
        }
        if io::stdin().is_terminal() && !confirm() {
            println!("Not accepted.");
            return Ok(());
        }
        self.pin.accept(&server.list)?;
        println!("\nAccepted: {}  {path}", server.list.digest());
        Ok(())
    }

    /// Ends the server.
    pub(super) async fn close(&mut self) {
        self.approval.abandon();
        if let Some(server) = self.server.take() {
            server.life.end().await;
        }
    }

    async fn answer(&mut self, request: &AgentRequest) -> RelayedAnswer {
        let AgentRequest { method, params, .. } = request;
        let parts = passed_parts(method);
        match method.as_str() {
            "initialize" => Some(self.welcome(params, &request.served.told).await),
            "tools/list" | "tools/call" if self.introduction.is_none() => Some(too_early(method)),
            "tools/list" => Some(self.list(&request.served.told).await),
            "tools/call" => self.call(request).await,
            _ => match parts {
                Some(_) if self.introduction.is_none() => Some(too_early(method)),
                Some(parts) => self.pass(request, parts).await,
                None => {
                    let why = format!("{} is not passed on to the server", printable(method, 100));
                    Some(Err(RpcError::new(RpcError::UNKNOWN_METHOD, why)))
                }
            },
        }
    }

    /// Answers `initialize` with what the server says, except for what this relay does not pass on.
    async fn welcome(
        &mut self,
        params: &Map<String, Value>,
        told: &watch::Sender<Activity>,
    ) -> Result<Value, RpcError> {
        if self.introduction.is_some() {
            let why = "initialize was answered already";
            return Err(RpcError::new(RpcError::INVALID_REQUEST, why));
        }
        self.introduction = Some(params.clone());
        if let Err(error) = self.ready(told).await {
            // The agent may try again.
            self.introduction = None;
            return Err(error);
        }
        let refusal = self.refusal(Patience::None).await;
        let Some(server) = &self.server else { return Err(self.gone()) };
        if let Some(why) = refusal {
            eprintln!("warning: {why}");
            return Ok(server.welcome(&ServerLabel::own(&self.setup.name), params));
        }
        let mut welcome = server.welcome(&server.label(), params);
        let instructions = server.list.instructions();
        if !instructions.is_empty() {
            welcome["instructions"] = json!(instructions);
        }
        Ok(welcome)
    }

    /// Answers `tools/list` with the tools that the server has now, if they are accepted.
    async fn list(&mut self, told: &watch::Sender<Activity>) -> Result<Value, RpcError> {
        self.ready(told).await?;
        if let Some(server) = &mut self.server {
            server.life.has_new_tools = true;
        }
        self.refresh().await?;
        if let Some(why) = self.refusal(Patience::None).await {
            return Err(RpcError::of_server(why));
        }
        let server = self.server.as_ref().ok_or_else(|| self.gone())?;
        Ok(json!({"tools": server.list.shown()}))
    }

    /// Answers `tools/call`: checks that the tools are accepted, calls one, and commits what the server
    /// changed.
    async fn call(&mut self, request: &AgentRequest) -> RelayedAnswer {
        let name = request.params.get("name").and_then(Value::as_str).unwrap_or_default();
        if let Err(error) = self.prepare(request).await {
            return Some(Ok(failure(&error.message)));
        }
        let Some(server) = &mut self.server else { return Some(Err(self.gone())) };
        if !server.list.contains(name) {
            let why = format!(
                "there is no tool {:?}; the tools are {}",
                printable(name, 100),
                server.list.names().join(", ")
            );
            return Some(Err(RpcError::new(RpcError::INVALID_PARAMS, why)));
        }
        let mut params = Map::from_iter([("name".to_owned(), json!(name))]);
        if let Some(arguments) = request.params.get("arguments") {
            params.insert("arguments".to_owned(), arguments.clone());
        }
        add_progress_token(&mut params, &request.params);
        let what = format!("tools/call {name}");
        let agent = Arc::clone(&self.agent);
        let requester = Requester { agent: &agent, request };
        let answered = server.life.request("tools/call", params, &what, Some(requester)).await;
        let (most, served) = (self.options.max_output, &request.served);
        let answer = match answered {
            Ok(result) => Ok(bound_result(result, most, &served.remainder)),
            Err(RequestError::Answered(error)) => Err(error),
            Err(error) => return self.fail(error, &what).await.map(|why| Ok(failure(&why))),
        };
        match server.life.commit(&what, &served.told).await {
            CommitOutcome::Nothing => {
                self.backoff.succeeded();
                Some(answer)
            }
            CommitOutcome::Committed(note) => {
                self.backoff.succeeded();
                Some(answer.map(|mut result| {
                    add_note(&mut result, &note);
                    result
                }))
            }
            CommitOutcome::Refused(why) => {
                let name = self.setup.name.clone();
                self.lose(&format!("what it changed in {what} was not committed: {why}")).await;
                Some(Ok(failure(&format!(
                    "What MCP server {name} changed in the workspace was discarded, and the server \
                     was ended: {why}. It restarts at the next call."
                ))))
            }
        }
    }

    /// Passes another request on.
    async fn pass(&mut self, request: &AgentRequest, parts: &[&str]) -> RelayedAnswer {
        if let Err(error) = self.prepare(request).await {
            return Some(Err(error));
        }
        let Some(server) = &mut self.server else { return Some(Err(self.gone())) };
        let mut params = request.params.clone();
        params.remove("_meta");
        add_progress_token(&mut params, &request.params);
        let (method, agent) = (&request.method, Arc::clone(&self.agent));
        let requester = Requester { agent: &agent, request };
        let answered = server.life.request(method, params, method, Some(requester)).await;
        match answered {
            Ok(answer) => Some(bound_answer(answer, parts)),
            Err(RequestError::Answered(error)) => Some(Err(error)),
            Err(error) => self.fail(error, method).await.map(|why| Err(RpcError::of_server(why))),
        }
    }

    /// Ends a server that did not answer, and says why; `None` if the agent wants no answer.
    async fn fail(&mut self, error: RequestError, what: &str) -> Option<String> {
        let name = self.setup.name.clone();
        let why = match error {
            RequestError::Cancelled => return None,
            RequestError::Denied(why) => {
                return Some(format!("Denied: {what} was not sent to MCP server {name}: {why}"));
            }
            RequestError::TimedOut => {
                ended_because(format!("it did not answer within {:?}", self.setup.timeout))
            }
            RequestError::Ended(why) => why,
            RequestError::Answered(error) => return Some(error.message),
        };
        self.lose(&why).await;
        Some(format!(
            "MCP server {name} failed in {what}: {why}. It restarts at the next call. Whether \
             this call had an effect outside of the sandbox is unknown."
        ))
    }

    /// Gives up a server that failed.
    async fn lose(&mut self, why: &str) {
        eprintln!("warning: MCP server {}: {why}", self.setup.name);
        self.backoff.failed(Instant::now());
        // The next one of them starts it anew.
        self.agent.tell_queued(Activity::StartingServer);
        self.close().await;
    }

    /// Makes sure that a server runs, and that its tools are accepted.
    async fn prepare(&mut self, request: &AgentRequest) -> Result<(), RpcError> {
        self.ready(&request.served.told).await?;
        self.refresh().await?;
        self.refusal(Patience::UntilCancelled(request))
            .await
            .map_or(Ok(()), |why| Err(RpcError::of_server(why)))
    }

    /// Starts the server if none runs, and tells so.
    async fn ready(&mut self, told: &watch::Sender<Activity>) -> Result<(), RpcError> {
        if self.server.is_some() {
            return Ok(());
        }
        told.send_replace(Activity::StartingServer);
        if let Some(time) = self.backoff.not_before() {
            sleep_until(time).await;
        }
        let started = self.start(told).await;
        told.send_replace(Activity::Running);
        match started {
            Ok(server) => {
                self.server = Some(server);
                self.agent.tell_queued(Activity::Running);
                Ok(())
            }
            Err(error) => {
                self.backoff.failed(Instant::now());
                Err(RpcError::of_server(error.to_string()))
            }
        }
    }

    /// Starts the server. Tells when that waits for approval, and when it goes on.
    async fn start(&self, told: &watch::Sender<Activity>) -> Result<StartedServer, LifeError> {
        let nothing = Map::new();
        let introduction = self.introduction.as_ref().unwrap_or(&nothing);
        let (steps, mut step) = watch::channel(Activity::StartingServer);
        let starting = StartedServer::start(&self.setup, introduction, steps);
        tokio::pin!(starting);
        loop {
            tokio::select! {
                started = &mut starting => return started,
                Ok(()) = step.changed() => {
                    told.send_replace(match *step.borrow() {
                        Activity::Running | Activity::StartingServer => Activity::StartingServer,
                        Activity::WaitingForApproval => Activity::WaitingForApproval,
                    });
                }
            }
        }
    }

    /// Reads the tools of the server again if it said that they have changed.
    async fn refresh(&mut self) -> Result<(), RpcError> {
        let Some(server) = &mut self.server else { return Err(self.gone()) };
        let Err(error) = server.refresh().await else { return Ok(()) };
        let why = error.to_string();
        self.lose(&why).await;
        Err(RpcError::of_server(why))
    }

    /// Says why the server's tools are refused; `None` if they are accepted.
    async fn refusal(&mut self, patience: Patience<'_>) -> Option<String> {
        match self.unaccepted(patience).await {
            Ok(changes) if changes.is_empty() => None,
            Ok(changes) => Some(format!(
                "The tools of MCP server {} are not those that were accepted, so every call is \
                 refused: {}. {}A person who trusts the new ones can accept them with: {}",
                self.setup.name,
                changes.join("; "),
                self.approval.said(),
                self.options.accept_command
            )),
            Err(why) => Some(why),
        }
    }

    /// Returns the changes of the server's tools that nobody has accepted. An approver is asked about
    /// them.
    async fn unaccepted(&mut self, patience: Patience<'_>) -> Result<Vec<String>, String> {
        let approved = self.approval.approved();
        self.accept(approved)?;
        let changes = self.changes()?;
        let Some(server) = self.server.as_mut().filter(|_| !changes.is_empty()) else {
            return Ok(changes);
        };
        if let Some(accepted) = self.pin.read().map_err(|error| error.to_string())? {
            self.approval.ask(&server.life, &server.list, &accepted, &changes);
        }
        let Patience::UntilCancelled(request) = patience else { return Ok(changes) };
        if self.approval.is_under_way() {
            request.served.told.send_replace(Activity::WaitingForApproval);
        }
        let approved = tokio::select! {
            biased;
            () = request.cancelled.cancelled() => None,
            why = server.life.idle() => {
                self.lose(&why).await;
                return Err(format!("MCP server {} failed: {why}", self.setup.name));
            }
            approved = self.approval.wait() => approved,
        };
        request.served.told.send_replace(Activity::Running);
        self.accept(approved)?;
        // It may have changed its tools again.
        self.refresh().await.map_err(|error| error.message)?;
        self.changes()
    }

    /// Records a list that an approver has approved.
    fn accept(&self, approved: Option<ToolList>) -> Result<(), String> {
        let Some(list) = approved else { return Ok(()) };
        eprintln!("note: MCP server {}: an approver accepted its tools", self.setup.name);
        self.pin.accept(&list).map_err(|error| error.to_string())
    }

    /// Compares the server's tools with the accepted ones; the first ones are accepted. The file is
    /// read each time: the tools may be accepted at any time.
    fn changes(&self) -> Result<Vec<String>, String> {
        let Some(server) = &self.server else { return Ok(Vec::new()) };
        match self.pin.compare(&server.list) {
            Ok(Comparison::Same) => Ok(Vec::new()),
            Ok(Comparison::First) => {
                let (count, path) = (server.list.names().len(), self.pin.path().display());
                let name = &self.setup.name;
                eprintln!("note: MCP server {name}: its tools ({count}) were recorded in {path}");
                Ok(Vec::new())
            }
            Ok(Comparison::Changed(changes)) => Ok(changes),
            Err(error) => Err(error.to_string()),
        }
    }

    fn gone(&self) -> RpcError {
        RpcError::of_server(format!("MCP server {} does not run", self.setup.name))
    }
}

fn too_early(method: &str) -> Result<Value, RpcError> {
    Err(RpcError::new(RpcError::INVALID_REQUEST, format!("{method} came before initialize")))
}

/// Asks the person at the terminal whether to accept what was shown.
fn confirm() -> bool {
    println!("\nAccept? [y/N]");
    let mut line = String::new();
    io::stdin().read_line(&mut line).is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}

/// Adds the agent's progress token, and nothing else that is beside the parameters.
fn add_progress_token(params: &mut Map<String, Value>, sent: &Map<String, Value>) {
    if let Some(token) = sent.get("_meta").and_then(|meta| meta.get("progressToken")) {
        params.insert("_meta".to_owned(), json!({"progressToken": token}));
    }
}
