//! A connection's number, and the credentials of its peer. Runs in the broker.

/// A number that identifies a connection for as long as the daemon runs.
pub(crate) type ConnectionNumber = u64;

/// The credentials of a connection's peer, as the kernel reported them at accept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The process id; `None` if it is not visible in this PID namespace.
    pub(crate) pid: Option<u32>,
}
