//! The daemon's sockets and who is on them. Runs in the broker.
//!
//! - Owns: listening, connections, frames, requests in and replies out, opening a session,
//!   proofs of profiles, sessions between two connections, the state that all connections
//!   share.
//! - May import: pipeline, changes, network, approval, cells, tools, telemetry, stores, base.
//! - Imported by: boot.

pub(crate) mod closed;
pub(crate) mod connection;
pub(crate) mod exposition;
pub(crate) mod flight;
pub(crate) mod linger;
pub(crate) mod listen;
pub(crate) mod lobby;
pub(crate) mod open;
pub(crate) mod order;
pub(crate) mod overview;
pub(crate) mod prove;
pub(crate) mod scrape;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod status;
pub(crate) mod wire;
