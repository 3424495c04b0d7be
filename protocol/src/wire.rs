//! The parts that both codecs share: detecting which one a peer uses, and the errors for a stream
//! that ends early or exceeds a limit. Pure: no I/O; the owner of the socket calls these functions.

use crate::{ErrorCode, WireError, limits::MAX_FRAME};

/// The codec that a peer uses. The first byte of the connection selects it for the whole
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Length-delimited bincode frames, see [`crate::codec`].
    Frames,
    /// JSON-RPC 2.0, one message per line, see [`crate::json`].
    JsonLines,
}

/// Detects the codec by the connection's first byte, which stays part of the first message.
///
/// The first byte of a frame is the most significant byte of its length: 0, or 1 for exactly 16
/// MiB.
///
/// # Errors
/// Any other byte begins neither a frame nor a JSON object.
pub fn sniff(first: u8) -> Result<Dialect, WireError> {
    match first {
        0 | 1 => Ok(Dialect::Frames),
        b'{' | b' ' | b'\t' | b'\r' | b'\n' => Ok(Dialect::JsonLines),
        b'[' => Err(WireError::new(
            ErrorCode::MalformedMessage,
            "the connection begins with a JSON array: batches are not supported",
            "send one JSON-RPC object per line; several requests may be in flight at once",
        )),
        _ => Err(WireError::new(
            ErrorCode::MalformedMessage,
            format!("the connection begins with byte {first:#04x}, which no message begins with"),
            "begin with '{' for JSON-RPC lines, or with a 4-byte big-endian length of at most \
             16 MiB for bincode frames",
        )),
    }
}

/// Returns the error for a frame whose length prefix is over the limit.
#[must_use]
pub fn frame_too_large(length: usize) -> WireError {
    WireError::new(
        ErrorCode::FrameTooLarge,
        format!("a frame of {length} bytes is over the limit of {MAX_FRAME}; none of it was read"),
        "send large contents as an attachment, in pieces",
    )
}

/// Returns the error for a line that is longer than [`MAX_FRAME`] bytes.
#[must_use]
pub fn line_too_large() -> WireError {
    WireError::new(
        ErrorCode::FrameTooLarge,
        format!("a line is longer than the limit of {MAX_FRAME} bytes"),
        "end each message with a newline, and send large contents as an attachment, in pieces",
    )
}

/// Returns the error for a stream that ended inside a frame. If it ended inside the length prefix,
/// `got` and `wanted` count the bytes of the prefix.
#[must_use]
pub fn frame_truncated(got: usize, wanted: usize) -> WireError {
    WireError::new(
        ErrorCode::TruncatedFrame,
        format!("the stream ended after {got} of {wanted} bytes of a frame"),
        "send whole frames before closing or shutting down the connection",
    )
}

/// Returns the error for a stream that ended inside a line.
#[must_use]
pub fn line_truncated(got: usize) -> WireError {
    WireError::new(
        ErrorCode::TruncatedFrame,
        format!("the stream ended after {got} bytes of a line without a newline"),
        "end each message with a newline before closing or shutting down the connection",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_first_byte_has_one_meaning() {
        for first in 0..=u8::MAX {
            let expected = match first {
                0 | 1 => Some(Dialect::Frames),
                b'{' | b' ' | b'\t' | b'\r' | b'\n' => Some(Dialect::JsonLines),
                _ => None,
            };
            match sniff(first) {
                Ok(dialect) => assert_eq!(Some(dialect), expected),
                Err(error) => {
                    assert_eq!(expected, None);
                    assert_eq!(error.code, ErrorCode::MalformedMessage);
                    assert!(!error.hint.is_empty());
                }
            }
        }
        assert!(sniff(b'[').unwrap_err().message.contains("batches"));
    }

    #[test]
    fn broken_streams_have_their_own_codes() {
        assert_eq!(frame_too_large(MAX_FRAME + 1).code, ErrorCode::FrameTooLarge);
        assert_eq!(line_too_large().code, ErrorCode::FrameTooLarge);
        assert_eq!(line_truncated(3).code, ErrorCode::TruncatedFrame);
        let error = frame_truncated(3, 4);
        assert_eq!(error.code, ErrorCode::TruncatedFrame);
        assert_eq!(error.message, "the stream ended after 3 of 4 bytes of a frame");
    }
}
