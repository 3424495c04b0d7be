//! How messages and descriptors travel between rooms that have no tokio: typed, blocking, bounded.

mod datagram;
mod error;
mod stream;

pub use datagram::Datagrams;
pub use error::ChannelError;
pub use stream::Channel;
