//! Length-delimited bincode frames: the only module that calls bincode. Pure over bytes.
//!
//! A frame is a 4-byte big-endian length, then that many bytes of one encoded message.

use crate::{ErrorCode, WireError, limits::MAX_FRAME, wire};
use bincode::{Decode, Encode, error::DecodeError};

/// How much memory a message may claim while it is decoded. The decoder counts integers by their
/// width in memory, not on the wire, so the largest legal frame needs a little more than its size.
const MAX_CLAIM: usize = MAX_FRAME + 64 * 1024;

/// Why bytes are not a message, or a message can not become bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Over [`MAX_FRAME`], or it claims lengths that are.
    #[error("the message is larger than {MAX_FRAME} bytes")]
    TooLarge,
    /// A number that names no variant of an enum.
    #[error("{type_name} has no variant {found}")]
    UnknownVariant {
        /// The enum.
        type_name: &'static str,
        /// The number.
        found: u32,
    },
    /// A whole message, and then more.
    #[error("{0} bytes follow the message inside its frame")]
    Trailing(usize),
    /// Not a message.
    #[error("the bytes are not a message: {0}")]
    Malformed(String),
}

impl CodecError {
    /// The error as the peer is told.
    #[must_use]
    pub fn to_wire(&self) -> WireError {
        let version = "both sides must speak the same protocol version; see PROTOCOL.md";
        match self {
            Self::TooLarge => WireError::new(
                ErrorCode::FrameTooLarge,
                self.to_string(),
                "send large contents as an attachment, in pieces",
            ),
            Self::UnknownVariant { type_name: "Request", found } => WireError::new(
                ErrorCode::UnknownRequest,
                format!("there is no request number {found}"),
                version,
            ),
            Self::UnknownVariant { .. } | Self::Trailing(_) | Self::Malformed(_) => {
                WireError::new(ErrorCode::MalformedMessage, self.to_string(), version)
            }
        }
    }
}

/// The bytes of a message, without a length in front.
///
/// # Errors
/// [`CodecError::TooLarge`] if they would not fit a frame.
pub fn encode<T: Encode>(message: &T) -> Result<Vec<u8>, CodecError> {
    let body = bincode::encode_to_vec(message, bincode::config::standard())
        .map_err(|e| CodecError::Malformed(e.to_string()))?;
    if body.len() > MAX_FRAME {
        return Err(CodecError::TooLarge);
    }
    Ok(body)
}

/// A message and its length in front, ready to be sent.
///
/// # Errors
/// [`CodecError::TooLarge`] if it would not fit a frame.
pub fn frame<T: Encode>(message: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = vec![0; 4];
    bincode::encode_into_std_write(message, &mut bytes, bincode::config::standard())
        .map_err(|e| CodecError::Malformed(e.to_string()))?;
    let length = bytes.len() - 4;
    match u32::try_from(length) {
        Ok(prefix) if length <= MAX_FRAME => {
            bytes[..4].copy_from_slice(&prefix.to_be_bytes());
            Ok(bytes)
        }
        Ok(_) | Err(_) => Err(CodecError::TooLarge),
    }
}

/// The message whose bytes these are: all of them.
///
/// # Errors
/// Each kind of [`CodecError`]. Nothing larger than a frame is ever allocated.
pub fn decode<T: Decode<()>>(body: &[u8]) -> Result<T, CodecError> {
    if body.len() > MAX_FRAME {
        return Err(CodecError::TooLarge);
    }
    let config = bincode::config::standard().with_limit::<MAX_CLAIM>();
    let (message, used) = bincode::decode_from_slice(body, config).map_err(|e| refusal(&e))?;
    match body.len() - used {
        0 => Ok(message),
        rest => Err(CodecError::Trailing(rest)),
    }
}

fn refusal(error: &DecodeError) -> CodecError {
    if let DecodeError::LimitExceeded = error {
        CodecError::TooLarge
    } else if let DecodeError::UnexpectedVariant { type_name, found, .. } = error {
        CodecError::UnknownVariant { type_name, found: *found }
    } else if let DecodeError::UnexpectedEnd { .. } = error {
        CodecError::Malformed("it ends too early".to_owned())
    } else if let DecodeError::OtherString(text) = error {
        CodecError::Malformed(text.clone())
    } else {
        CodecError::Malformed(error.to_string())
    }
}

/// How long the frame is that this prefix begins; asked before anything is allocated for it.
///
/// # Errors
/// A length of zero is malformed, one over [`MAX_FRAME`] too large.
pub fn frame_length(prefix: [u8; 4]) -> Result<usize, WireError> {
    let length = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
    match length {
        0 => Err(WireError::new(
            ErrorCode::MalformedMessage,
            "a frame of length 0",
            "a frame is a 4-byte big-endian length of at least 1 and then that many bytes",
        )),
        1..=MAX_FRAME => Ok(length),
        _ => Err(wire::frame_too_large(length)),
    }
}
