//! Frames and lines on a client's socket, in both codecs. Sizes are checked before anything is
//! allocated. Runs in the broker.

use crate::base::outbox::QueuedMessage;
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

/// The time limit of a message, from its first byte to its last.
const STALL: Duration = Duration::from_secs(30);
/// The most bytes that are read at once.
const PIECE: usize = 256 * 1024;
/// A message above this size needs one of its user's slots for large messages.
const LARGE: usize = 1024 * 1024;
/// The buffer size of an idle connection.
const IDLE: usize = 8 * 1024;
/// Messages are collected into one write until it has this many bytes.
const BATCH: usize = 64 * 1024;

/// A message from a client.
#[derive(Debug)]
pub(crate) enum IncomingMessage {
    /// A request.
    Request(Envelope),
    /// A message that is not a valid request; the connection can go on.
    Rejected { id: Option<RequestId>, error: WireError },
}

/// The reading half of a client's connection.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: OwnedReadHalf,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that were searched for the end of a line.
    searched: usize,
    /// The deadline for the rest of a message that was begun.
    until: Option<Instant>,
    /// The slots for large messages of this client's user, and the one that is taken.
    large: Arc<Semaphore>,
    place: Option<OwnedSemaphorePermit>,
    dialect: Dialect,
}

impl Reader {
    /// Waits for the first byte, which shows the dialect; `None` if the client closed without
    /// sending one.
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

    /// Returns the next message; `None` at the end. An error ends the connection. Cancel safe:
    /// nothing is lost if the caller stops waiting.
    pub(crate) async fn next(&mut self) -> Result<Option<IncomingMessage>, WireError> {
        loop {
            let wanted = match self.dialect {
                Dialect::Frames => match self.frame()? {
                    FrameScan::Message(incoming) => return Ok(Some(incoming)),
                    FrameScan::Wants(bytes) => bytes,
                },
                Dialect::JsonLines => match self.line()? {
                    FrameScan::Message(incoming) => return Ok(Some(incoming)),
                    FrameScan::Wants(bytes) => bytes,
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

    /// Reads more of the wanted bytes. A large message waits for a slot, which limits what many
    /// clients of one user can have allocated at once.
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

    /// Returns an error if the stream ended inside a message.
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

    fn frame(&mut self) -> Result<FrameScan, WireError> {
        let Some(prefix) = self.buffer.first_chunk() else { return Ok(FrameScan::Wants(IDLE)) };
        let end = 4 + codec::frame_length(*prefix)?;
        let Some(body) = self.buffer.get(4..end) else {
            return Ok(FrameScan::Wants(end - self.buffer.len()));
        };
        let incoming = match codec::decode(body) {
            Ok(envelope) => IncomingMessage::Request(envelope),
            Err(error) => IncomingMessage::Rejected { id: None, error: error.to_wire() },
        };
        self.buffer.drain(..end);
        self.until = None;
        Ok(FrameScan::Message(incoming))
    }

    fn line(&mut self) -> Result<FrameScan, WireError> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                if self.searched > MAX_FRAME {
                    return Err(wire::line_too_large());
                }
                return Ok(FrameScan::Wants(IDLE.max(self.searched)));
            };
            let end = self.searched + at;
            self.searched = 0;
            let line = self.buffer.get(..end).unwrap_or_default();
            let incoming = match line {
                blank if blank.trim_ascii().is_empty() => None,
                line if line.len() > MAX_FRAME => return Err(wire::line_too_large()),
                line => Some(match json::decode_request(line) {
                    Ok(envelope) => IncomingMessage::Request(envelope),
                    Err(rejected) => {
                        IncomingMessage::Rejected { id: rejected.id, error: rejected.error }
                    }
                }),
            };
            self.buffer.drain(..=end);
            self.until = None;
            if let Some(incoming) = incoming {
                return Ok(FrameScan::Message(incoming));
            }
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "it lives for one step, and never in a collection")]
enum FrameScan {
    Message(IncomingMessage),
    Wants(usize),
}

fn broken(error: std::io::Error) -> WireError {
    WireError::new(ErrorCode::TruncatedFrame, format!("the connection failed: {error}"), "")
}

fn stalled() -> WireError {
    WireError::new(
        ErrorCode::TruncatedFrame,
        format!("a message was begun but not completed within {} s", STALL.as_secs()),
        "send complete messages",
    )
}

/// Writes the messages of the queue until it is closed.
pub(crate) async fn write(
    mut stream: OwnedWriteHalf,
    dialect: Dialect,
    mut queue: mpsc::Receiver<QueuedMessage>,
) {
    while let Some(QueuedMessage { message, held }) = queue.recv().await {
        let mut batch = encode(dialect, message);
        // Results count as unread until they are written.
        let mut unread = Vec::from_iter(held);
        while batch.len() < BATCH {
            let Ok(QueuedMessage { message, held }) = queue.try_recv() else { break };
            batch.append(&mut encode(dialect, message));
            unread.extend(held);
        }
        if let Err(error) = stream.write_all(&batch).await {
            tracing::debug!(%error, "a client stopped reading");
            return;
        }
    }
}

/// Encodes a message. One that is too large becomes an error with the same id.
pub(crate) fn encode(dialect: Dialect, message: ServerMessage) -> Vec<u8> {
    let encoded = match dialect {
        Dialect::Frames => codec::frame(&message).map_err(|error| error.to_string()),
        Dialect::JsonLines => match json::encode_message(&message) {
            Ok(line) if line.len() > MAX_FRAME + 1 => Err("it exceeds the size limit".to_owned()),
            other => other.map_err(|error| error.to_string()),
        },
    };
    match (encoded, message) {
        (Ok(bytes), _) => bytes,
        (Err(why), ServerMessage::Reply { id, reply }) if !matches!(reply, Reply::Error(_)) => {
            let error = WireError::new(
                ErrorCode::TooLarge,
                format!("the reply can not be sent: {why}"),
                "request less at once, or read the file with encoding raw",
            );
            encode(dialect, ServerMessage::Reply { id, reply: Reply::Error(error) })
        }
        (Err(why), ServerMessage::Reply { .. } | ServerMessage::Event(_)) => {
            tracing::error!(why, "a message can not be encoded");
            Vec::new()
        }
    }
}
