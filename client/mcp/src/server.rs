//! The server's answers to the messages of the Model Context Protocol.

use crate::{
    call::{self, Caller, NewCall},
    catalog::{Catalog, OfferedTool, READ_OUTPUT},
    claims,
    pages::{Pages, TextPage},
    render,
    servers::Servers,
    sessions::Sessions,
    tickets::{CallKey, Tickets},
};
use hyper::http::request::Parts;
use palisade_client::CallId;
use palisade_options::McpOptions;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
        CompleteResult, ContentBlock, CustomRequest, CustomResult, ErrorCode, Implementation,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};
use serde_json::{Map, Value, json};
use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// The purpose of the tools, in a sentence by which clients find them.
const INSTRUCTIONS: &str = "Run shell commands, and read, write, edit, search and list files, in a \
                            sandbox: use these tools instead of built-in ones.";

/// The methods whose parameters were not understood if they come as custom requests.
const METHODS: [&str; 4] = ["initialize", "server/discover", "tools/call", "tools/list"];

/// The maximum number of clients over HTTP that have a session at a time.
const MAX_CLIENTS: usize = 32;

/// The header by which a client over HTTP continues its session of the protocol.
const SESSION_HEADER: &str = "mcp-session-id";

/// The state that the requests of a client share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) sessions: Sessions,
    pub(crate) servers: Arc<Servers>,
    catalog: Arc<Catalog>,
    pub(crate) tickets: Tickets,
    pub(crate) pages: Arc<Pages>,
    pub(crate) wait: Duration,
    pub(crate) max_output: usize,
    /// The address at which a person can approve calls.
    pub(crate) approve_at: Option<String>,
    /// Cancelled when the client is gone.
    pub(crate) ended: CancellationToken,
    /// The state of clients over HTTP, which ends with them.
    clients: Mutex<Vec<Weak<Shared>>>,
}

/// The server, or what one client over HTTP sees of it.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    /// The state of a client with a session of the protocol over HTTP, from its first call on.
    own: OnceLock<Arc<Shared>>,
}

impl Shared {
    pub(crate) fn new(
        options: &McpOptions,
        (sessions, servers): (Sessions, Servers),
        ended: CancellationToken,
    ) -> Self {
        Self {
            sessions,
            servers: Arc::new(servers),
            catalog: Arc::new(Catalog::new(&options.tools)),
            tickets: Tickets::default(),
            pages: Arc::default(),
            wait: options.wait,
            max_output: usize::try_from(options.max_output).unwrap_or(usize::MAX),
            approve_at: options.approve_at.clone(),
            ended,
            clients: Mutex::default(),
        }
    }

    /// Makes the state of one more client; `None` if there are too many.
    fn another(&self) -> Option<Arc<Self>> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|client| client.strong_count() > 0);
        if clients.len() >= MAX_CLIENTS {
            return None;
        }
        let another = Arc::new(Self {
            sessions: self.sessions.another(),
            servers: Arc::clone(&self.servers),
            catalog: Arc::clone(&self.catalog),
            tickets: Tickets::default(),
            pages: Arc::default(),
            wait: self.wait,
            max_output: self.max_output,
            approve_at: self.approve_at.clone(),
            ended: self.ended.clone(),
            clients: Mutex::default(),
        });
        clients.push(Arc::downgrade(&another));
        Some(another)
    }

    /// Ends all calls and sessions, and waits until their processes are gone.
    pub(crate) async fn close(&self) {
        self.tickets.clear();
        self.sessions.close().await;
        let clients =
            std::mem::take(&mut *self.clients.lock().unwrap_or_else(PoisonError::into_inner));
        for client in clients.into_iter().filter_map(|client| client.upgrade()) {
            client.tickets.clear();
            client.sessions.close().await;
        }
        self.servers.close().await;
    }
}

impl Server {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared, own: OnceLock::new() }
    }

    /// Returns the state for a request. A client with a session of the protocol has its own; clients
    /// that have none share one.
    fn state(&self, context: &RequestContext<RoleServer>) -> Result<&Arc<Shared>, ErrorData> {
        let head = context.extensions.get::<Parts>();
        if head.is_none_or(|head| !head.headers.contains_key(SESSION_HEADER)) {
            return Ok(&self.shared);
        }
        if self.own.get().is_none() {
            let own = self.shared.another().ok_or_else(|| {
                let message = format!("{MAX_CLIENTS} clients have a session; end one of them");
                ErrorData::internal_error(message, None)
            })?;
            // Another request of the same client may have been first.
            drop(self.own.set(own));
        }
        Ok(self.own.get().unwrap_or(&self.shared))
    }

    /// Reads the tools of the daemon, if it runs, and of other servers.
    async fn refresh(&self) {
        let (specs, servers) =
            tokio::join!(self.shared.sessions.running_tools(), self.shared.servers.tools());
        if let Some(specs) = specs {
            self.shared.catalog.replace(&specs);
        }
        for (server, tools) in servers {
            self.shared.catalog.replace_server(&server, &tools);
        }
    }

    /// Finds a tool; one that is not known yet may be a provider's.
    async fn find(&self, name: &str) -> Result<Arc<OfferedTool>, ErrorData> {
        if let Some(tool) = self.shared.catalog.find(name) {
            return Ok(tool);
        }
        self.refresh().await;
        self.shared.catalog.find(name).ok_or_else(|| {
            let names = self.shared.catalog.names();
            let message = format!("there is no tool {name:?}; the tools are {}", names.join(", "));
            ErrorData::invalid_params(message, Some(json!({"code": "tool_not_found"})))
        })
    }

    /// Reads what a result left out: from the daemon's output store, or from what is kept here.
    async fn page(shared: &Shared, arguments: &Map<String, Value>) -> CallToolResult {
        let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
        let Some(call) = arguments.get("call_id").and_then(Value::as_str) else {
            return invalid_call_id("it is required but missing");
        };
        let offset = number("offset").unwrap_or(0);
        // The page and the line after it have to fit into a result.
        let most = shared.max_output.saturating_sub(100);
        let limit = number("limit").and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(most).min(most);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(page) = shared.pages.read(call, start, limit) {
            return paged(offset, page);
        }
        let Ok(id) = call.parse::<CallId>() else {
            return invalid_call_id("it is not the id of a call");
        };
        match shared.sessions.output(&id, offset, limit as u64).await {
            Ok(page) => {
                let text = String::from_utf8_lossy(&page.data.0).into_owned();
                let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
                let end = start.saturating_add(page.data.0.len());
                paged(offset, TextPage { text, end, total: size(page.total) })
            }
            Err(error) => render::failure(&error),
        }
    }
}

/// Says what is wrong with the call that `read_output` is asked about.
fn invalid_call_id(why: &str) -> CallToolResult {
    let code = palisade_client::ErrorCode::InvalidArguments;
    let hint = "give the call_id that the result names";
    render::own_failure(code, &format!("`call_id`: {why}"), hint)
}

/// Renders a page of an output.
fn paged(offset: u64, page: TextPage) -> CallToolResult {
    let TextPage { text, end, total } = page;
    let rest = if end < total { format!("; offset {end} reads on") } else { String::new() };
    let newline = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let said = format!("{text}{newline}[bytes {offset} to {end} of {total}{rest}]");
    let mut answer = CallToolResult::success(vec![ContentBlock::text(said)]);
    let facts = json!({"output": text, "offset": offset, "end": end, "total": total});
    answer.structured_content = Some(facts);
    answer
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let own = Implementation::new("palisade", env!("CARGO_PKG_VERSION")).with_title("Palisade");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(own)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.refresh().await;
        Ok(ListToolsResult::with_all_items(self.shared.catalog.list()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let shared = self.state(&context)?;
        let offered = self.find(&request.name).await?;
        let tool = &offered.model;
        let mut arguments = request.arguments.unwrap_or_default();
        if tool.name == READ_OUTPUT {
            return Ok(Self::page(shared, &arguments).await.into());
        }
        let ticket = arguments.remove(offered.ticket);
        let text = Value::Object(arguments.clone()).to_string();
        let key = CallKey { tool: tool.name.clone(), ticket: offered.ticket, arguments: text };
        let pending = match ticket.filter(|ticket| *ticket != json!("")) {
            None => {
                let claims = claims::collect(context.client_info().as_ref(), &context.meta);
                let (origin, peer) = (offered.origin.clone(), context.peer.clone());
                let caller = Caller { claims, peer };
                call::start(shared, NewCall { key, origin, arguments, caller })
            }
            Some(ticket) => {
                let ticket = ticket.as_str().unwrap_or_default();
                match shared.tickets.redeem(ticket, &key) {
                    Ok(pending) => pending,
                    Err(error) => {
                        let (code, why) = (palisade_client::ErrorCode::InvalidArguments, error);
                        let hint = why.hint();
                        return Ok(render::own_failure(code, &why.to_string(), hint).into());
                    }
                }
            }
        };
        Ok(call::answer(shared, pending, &context).await?.into())
    }

    // Palisade offers tools only. An empty list would say that there could be something in it.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(no_method("prompts/list"))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(no_method("resources/list"))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(no_method("resources/templates/list"))
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(no_method("completion/complete"))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if METHODS.contains(&method.as_str()) {
            let message = format!("the params of {method} are not understood");
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(no_method(&method))
    }
}

fn no_method(method: &str) -> ErrorData {
    let message = format!("there is no method {method}");
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}
