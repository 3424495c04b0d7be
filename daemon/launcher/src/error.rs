//! The errors with which the launcher ends.

use crate::{privilege::PrivilegeError, spawn::SpawnError, uids::UidsError};
use palisade_channel::ChannelError;
use palisade_programs::NotFound;
use rustix::io::Errno;

/// An error with which the launcher ends.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// Standard input is not a socket of the right kind.
    #[error(
        "standard input is not a sequenced-packet socket; palisaded or systemd starts this program"
    )]
    NoSocket,
    /// The kernel refused something.
    #[error("{0}: {1}")]
    Kernel(&'static str, #[source] Errno),
    /// The user who may connect does not exist.
    #[error("there is no user {0}; create it, or see --broker-user")]
    NoUser(String),
    /// The user who may connect is the launcher's own user.
    #[error(
        "the launcher itself runs as {0}; the broker must run as another user, see --broker-user"
    )]
    SharedUser(String),
    /// The privilege could not be determined or reduced.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// The launcher could not be started again in its own PID namespace.
    #[error("can not start again in a PID namespace: {0}")]
    Nest(#[source] std::io::Error),
    /// The inner launcher ended; it has reported why.
    #[error("the inner launcher ended with status {code:?}, signal {signal:?}")]
    Inner {
        /// The exit status.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// Sessions can not have their own uids.
    #[error(transparent)]
    Uids(#[from] UidsError),
    /// No cell can be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The connection to the broker is broken.
    #[error("broker: {0}")]
    Broker(#[from] ChannelError),
    /// The broker violated the protocol.
    #[error("refused the broker: {0}")]
    Refused(String),
    /// The program for cells was not found.
    #[error("{0}; build or install the whole of Palisade, or see --cell")]
    NoCell(#[from] NotFound),
    /// The program given for cells can not be opened.
    #[error("can not open {0}, which --cell names: {1}")]
    CellProgram(String, #[source] std::io::Error),
}
