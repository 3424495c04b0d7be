//! A connection's number, and whose it is. Broker.

/// Numbers a connection for as long as the daemon runs.
pub(crate) type ConnectionNumber = u64;

/// Whose a connection is, as the kernel said when it was accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// None where it can not be seen from here.
    pub(crate) pid: Option<u32>,
}
