//! A server whose tools are offered beside the daemon's: the same relay as for `palisade mcp wrap`,
//! with requests from this process instead of an agent's.

use super::{
    MAX_QUEUED, WrapError, accept_command,
    agent::{AgentRequest, AgentWriter},
    life::ServerSetup,
    message::RpcError,
    own_directory,
    pin::PinFile,
    relay::{Relay, RelayOptions},
    state_directory,
};
use crate::{activity::Activity, served_call::ServedCall, servers::ServerTable};
use palisade_options::{Connection, ServerName, SessionTerms};
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// A server in a session of its own, started at the first request to it.
#[derive(Debug)]
pub(crate) struct InnerServer {
    agent: Arc<AgentWriter>,
    next: AtomicU64,
    /// The tools that are offered; `None` for all.
    only: Option<Vec<String>>,
    /// True once the server has answered `initialize`.
    is_introduced: tokio::sync::Mutex<bool>,
    relay: Mutex<Option<(mpsc::Sender<AgentRequest>, JoinHandle<()>)>>,
}

/// A request that waits for its answer. Dropping it cancels the request.
struct WaitingRequest<'a> {
    agent: &'a AgentWriter,
    id: u64,
    cancelled: CancellationToken,
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.agent.forget(self.id);
        self.cancelled.cancel();
    }
}

impl InnerServer {
    /// Prepares a server. Its relay runs until [`Self::close`].
    pub(crate) fn start(
        name: &ServerName,
        table: ServerTable,
        connection: &Connection,
        max_output: usize,
    ) -> Result<Self, WrapError> {
        let state = state_directory(name.as_str())?;
        let mut words = vec!["--name".to_owned(), name.as_str().to_owned()];
        words.extend(["--profile".to_owned(), table.profile.clone()]);
        let workspace = match table.workspace {
            Some(path) => {
                words.extend(["--workspace".to_owned(), path.display().to_string()]);
                path
            }
            None => own_directory(&state)?,
        };
        let command: Vec<String> = [table.command].into_iter().chain(table.args).collect();
        words.extend(["--".to_owned()].into_iter().chain(command.iter().cloned()));
        let terms = SessionTerms {
            connection: connection.clone(),
            profile: Some(table.profile),
            workspace,
            ask: None,
            guard: None,
            allow_domain: Vec::new(),
        };
        let setup = ServerSetup {
            name: name.as_str().to_owned(),
            open: terms.open()?,
            profile: terms.profile,
            connection: terms.connection,
            command,
            environment: table.env,
            timeout: Duration::from_secs(table.timeout.max(1)),
        };
        let agent = Arc::new(AgentWriter::inner());
        let options =
            RelayOptions { max_output, accept_command: accept_command(words.into_iter()) };
        let pin = PinFile::new(state.join("tools.json"));
        let mut relay = Relay::new(setup, pin, Arc::clone(&agent), options);
        let (queue, requests) = mpsc::channel(MAX_QUEUED);
        let task = tokio::spawn(async move {
            relay.serve(requests).await;
            relay.close().await;
        });
        Ok(Self {
            agent,
            next: AtomicU64::new(1),
            only: table.tools,
            is_introduced: tokio::sync::Mutex::new(false),
            relay: Mutex::new(Some((queue, task))),
        })
    }

    /// Returns the tools of the server that are accepted and offered.
    pub(crate) async fn tools(&self) -> Result<Vec<Value>, String> {
        self.introduce(ServedCall::none()).await?;
        let mut list = self.request("tools/list", Map::new(), ServedCall::none()).await?;
        let Some(Value::Array(mut tools)) = list.get_mut("tools").map(Value::take) else {
            return Err("its list of tools is not a list".to_owned());
        };
        tools.retain(|tool| self.offers(tool.get("name").and_then(Value::as_str)));
        Ok(tools)
    }

    /// Calls a tool and returns its result, which is bounded.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        served: ServedCall,
    ) -> Result<Value, String> {
        if !self.offers(Some(tool)) {
            return Err(format!("{tool} is not among the tools that are offered"));
        }
        self.introduce(served.until_started()).await?;
        let params = Map::from_iter([
            ("name".to_owned(), json!(tool)),
            ("arguments".to_owned(), Value::Object(arguments)),
        ]);
        self.request("tools/call", params, served).await
    }

    /// Ends the server, and waits until its processes are gone.
    pub(crate) async fn close(&self) {
        let relay = self.relay.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((queue, task)) = relay {
            drop(queue);
            if let Err(error) = task.await {
                eprintln!("warning: {error}");
            }
        }
    }

    fn offers(&self, name: Option<&str>) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|tool| Some(tool.as_str()) == name))
    }

    /// Makes the server known to this program, once.
    async fn introduce(&self, served: ServedCall) -> Result<(), String> {
        let told = served.told.clone();
        // Another call may be starting it.
        told.send_replace(Activity::StartingServer);
        let mut is_introduced = self.is_introduced.lock().await;
        if !*is_introduced {
            let client = json!({"name": "palisade", "version": env!("CARGO_PKG_VERSION")});
            let params = Map::from_iter([
                ("protocolVersion".to_owned(), json!("2025-11-25")),
                ("clientInfo".to_owned(), client),
            ]);
            self.request("initialize", params, served).await?;
            *is_introduced = true;
        }
        told.send_replace(Activity::Running);
        Ok(())
    }

    async fn request(
        &self,
        method: &str,
        params: Map<String, Value>,
        served: ServedCall,
    ) -> Result<Value, String> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let answer = self.agent.expect(id, &served.told);
        let cancelled = CancellationToken::new();
        let waiting = WaitingRequest { agent: &self.agent, id, cancelled: cancelled.clone() };
        let (id, method) = (json!(id), method.to_owned());
        let request = AgentRequest { id, method, params, cancelled, served };
        let queue = {
            let relay = self.relay.lock().unwrap_or_else(PoisonError::into_inner);
            relay.as_ref().map(|(queue, _)| queue.clone())
        };
        let ended = || "the server was ended".to_owned();
        let queue = queue.ok_or_else(ended)?;
        if queue.try_send(request).is_err() {
            return Err(format!("{MAX_QUEUED} requests already wait for it"));
        }
        drop(queue);
        let answer = answer.await;
        drop(waiting);
        answer.map_err(|_| ended())?.map_err(|RpcError { message, .. }| message)
    }
}
