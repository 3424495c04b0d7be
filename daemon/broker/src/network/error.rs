//! Why a session's network can not be served. Runs in the broker.

use super::credentials::CredentialFileError;
use palisade_plan::{BUILD_ID, codec::CodecError, listeners::Listener};
use palisade_protocol::{ErrorCode, WireError};
use std::{io, path::PathBuf};

/// Why a session's network can not be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    /// The program is not installed.
    #[error("{0}; build or install the whole of Palisade")]
    Missing(String),
    /// The program could not be started.
    #[error("can not start {path}: {source}")]
    Start { path: PathBuf, source: io::Error },
    /// The socket of the service could not be connected to.
    #[error("can not connect to the egress room at {path}: {source}")]
    Connect { path: PathBuf, source: io::Error },
    /// The room has ended or closed its socket.
    #[error("the egress room is gone: {0}")]
    Gone(String),
    /// The socket failed.
    #[error("the egress room's socket failed: {0}")]
    Io(#[from] io::Error),
    /// A message could not be encoded or decoded.
    #[error("the egress room sent an invalid message: {0}")]
    Codec(#[from] CodecError),
    /// The room did not answer in time.
    #[error("the egress room did not answer within {0} s")]
    Silent(u64),
    /// The room and the daemon come from different builds.
    #[error(
        "the egress room is build {theirs}, but this daemon is build {BUILD_ID}; install both from \
         the same release and restart both"
    )]
    Build { theirs: String },
    /// The room does not keep to the protocol.
    #[error("the egress room broke the protocol: {0}")]
    Protocol(&'static str),
    /// A credential of a rule can not be used.
    #[error(transparent)]
    Credential(#[from] CredentialFileError),
    /// The cell has another network than the profile wants.
    #[error("the cell's network is {0:?}, or has other listeners than the profile wants")]
    NotHeld(String),
    /// A port of the session could not be published on the host's loopback.
    #[error(
        "port {port} of net.publish.ports can not be listened for on 127.0.0.1: {source} (a service \
         needs a network of its own for it; see docs/network.md)"
    )]
    Publish { port: u16, source: io::Error },
    /// The cell did not send the listeners that its plan has.
    #[error("the cell sent {came} listeners, but its network has {wanted}")]
    Count { came: usize, wanted: usize },
    /// A descriptor that the cell sent is not the listener that it should be.
    #[error("the cell's listener {listener:?} is not one: {why}")]
    Listener { listener: Listener, why: &'static str },
}

impl From<NetworkError> for WireError {
    fn from(error: NetworkError) -> Self {
        let hint = match &error {
            NetworkError::Missing(_)
            | NetworkError::Start { .. }
            | NetworkError::Connect { .. }
            | NetworkError::Gone(_)
            | NetworkError::Io(_)
            | NetworkError::Codec(_)
            | NetworkError::Silent(_)
            | NetworkError::Build { .. }
            | NetworkError::Protocol(_) => {
                "`palisade doctor` shows the egress room; a profile with another net.mode needs none"
            }
            NetworkError::Credential(_) => "docs/network.md says where credentials belong",
            NetworkError::Publish { .. } => "a profile without net.publish.ports does not need it",
            NetworkError::NotHeld(_)
            | NetworkError::Count { .. }
            | NetworkError::Listener { .. } => "`palisade doctor` shows what this host can enforce",
        };
        Self::new(
            ErrorCode::LayerUnavailable,
            format!("the profile's network can not be served: {error}"),
            hint,
        )
    }
}
