//! Errors of a channel.

use palisade_plan::codec::CodecError;

/// An error of a channel. None can be recovered from: the channel must be closed.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The kernel refused to send.
    #[error("send: {0}")]
    Send(#[source] rustix::io::Errno),
    /// The kernel refused to receive.
    #[error("receive: {0}")]
    Receive(#[source] rustix::io::Errno),
    /// A message was cut short, by the kernel or because the peer closed its end.
    #[error("a message was cut short")]
    Truncated,
    /// A message announced one number of descriptors and came with another.
    #[error("{expected} descriptors announced, {received} received")]
    Descriptors {
        /// The number announced.
        expected: usize,
        /// The number received.
        received: usize,
    },
    /// The bytes are not a valid message.
    #[error(transparent)]
    Codec(#[from] CodecError),
}
