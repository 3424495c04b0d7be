//! The errors of invalid settings. Runs in the broker.

use crate::boot::{
    config::{ConfigError, ConfigPosition},
    ownership::UnsafePlace,
    privilege::PrivilegeError,
};
use palisade_policy::ProfileError;
use std::{io, path::PathBuf};

/// An error in the settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The configuration file is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A directory of profiles, or a profile, can not be read.
    #[error("can not read {path}")]
    Read {
        /// The path that can not be read.
        path: PathBuf,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// Another user could change the configuration or a profile.
    #[error(transparent)]
    Place(#[from] UnsafePlace),
    /// A profile is invalid; the error names its file.
    #[error(transparent)]
    Profiles(#[from] ProfileError),
    /// Profiles are invalid; the text names the file and line of each error.
    #[error("{0}")]
    Invalid(String),
    /// The user to run as can not be used.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// Ports are configured, but the launcher is started by somebody else.
    #[error(
        "allow_ports applies only to a launcher that this daemon starts, and launcher_socket names \
         another: give --allow-ports to that launcher, in its unit"
    )]
    NotOurLauncher,
    /// The system's configuration allows no daemon but the service.
    #[error(
        "only the service may be used on this host ({at}), and this is a daemon of its own: connect \
         to the service at /run/palisade/agent.sock, as a member of the group palisade-users"
    )]
    PrivateDaemon {
        /// The place that says so.
        at: ConfigPosition,
    },
    /// No directory for the socket is known.
    #[error(
        "XDG_RUNTIME_DIR is not set, so there is no place for the agent socket; give one with --socket"
    )]
    NoRuntimeDirectory,
}
