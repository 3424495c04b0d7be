//! Encodes and decodes the messages between processes, and the frame headers of their stream
//! channels.

use bincode::config;

pub use bincode::{Decode, Encode};

/// Most bytes of a message between processes.
pub const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// Most bytes of a plan, which must fit in one datagram to the launcher.
pub const MAX_PLAN: usize = 128 * 1024;

/// Most descriptors that one message carries.
pub const MAX_DESCRIPTORS: usize = 36;

/// The size of a frame header on a stream channel: the length of the body, and the number of
/// descriptors sent with it.
pub const HEADER: usize = 5;

/// The reason that bytes are not a valid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The message is over the limit.
    #[error("a message of {0} bytes is over the limit of {1}")]
    TooLarge(usize, usize),
    /// The bytes are not a message of the expected type.
    #[error("not a message of this channel: {0}")]
    Malformed(String),
    /// Bytes follow after the message.
    #[error("{0} bytes follow the message")]
    Trailing(usize),
}

/// Encodes a message.
///
/// # Errors
/// If the message is over `MAX_MESSAGE`.
pub fn encode<T: Encode>(message: &T) -> Result<Vec<u8>, CodecError> {
    let bytes = bincode::encode_to_vec(message, config::standard())
        .map_err(|e| CodecError::Malformed(e.to_string()))?;
    if bytes.len() > MAX_MESSAGE {
        return Err(CodecError::TooLarge(bytes.len(), MAX_MESSAGE));
    }
    Ok(bytes)
}

/// Decodes the message that fills all of `bytes`.
///
/// # Errors
/// If the bytes are not exactly one message.
pub fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T, CodecError> {
    if bytes.len() > MAX_MESSAGE {
        return Err(CodecError::TooLarge(bytes.len(), MAX_MESSAGE));
    }
    let (message, used) =
        bincode::decode_from_slice(bytes, config::standard().with_limit::<MAX_MESSAGE>())
            .map_err(|e| CodecError::Malformed(e.to_string()))?;
    if used != bytes.len() {
        return Err(CodecError::Trailing(bytes.len() - used));
    }
    Ok(message)
}

/// Encodes the header of a frame.
///
/// # Errors
/// If the body or the number of descriptors is over the limit.
pub fn header(body: usize, descriptors: usize) -> Result<[u8; HEADER], CodecError> {
    let (Ok(length), Ok(count)) = (u32::try_from(body), u8::try_from(descriptors)) else {
        return Err(CodecError::TooLarge(body, MAX_MESSAGE));
    };
    if body > MAX_MESSAGE || descriptors > MAX_DESCRIPTORS {
        return Err(CodecError::TooLarge(body, MAX_MESSAGE));
    }
    let [a, b, c, d] = length.to_le_bytes();
    Ok([a, b, c, d, count])
}

/// Decodes a header into the length of the body and the number of descriptors.
///
/// # Errors
/// If either is over the limit.
pub fn parse_header(header: [u8; HEADER]) -> Result<(usize, usize), CodecError> {
    let [a, b, c, d, count] = header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > MAX_MESSAGE || usize::from(count) > MAX_DESCRIPTORS {
        return Err(CodecError::TooLarge(length, MAX_MESSAGE));
    }
    Ok((length, usize::from(count)))
}
