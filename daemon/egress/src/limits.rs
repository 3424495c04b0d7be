//! The times and sizes that bound what a session's program can make the room hold.

use std::time::Duration;

/// Most bytes of the head of an HTTP message.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// Lookups of names that a session may have under way at once.
pub(crate) const MAX_LOOKUPS: usize = 32;

/// Threads that look up names, for all sessions.
pub(crate) const RESOLVER_THREADS: usize = 16;

/// Lookups by the host's resolver that a session may have under way at once.
pub(crate) const MAX_RESOLVING: usize = 4;

/// Pages that the room gets at once, for all sessions.
pub(crate) const MAX_FETCHES: usize = 8;

/// Most addresses of a name that are tried.
pub(crate) const MAX_ADDRESSES: usize = 8;

/// The times that bound a connection. Tests use shorter ones.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The time in which a program must say where it wants to go, or send a request's head or a
    /// ClientHello.
    pub handshake: Duration,
    /// The time for which the beginning of a line is held back that may become an HTTP request.
    pub first_line: Duration,
    /// The time in which a name must be looked up.
    pub lookup: Duration,
    /// The time in which one address must answer.
    pub dial: Duration,
    /// The time after which a connection ends if nothing moves.
    pub idle: Duration,
    /// The time in which a host must send a page.
    pub page: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(30),
            first_line: Duration::from_millis(500),
            lookup: Duration::from_secs(20),
            dial: Duration::from_secs(10),
            idle: Duration::from_secs(15 * 60),
            page: Duration::from_secs(60),
        }
    }
}
