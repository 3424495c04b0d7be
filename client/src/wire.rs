//! Frames on the socket: reads and writes whole messages. Runs in the agent's process.

use crate::Error;
use palisade_protocol::{
    Envelope, ServerMessage,
    codec::{self, CodecError},
};
use std::io::ErrorKind;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Encodes a request as a frame.
pub(crate) fn frame(envelope: &Envelope) -> Result<Vec<u8>, Error> {
    codec::frame(envelope).map_err(|error| match error {
        CodecError::TooLarge => Error::TooLarge,
        CodecError::UnknownVariant { .. } | CodecError::Trailing(_) | CodecError::Malformed(_) => {
            Error::Protocol(error.to_string())
        }
    })
}

/// The next item read from the stream.
pub(crate) enum Incoming {
    /// A message.
    Message(ServerMessage),
    /// The end of the stream, between two messages or inside one.
    End(String),
    /// The connection was reset: the daemon ended without having read everything.
    Reset(String),
}

/// Reads the daemon's next message. The error says why the bytes are not a message.
pub(crate) async fn read<R: AsyncRead + Unpin>(stream: &mut R) -> Result<Incoming, String> {
    let mut prefix = [0; 4];
    if let Err(error) = stream.read_exact(&mut prefix).await {
        return Ok(end(&error));
    }
    let length = codec::frame_length(prefix).map_err(|error| error.message)?;
    let mut body = vec![0; length];
    if let Err(error) = stream.read_exact(&mut body).await {
        return Ok(end(&error));
    }
    codec::decode(&body).map(Incoming::Message).map_err(|error| error.to_string())
}

fn end(error: &std::io::Error) -> Incoming {
    if error.kind() == ErrorKind::UnexpectedEof {
        return Incoming::End("the daemon closed it".to_owned());
    }
    if error.kind() == ErrorKind::ConnectionReset {
        return Incoming::Reset(error.to_string());
    }
    Incoming::End(error.to_string())
}
