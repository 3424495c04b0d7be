//! Frames and lines on a client's socket: bounded before anything is allocated, in both codecs.
//! Broker.

use palisade_protocol::{
    Envelope, ErrorCode, Reply, RequestId, ServerMessage, WireError, codec, json,
    limits::MAX_FRAME,
    wire::{self, Dialect},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, timeout_at},
};

/// How long a message may take from its first byte to its last.
const STALL: Duration = Duration::from_secs(30);
/// How much more is read at once at most.
const PIECE: usize = 256 * 1024;
/// A message over this needs one of its user's places for large ones.
const LARGE: usize = 1024 * 1024;
/// What stays allocated for a connection that says nothing.
const IDLE: usize = 8 * 1024;
/// How much is written at once at least, if it is there.
const BATCH: usize = 64 * 1024;

/// What came from a client.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A request.
    Request(Envelope),
    /// A message that is no acceptable request; the connection can go on.
    Rejected { id: Option<RequestId>, error: WireError },
}

/// The client's half of a connection.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: OwnedReadHalf,
    buffer: Vec<u8>,
    /// How far the buffer was searched for the end of a line.
    searched: usize,
    /// When a message that was begun must be there.
    until: Option<Instant>,
    /// The places for large messages of this client's user, and the one that is taken.
    large: Arc<Semaphore>,
    place: Option<OwnedSemaphorePermit>,
    dialect: Dialect,
}

impl Reader {
    /// Waits for the first byte, which tells the dialect; none if the client left without one.
    pub(crate) async fn new(
        mut stream: OwnedReadHalf,
        large: Arc<Semaphore>,
    ) -> Result<Option<Self>, WireError> {
        let mut buffer = Vec::with_capacity(IDLE);
        if stream.read_buf(&mut buffer).await.map_err(broken)? == 0 {
            return Ok(None);
        }
        let dialect = wire::sniff(buffer.first().copied().unwrap_or_default())?;
        let (searched, until, place) = (0, None, None);
        Ok(Some(Self { stream, buffer, searched, until, large, place, dialect }))
    }

    pub(crate) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(crate) const fn stream(&self) -> &OwnedReadHalf {
        &self.stream
    }

    /// The next message; none at the end. An error ends the connection. Nothing is lost if the
    /// caller stops waiting.
    pub(crate) async fn next(&mut self) -> Result<Option<Incoming>, WireError> {
        loop {
            let wanted = match self.dialect {
                Dialect::Frames => match self.frame()? {
                    Found::Message(incoming) => return Ok(Some(incoming)),
                    Found::Wants(bytes) => bytes,
                },
                Dialect::JsonLines => match self.line()? {
                    Found::Message(incoming) => return Ok(Some(incoming)),
                    Found::Wants(bytes) => bytes,
                },
            };
            let read = if self.buffer.is_empty() {
                self.buffer.shrink_to(IDLE);
                self.until = None;
                self.read(wanted).await?
            } else {
                let until = *self.until.get_or_insert_with(|| Instant::now() + STALL);
                timeout_at(until, self.read(wanted)).await.map_err(|_| stalled())??
            };
            if read == 0 {
                return self.end().map(|()| None);
            }
        }
    }

    /// Reads some more of what is wanted. What many clients of one user could have allocated here
    /// at once is bounded: a large message waits for its place.
    async fn read(&mut self, wanted: usize) -> Result<usize, WireError> {
        if self.buffer.len() + wanted <= LARGE {
            self.place = None;
        } else if self.place.is_none() {
            let place = Arc::clone(&self.large).acquire_owned().await;
            self.place = Some(place.map_err(|_| stalled())?);
        }
        self.buffer.reserve(wanted.clamp(IDLE, PIECE));
        self.stream.read_buf(&mut self.buffer).await.map_err(broken)
    }

    /// What is missing at the end of the stream.
    fn end(&self) -> Result<(), WireError> {
        match (self.dialect, self.buffer.len()) {
            (_, 0) => Ok(()),
            (Dialect::JsonLines, got) => Err(wire::line_truncated(got)),
            (Dialect::Frames, got) => Err(match self.buffer.first_chunk() {
                Some(prefix) => {
                    wire::frame_truncated(got - 4, codec::frame_length(*prefix).unwrap_or(0))
                }
                None => wire::frame_truncated(got, 4),
            }),
        }
    }

    fn frame(&mut self) -> Result<Found, WireError> {
        let Some(prefix) = self.buffer.first_chunk() else { return Ok(Found::Wants(IDLE)) };
        let end = 4 + codec::frame_length(*prefix)?;
        let Some(body) = self.buffer.get(4..end) else {
            return Ok(Found::Wants(end - self.buffer.len()));
        };
        let incoming = match codec::decode(body) {
            Ok(envelope) => Incoming::Request(envelope),
            Err(error) => Incoming::Rejected { id: None, error: error.to_wire() },
        };
        self.buffer.drain(..end);
        self.until = None;
        Ok(Found::Message(incoming))
    }

    fn line(&mut self) -> Result<Found, WireError> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                if self.searched > MAX_FRAME {
                    return Err(wire::line_too_large());
                }
                return Ok(Found::Wants(IDLE.max(self.searched)));
            };
            let end = self.searched + at;
            self.searched = 0;
            let line = self.buffer.get(..end).unwrap_or_default();
            let incoming = match line {
                blank if blank.trim_ascii().is_empty() => None,
                line if line.len() > MAX_FRAME => return Err(wire::line_too_large()),
                line => Some(match json::decode_request(line) {
                    Ok(envelope) => Incoming::Request(envelope),
                    Err(rejected) => Incoming::Rejected { id: rejected.id, error: rejected.error },
                }),
            };
            self.buffer.drain(..=end);
            self.until = None;
            if let Some(incoming) = incoming {
                return Ok(Found::Message(incoming));
            }
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "it lives for one step, and never in a collection")]
enum Found {
    Message(Incoming),
    Wants(usize),
}

fn broken(error: std::io::Error) -> WireError {
    WireError::new(ErrorCode::TruncatedFrame, format!("the connection failed: {error}"), "")
}

fn stalled() -> WireError {
    WireError::new(
        ErrorCode::TruncatedFrame,
        format!("a message was begun and not ended within {} s", STALL.as_secs()),
        "send whole messages",
    )
}

/// Writes what is in the queue until there is no more to come.
pub(crate) async fn write(
    mut stream: OwnedWriteHalf,
    dialect: Dialect,
    mut queue: mpsc::Receiver<ServerMessage>,
) {
    while let Some(message) = queue.recv().await {
        let mut batch = encode(dialect, message);
        while batch.len() < BATCH {
            let Ok(message) = queue.try_recv() else { break };
            batch.append(&mut encode(dialect, message));
        }
        if let Err(error) = stream.write_all(&batch).await {
            tracing::debug!(%error, "a client does not listen any more");
            return;
        }
    }
}

/// A message's bytes; one that is too large becomes an error under the same id.
pub(crate) fn encode(dialect: Dialect, message: ServerMessage) -> Vec<u8> {
    let encoded = match dialect {
        Dialect::Frames => codec::frame(&message).map_err(|error| error.to_string()),
        Dialect::JsonLines => match json::encode_message(&message) {
            Ok(line) if line.len() > MAX_FRAME + 1 => Err("it is over the limit".to_owned()),
            other => other.map_err(|error| error.to_string()),
        },
    };
    match (encoded, message) {
        (Ok(bytes), _) => bytes,
        (Err(why), ServerMessage::Reply { id, reply }) if !matches!(reply, Reply::Error(_)) => {
            let error = WireError::new(
                ErrorCode::TooLarge,
                format!("the reply can not be sent: {why}"),
                "ask for less at once, or read the file with encoding raw",
            );
            encode(dialect, ServerMessage::Reply { id, reply: Reply::Error(error) })
        }
        (Err(why), ServerMessage::Reply { .. } | ServerMessage::Event(_)) => {
            tracing::error!(why, "a message can not be encoded");
            Vec::new()
        }
    }
}
