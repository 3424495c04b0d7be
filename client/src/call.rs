//! A call before it is made: tool, arguments, options, attachment.

use crate::{
    CallResult, Error, Running,
    link::{ChunkPosition, Link},
    table::Events,
};
use palisade_protocol::{
    CallOptions, Claim, JsonText, RawPath, Request, RequestId, ReverseThinking, ToolName,
    arguments::Bash, limits::MAX_CHUNK,
};
use serde::Serialize;
use std::{fmt, path::Path, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::mpsc,
};

/// The attachment of a call.
enum Attachment {
    None,
    Bytes(Vec<u8>),
    Reader(Box<dyn AsyncRead + Send + Unpin>),
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Reader(_) => f.write_str("Reader"),
        }
    }
}

/// A call to be made. `.await` it for its result, or [`start`](Self::start) it to watch its events.
///
/// ```
/// # use palisade_client::{Client, Event, Open, Stream};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let client = Client::embedded().await?;
/// # let session = client.open(Open::new(directory.path())).await?;
/// let mut running = session.bash("echo one; echo two >&2").stream().start().await?;
/// let mut errors = Vec::new();
/// while let Some(event) = running.next().await {
///     if let Event::Output { stream: Stream::Stderr, data } = event {
///         errors.extend(data);
///     }
/// }
/// let result = running.result().await?;
/// assert_eq!(errors, b"two\n");
/// assert_eq!(result.stdout, "one\n");
/// # client.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a call is made when it is awaited or started"]
pub struct Call<A> {
    link: Arc<Link>,
    tool: String,
    arguments: A,
    reason: Option<String>,
    options: CallOptions,
    attachment: Attachment,
}

impl<A> Call<A> {
    pub(crate) fn new(link: Arc<Link>, tool: &str, arguments: A) -> Self {
        Self {
            link,
            tool: tool.to_owned(),
            arguments,
            reason: None,
            options: CallOptions::default(),
            attachment: Attachment::None,
        }
    }

    pub(crate) const fn arguments_mut(&mut self) -> &mut A {
        &mut self.arguments
    }

    /// Changes the call's arguments.
    pub(crate) fn arguments(mut self, change: impl FnOnce(&mut A)) -> Self {
        change(&mut self.arguments);
        self
    }

    /// Sets the timeout. Without this the profile's default applies; the profile's maximum is never
    /// exceeded.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Sets the reason for the call in the agent's own words. Approvers see it marked as such, and
    /// the audit log records it.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the agent's own doubts about the call, which approvers see beside its reason. Some tools
    /// require them ([`ToolSpec`](crate::ToolSpec)).
    pub fn reverse_thinking(mut self, thinking: ReverseThinking) -> Self {
        self.options.reverse_thinking = Some(thinking);
        self
    }

    /// Sets what the client says about itself and its conversation. The audit log records it as
    /// claimed; it decides nothing.
    pub fn claims(mut self, claims: Vec<Claim>) -> Self {
        self.options.claims = claims;
        self
    }

    /// Only judges and reports; nothing runs.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Sets a key that makes the call safe to repeat after a lost connection. A second call with
    /// this key in the same session is not made and returns the first call's result.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.options.idempotency_key = Some(key.into());
        self
    }

    /// Sends output as events while it arrives. See [`Running`] for the effect of a slow reader.
    pub fn stream(mut self) -> Self {
        self.options.stream = true;
        self
    }

    /// Sends progress as events, and that the call waits for approval
    /// ([`WAITING_FOR_APPROVAL`](crate::WAITING_FOR_APPROVAL)), with the milliseconds left as the
    /// total.
    pub fn progress(mut self) -> Self {
        self.options.progress = true;
        self
    }

    /// Attaches bytes: the standard input of a program, or the content for `write_file`. They are
    /// sent in pieces, so only the profile limits their size.
    pub fn attach(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.options.attach = true;
        self.attachment = Attachment::Bytes(bytes.into());
        self
    }

    /// Attaches what a reader yields, as it yields it. If the reader fails, the call is cancelled.
    pub fn attach_reader(mut self, reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        self.options.attach = true;
        self.attachment = Attachment::Reader(Box::new(reader));
        self
    }
}

impl Call<Bash> {
    /// Sets the directory to start in; absolute, or relative to the session's current directory.
    pub fn cwd(mut self, directory: impl AsRef<Path>) -> Self {
        self.arguments.cwd = Some(RawPath::from(directory));
        self
    }

    /// Adds a variable to the session's environment, for this call.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.arguments.env.insert(name.into(), value.into());
        self
    }

    /// Sets the program's standard input. Without this it is at end of file.
    pub fn stdin(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.attach(bytes)
    }

    /// Describes the command in a few words, for people who watch.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.arguments.description = Some(text.into());
        self
    }
}

impl<A: Serialize> Call<A> {
    /// Makes the call and returns at once with a handle to watch it.
    ///
    /// # Errors
    /// If the call can not be sent. The outcome of the call itself is in its result.
    pub async fn start(self) -> Result<Running, Error> {
        self.prepare()?.start().await
    }

    /// Converts the call to its wire form, without its attachment.
    pub(crate) fn to_wire(&self) -> Result<palisade_protocol::Call, Error> {
        Ok(palisade_protocol::Call {
            tool: ToolName::try_from(self.tool.clone())?,
            arguments: JsonText::render(&self.arguments).map_err(Error::Arguments)?,
            reason: self.reason.clone(),
            options: self.options.clone(),
        })
    }

    fn prepare(self) -> Result<PreparedCall, Error> {
        Ok(PreparedCall { call: self.to_wire()?, link: self.link, attachment: self.attachment })
    }
}

impl<A: Serialize> IntoFuture for Call<A> {
    type Output = Result<CallResult, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let prepared = self.prepare();
        Box::pin(async move { prepared?.start().await?.result().await })
    }
}

/// A call whose arguments are already serialized.
struct PreparedCall {
    link: Arc<Link>,
    call: palisade_protocol::Call,
    attachment: Attachment,
}

impl PreparedCall {
    async fn start(self) -> Result<Running, Error> {
        let (events, receiver) = if self.call.options.stream || self.call.options.progress {
            let (sender, receiver) = mpsc::channel(self.link.patience.queue);
            (Events::Queue(sender), Some(receiver))
        } else {
            (Events::Unwanted, None)
        };
        let entered = self.link.submit(Request::Call(self.call), events, 1).await?;
        let mut running = Running::new(Arc::clone(&self.link), entered, receiver);
        let (link, id) = (self.link, running.id());
        match self.attachment {
            Attachment::None => {}
            Attachment::Bytes(bytes) if bytes.len() <= MAX_CHUNK => link.input_now(id, bytes)?,
            // Sent in the background: a program may stop reading its input until its output is
            // read.
            Attachment::Bytes(bytes) => {
                running.fed_by(tokio::spawn(feed_bytes(link, id, bytes)).abort_handle());
            }
            Attachment::Reader(reader) => {
                running.fed_by(tokio::spawn(feed_reader(link, id, reader)).abort_handle());
            }
        }
        Ok(running)
    }
}

/// Sends bytes until all are sent or the call has ended without reading them.
async fn feed_bytes(link: Arc<Link>, call: RequestId, bytes: Vec<u8>) {
    let mut chunks = bytes.chunks(MAX_CHUNK).peekable();
    while let Some(chunk) = chunks.next() {
        let piece = if chunks.peek().is_some() { ChunkPosition::More } else { ChunkPosition::Last };
        // If the connection is gone, the call itself reports that.
        if !link.table.waits(call) || link.input(call, chunk.to_vec(), piece).await.is_err() {
            return;
        }
    }
}

/// Sends what a reader yields. If the reader fails, the call is cancelled, because a failure must
/// not look like the end of the input.
async fn feed_reader(
    link: Arc<Link>,
    call: RequestId,
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
) {
    let mut buffer = vec![0; MAX_CHUNK];
    while link.table.waits(call) {
        let (chunk, piece) = match reader.read(&mut buffer).await {
            Ok(0) => (Vec::new(), ChunkPosition::Last),
            Ok(count) => (buffer.get(..count).unwrap_or_default().to_vec(), ChunkPosition::More),
            Err(error) => {
                drop(link.cancel(call));
                return link.table.answer(call, Err(Error::Attachment(error)));
            }
        };
        if link.input(call, chunk, piece).await.is_err() || piece == ChunkPosition::Last {
            return;
        }
    }
}
