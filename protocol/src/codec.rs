//! Length-delimited bincode frames: the only module that calls bincode. Pure: no I/O.
//!
//! A frame is a 4-byte big-endian length, then that many bytes of one encoded message.

use crate::{ErrorCode, WireError, limits::MAX_FRAME, wire};
use bincode::{Decode, Encode, error::DecodeError};

/// The maximum memory a message may claim while it is decoded. The decoder counts integers by their
/// width in memory, not on the wire. So the largest legal frame needs a little more than its size.
const MAX_CLAIM: usize = MAX_FRAME + 64 * 1024;

/// The reason bytes can not be decoded to a message, or a message can not be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The message is larger than [`MAX_FRAME`], or claims lengths that are.
    #[error("the message is larger than {MAX_FRAME} bytes")]
    TooLarge,
    /// A number does not name any variant of an enum.
    #[error("{type_name} has no variant {found}")]
    UnknownVariant {
        /// The name of the enum.
        type_name: &'static str,
        /// The number that was found.
        found: u32,
    },
    /// More bytes follow the message inside its frame.
    #[error("{0} bytes follow the message inside its frame")]
    Trailing(usize),
    /// The bytes are not a message.
    #[error("the bytes are not a message: {0}")]
    Malformed(String),
}

impl CodecError {
    /// Returns the error in the form that is sent to the peer.
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

/// Encodes a message, without a length prefix.
///
/// # Errors
/// [`CodecError::TooLarge`] if the bytes would not fit a frame.
pub fn encode<T: Encode>(message: &T) -> Result<Vec<u8>, CodecError> {
    let body = bincode::encode_to_vec(message, bincode::config::standard())
        .map_err(|e| CodecError::Malformed(e.to_string()))?;
    if body.len() > MAX_FRAME {
        return Err(CodecError::TooLarge);
    }
    Ok(body)
}

/// Encodes a message with its length prefix, ready to be sent.
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

/// Decodes one message, which must use all of `body`.
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

/// Returns the length of the frame that this prefix begins. Called before anything is allocated for
/// the frame.
///
/// # Errors
/// A length of zero is malformed; a length over [`MAX_FRAME`] is too large.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Envelope, Input, Reply, Request, ServerMessage, WireError};

    fn ping() -> Envelope {
        Envelope { id: 7, request: Request::Ping }
    }

    fn request(bytes: &[u8]) -> Result<Envelope, CodecError> {
        decode(bytes)
    }

    #[test]
    fn a_frame_is_its_length_and_its_body() {
        assert_eq!(frame(&ping()).unwrap(), [0, 0, 0, 2, 7, 6]);
        assert_eq!(encode(&ping()).unwrap(), [7, 6]);
        assert_eq!(request(&[7, 6]), Ok(ping()));
        assert_eq!(frame_length([0, 0, 0, 2]), Ok(2));
        assert_eq!(frame_length([1, 0, 0, 0]), Ok(MAX_FRAME));
    }

    #[test]
    fn lengths_are_refused_before_anything_is_read() {
        assert_eq!(frame_length([0; 4]).unwrap_err().code, ErrorCode::MalformedMessage);
        for prefix in [[1, 0, 0, 1], [0xff; 4]] {
            assert_eq!(frame_length(prefix).unwrap_err().code, ErrorCode::FrameTooLarge);
        }
    }

    #[test]
    fn each_way_of_being_wrong_has_its_own_error() {
        for (bytes, error, code) in [
            (
                &[7, 33][..],
                CodecError::UnknownVariant { type_name: "Request", found: 33 },
                ErrorCode::UnknownRequest,
            ),
            (&[7, 6, 0, 0], CodecError::Trailing(2), ErrorCode::MalformedMessage),
            (
                &[7],
                CodecError::Malformed("it ends too early".to_owned()),
                ErrorCode::MalformedMessage,
            ),
            // An `Input` for call 1 whose data claims 2^32 - 1 bytes.
            (&[7, 3, 1, 252, 255, 255, 255, 255], CodecError::TooLarge, ErrorCode::FrameTooLarge),
            (
                &[7, 2, 1, b'/', 2, b'{', b'}', 0, 0, 0, 0, 0],
                CodecError::Malformed(
                    "a tool name consists of letters, digits, '_', '-' and '.'; '/' is not allowed"
                        .to_owned(),
                ),
                ErrorCode::MalformedMessage,
            ),
            (
                &[7, 2, 1, b'a', 2, b'{', b'{', 0, 0, 0, 0, 0, 0],
                CodecError::Malformed(
                    "not JSON: key must be a string at line 1 column 2".to_owned(),
                ),
                ErrorCode::MalformedMessage,
            ),
        ] {
            assert_eq!(request(bytes), Err(error.clone()));
            let told = error.to_wire();
            assert_eq!(told.code, code);
            assert!(!told.message.is_empty() && !told.hint.is_empty());
        }
        assert!(request(&[7, 2, 1, b'a', 2, b'{', b'}', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_ok());
    }

    #[test]
    fn the_largest_frame_passes_and_one_byte_more_does_not() {
        let sized = |length| Envelope {
            id: u64::MAX,
            request: Request::Input(Input {
                call: 0,
                data: crate::Bytes(vec![1; length]),
                end: true,
            }),
        };
        let around = encode(&sized(70_000)).unwrap().len() - 70_000;
        let largest = sized(MAX_FRAME - around);
        let body = encode(&largest).unwrap();
        assert_eq!(body.len(), MAX_FRAME);
        assert!(request(&body) == Ok(largest));
        let larger = sized(MAX_FRAME - around + 1);
        assert_eq!(encode(&larger), Err(CodecError::TooLarge));
        assert_eq!(frame(&larger), Err(CodecError::TooLarge));
        assert_eq!(request(&vec![0; MAX_FRAME + 1]), Err(CodecError::TooLarge));
    }

    #[test]
    fn only_an_unknown_request_is_called_that() {
        let error = decode::<ServerMessage>(&[0, 0, 23]).unwrap_err();
        assert_eq!(error, CodecError::UnknownVariant { type_name: "Reply", found: 23 });
        assert_eq!(error.to_wire().code, ErrorCode::MalformedMessage);
        let error = WireError::new(ErrorCode::Internal, "m", "h");
        let reply = ServerMessage::Reply { id: None, reply: Reply::Error(error) };
        assert_eq!(decode::<ServerMessage>(&[0, 0, 8, 27, 1, b'm', 1, b'h', 0, 0]), Ok(reply));
    }
}
