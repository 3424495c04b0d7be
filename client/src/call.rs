//! A call before it is made: tool, arguments, options, attachment.

use crate::{
    CallResult, Error, Running,
    link::{Link, Piece},
    table::Events,
};
use palisade_protocol::{
    CallOptions, JsonText, RawPath, Request, RequestId, ToolName, arguments::Bash,
    limits::MAX_CHUNK,
};
use serde::Serialize;
use std::{fmt, path::Path, pin::Pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::mpsc,
};

/// What is sent along with a call.
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

/// A call to be made: `.await` it for its result, or [`start`](Self::start) it and watch.
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

    /// The same call with other arguments.
    pub(crate) fn arguments(mut self, change: impl FnOnce(&mut A)) -> Self {
        change(&mut self.arguments);
        self
    }

    /// How long it may take; the profile's default if this is not said, its maximum at most.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Why, in the agent's own words; shown to approvers as such and kept in the audit.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Judges and reports only; nothing runs.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// A second call with this key, in the same session, is not made: it has the first one's
    /// result. For calls that are repeated after a connection was lost.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.options.idempotency_key = Some(key.into());
        self
    }

    /// Sends output as it comes. See [`Running`] for what a slow reader does.
    pub fn stream(mut self) -> Self {
        self.options.stream = true;
        self
    }

    /// Sends bytes along: what a program reads on standard input, what `write_file` writes. They
    /// travel in pieces, so there is no limit but the profile's.
    pub fn attach(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.options.attach = true;
        self.attachment = Attachment::Bytes(bytes.into());
        self
    }

    /// Sends along what a reader yields, as it yields it. If it fails, the call is cancelled.
    pub fn attach_reader(mut self, reader: impl AsyncRead + Send + Unpin + 'static) -> Self {
        self.options.attach = true;
        self.attachment = Attachment::Reader(Box::new(reader));
        self
    }
}

impl Call<Bash> {
    /// Where to start; absolute, or relative to the session's current directory.
    pub fn cwd(mut self, directory: impl AsRef<Path>) -> Self {
        self.arguments.cwd = Some(RawPath::from(directory));
        self
    }

    /// Adds a variable to the session's environment, for this call.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.arguments.env.insert(name.into(), value.into());
        self
    }

    /// What the program reads on standard input; at end of file if this is not said.
    pub fn stdin(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.attach(bytes)
    }

    /// What it does, in a few words, for people who read along.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.arguments.description = Some(text.into());
        self
    }
}

impl<A: Serialize> Call<A> {
    /// Makes the call and returns at once with the means to watch it.
    ///
    /// # Errors
    /// If the call can not be sent. What becomes of it is its result.
    pub async fn start(self) -> Result<Running, Error> {
        self.prepare()?.start().await
    }

    /// The call as it is sent; what is attached to it does not come along.
    pub(crate) fn to_wire(&self) -> Result<palisade_protocol::Call, Error> {
        Ok(palisade_protocol::Call {
            tool: ToolName::try_from(self.tool.clone())?,
            arguments: JsonText::render(&self.arguments).map_err(Error::Arguments)?,
            reason: self.reason.clone(),
            options: self.options.clone(),
        })
    }

    fn prepare(self) -> Result<Prepared, Error> {
        Ok(Prepared { call: self.to_wire()?, link: self.link, attachment: self.attachment })
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

/// A call with its arguments as they will be sent.
struct Prepared {
    link: Arc<Link>,
    call: palisade_protocol::Call,
    attachment: Attachment,
}

impl Prepared {
    async fn start(self) -> Result<Running, Error> {
        let (events, receiver) = if self.call.options.stream {
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
            // In the background: a program may not read on before its output is taken.
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

/// Sends bytes until all are sent or the call has ended without them.
async fn feed_bytes(link: Arc<Link>, call: RequestId, bytes: Vec<u8>) {
    let mut chunks = bytes.chunks(MAX_CHUNK).peekable();
    while let Some(chunk) = chunks.next() {
        let piece = if chunks.peek().is_some() { Piece::More } else { Piece::Last };
        // A connection that is gone tells the call itself.
        if !link.table.waits(call) || link.input(call, chunk.to_vec(), piece).await.is_err() {
            return;
        }
    }
}

/// Sends what a reader yields. Its failure must not look like its end: the call is cancelled.
async fn feed_reader(
    link: Arc<Link>,
    call: RequestId,
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
) {
    let mut buffer = vec![0; MAX_CHUNK];
    while link.table.waits(call) {
        let (chunk, piece) = match reader.read(&mut buffer).await {
            Ok(0) => (Vec::new(), Piece::Last),
            Ok(count) => (buffer.get(..count).unwrap_or_default().to_vec(), Piece::More),
            Err(error) => {
                drop(link.cancel(call));
                return link.table.answer(call, Err(Error::Attachment(error)));
            }
        };
        if link.input(call, chunk, piece).await.is_err() || piece == Piece::Last {
            return;
        }
    }
}
