//! Transports messages and descriptors between processes that do not use tokio: typed, blocking,
//! bounded.

mod datagram;
mod error;
mod stream;

pub use datagram::Datagrams;
pub use error::ChannelError;
pub use stream::Channel;
