//! A connection to the provider socket: registers tools and answers calls of them. Runs in the
//! provider's process, outside of every sandbox.

use crate::{
    Error, Invoked, Output, ProvidedTool,
    client::{greet, hello, unexpected},
    link::{Link, Patience, dial},
    news::Sink,
    provided,
};
use palisade_protocol::{Event, Invocation, Invoke, Provide, Reply, Request};
use std::{collections::HashMap, fmt, path::Path, pin::Pin, sync::Arc};
use tokio::{
    net::UnixStream,
    sync::mpsc,
    task::{self, AbortHandle, JoinSet},
};

type HandlerFuture = Pin<Box<dyn Future<Output = Result<Output, String>> + Send>>;
type Handler = Arc<dyn Fn(Invoked) -> HandlerFuture + Send + Sync>;

/// A provider's connection. Its tools are available while [`serve`](Self::serve) runs. When it
/// ends, they are removed and running calls of them fail.
///
/// ```no_run
/// use palisade_client::{Output, ProvidedTool, Provider};
/// use serde_json::{Value, json};
///
/// # async fn provide() -> Result<(), palisade_client::Error> {
/// let schema = json!({"type": "object", "properties": {"city": {"type": "string"}},
///     "required": ["city"], "additionalProperties": false});
/// Provider::connect("/run/palisade/provider.sock")
///     .await?
///     .tool(
///         ProvidedTool::new("weather", schema).description("Says how the weather is.").read_only(),
///         |call| async move {
///             let arguments: Value = call.arguments()?;
///             call.progress("looking out of the window", 1, Some(1)).await?;
///             Ok(Output::from(format!("{}: rain", arguments["city"])))
///         },
///     )
///     .serve()
///     .await
/// # }
/// ```
pub struct Provider {
    link: Arc<Link>,
    events: mpsc::UnboundedReceiver<Event>,
    tools: Vec<(ProvidedTool, Handler)>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tools.iter().map(|(tool, _)| tool)).finish()
    }
}

impl Provider {
    /// Connects to a daemon's provider socket.
    ///
    /// # Errors
    /// [`Error::Connect`] if nothing listens there or this user may not provide tools,
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
        let (sender, events) = mpsc::unbounded_channel();
        let link = Link::with_news(stream, Patience::default(), Sink::Provider(sender));
        greet(&link, hello()).await?;
        Ok(Self { link: Arc::new(link), events, tools: Vec::new() })
    }

    /// Adds a tool and the function that answers its calls. The function returns an [`Output`], or
    /// the reason it failed, which the agent is shown. Calls run in parallel; a call that nobody
    /// waits for any more is dropped.
    #[must_use]
    pub fn tool<F, A>(mut self, tool: ProvidedTool, answer: F) -> Self
    where
        F: Fn(Invoked) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Output, String>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |call| Box::pin(answer(call)));
        self.tools.push((tool, handler));
        self
    }

    /// Registers the tools and answers calls of them until the connection ends. Connecting again is
    /// up to the caller.
    ///
    /// # Errors
    /// [`Error::Remote`] with the daemon's reason if the tools are refused; otherwise the reason
    /// the connection ended.
    pub async fn serve(mut self) -> Result<(), Error> {
        let tools: Result<_, _> = self.tools.iter().map(|(tool, _)| tool.to_wire()).collect();
        let provide = Provide { tools: tools? };
        let Reply::Provided(_) = self.link.ask(Request::Provide(provide)).await? else {
            return Err(unexpected("provide"));
        };
        let mut running = RunningCalls::default();
        loop {
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(Event::Invoke(invoke)) => running.start(&self.link, &self.tools, *invoke),
                    Some(Event::InvokeCancelled(cancelled)) => running.stop(cancelled.invocation),
                    // No other event concerns a provider.
                    Some(_) => {}
                    None => return Err(self.link.table.ended()),
                },
                Some(ended) = running.calls.join_next_with_id() => {
                    running.ended(&self.link, ended);
                }
            }
        }
    }
}

/// The running calls.
#[derive(Default)]
struct RunningCalls {
    calls: JoinSet<()>,
    by_task: HashMap<task::Id, Invocation>,
    handles: HashMap<Invocation, AbortHandle>,
}

impl RunningCalls {
    fn start(&mut self, link: &Arc<Link>, tools: &[(ProvidedTool, Handler)], invoke: Invoke) {
        let number = invoke.invocation;
        let known = tools.iter().find(|(tool, _)| tool.name() == invoke.tool.as_str());
        let handler = known.map(|(_, handler)| Arc::clone(handler));
        let link = Arc::clone(link);
        let handle = self.calls.spawn(async move {
            let ended = match handler {
                Some(handler) => handler(Invoked::new(invoke, Arc::clone(&link))).await,
                None => Err("this provider has no such tool".to_owned()),
            };
            answer(&link, number, ended).await;
        });
        self.by_task.insert(handle.id(), number);
        self.handles.insert(number, handle);
    }

    fn stop(&mut self, number: Invocation) {
        if let Some(handle) = self.handles.remove(&number) {
            handle.abort();
        }
    }

    /// Removes a call that has ended. If its handler panicked, the call has failed and the others
    /// go on.
    fn ended(&mut self, link: &Arc<Link>, ended: Result<(task::Id, ()), task::JoinError>) {
        let (id, panicked) = match ended {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(number) = self.by_task.remove(&id) else { return };
        self.handles.remove(&number);
        if panicked {
            let link = Arc::clone(link);
            self.calls.spawn(async move {
                answer(&link, number, Err("the provider panicked".to_owned())).await;
            });
        }
    }
}

async fn answer(link: &Link, number: Invocation, ended: Result<Output, String>) {
    let result = Request::InvokeResult(Box::new(provided::result(number, ended)));
    // An error is ignored: the call may have been cancelled, or the connection ended, which `serve`
    // notices.
    drop(link.ask(result).await);
}
