//! Why the launcher ended.

use crate::{privilege::PrivilegeError, spawn::SpawnError, uids::UidsError};
use palisade_channel::ChannelError;
use palisade_programs::NotFound;
use rustix::io::Errno;

/// Why the launcher ended.
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
    /// The user that may connect does not exist.
    #[error("there is no user {0}; create it, or see --broker-user")]
    NoUser(String),
    /// The user that may connect is the launcher's own.
    #[error(
        "{0} is whom the launcher runs as; the broker's user must be another, see --broker-user"
    )]
    SharedUser(String),
    /// Privilege could not be settled.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// The launcher could not be started again in a PID namespace of its own.
    #[error("start again in a PID namespace: {0}")]
    Nest(#[source] std::io::Error),
    /// The launcher inside ended; it said why.
    #[error("ended with status {code:?}, signal {signal:?}")]
    Inner {
        /// Its status.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// Sessions can not have uids of their own.
    #[error(transparent)]
    Uids(#[from] UidsError),
    /// No cell can be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The broker is cut off.
    #[error("broker: {0}")]
    Broker(#[from] ChannelError),
    /// The broker broke the rules.
    #[error("broker refused: {0}")]
    Refused(String),
    /// There is no program to make cells of.
    #[error("{0}; build or install the whole of Palisade, or see --cell")]
    NoCell(#[from] NotFound),
    /// The program that was named for cells can not be opened.
    #[error("can not open {0}, which --cell names: {1}")]
    CellProgram(String, #[source] std::io::Error),
}
