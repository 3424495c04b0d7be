//! What can go wrong on a channel.

use palisade_plan::codec::CodecError;

/// What can go wrong on a channel. None of it can be mended: the channel is then to be closed.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The kernel refused to send.
    #[error("send: {0}")]
    Send(#[source] rustix::io::Errno),
    /// The kernel refused to receive.
    #[error("receive: {0}")]
    Receive(#[source] rustix::io::Errno),
    /// A message was cut short, by the kernel or by the peer's end.
    #[error("a message was cut short")]
    Truncated,
    /// A message announced a number of descriptors and came with another.
    #[error("{expected} descriptors announced, {received} received")]
    Descriptors {
        /// Announced.
        expected: usize,
        /// Received.
        received: usize,
    },
    /// The bytes are not a message.
    #[error(transparent)]
    Codec(#[from] CodecError),
}
