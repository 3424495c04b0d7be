//! Why the settings are no good. Broker.

use crate::{config::ConfigError, ownership::UnsafePlace, privilege::PrivilegeError};
use palisade_policy::ProfileError;
use std::{io, path::PathBuf};

/// Why the settings are no good.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The configuration file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A directory of profiles can not be read.
    #[error("can not read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Others could change the configuration or a profile.
    #[error(transparent)]
    Place(#[from] UnsafePlace),
    /// A profile; the error names its file.
    #[error(transparent)]
    Profiles(#[from] ProfileError),
    /// Whom to become.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// Ports for a launcher that somebody else starts.
    #[error(
        "allow_ports is for a launcher that this daemon starts, and launcher_socket names another: \
         give --allow-ports to that one, in its unit"
    )]
    NotOurLauncher,
    /// There is no place for the socket.
    #[error(
        "XDG_RUNTIME_DIR is not set, so there is no place for the agent socket; give one with --socket"
    )]
    NoRuntimeDirectory,
}
