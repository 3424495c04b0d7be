//! Why the daemon did not start, or stopped serving. Broker.

use crate::{
    analyst::NoAnalyst, launcher::LauncherError, launcher_process::LauncherProcessError,
    listen::ListenError, privilege::PrivilegeError, settings::SettingsError, state::StateError,
    tools::RegistryError,
};
use palisade_audit::AuditError;
use std::io;

/// `EX_CONFIG`: the status for a bad configuration.
const BAD_CONFIGURATION: u8 = 78;

/// Why the daemon did not start, or stopped serving.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options or the configuration.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The agent socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Standard input.
    #[error("with --embedded, standard input must be a connected Unix stream socket")]
    NotEmbedded,
    /// Standard output.
    #[error("with --operator-stdout, standard output must be a connected Unix stream socket")]
    NotOperator,
    /// The service manager.
    #[error("the service manager handed over sockets, but not the agents'; name it `agent`")]
    NotHanded,
    /// The state directory.
    #[error(transparent)]
    State(#[from] StateError),
    /// The audit log.
    #[error("{0}; nothing runs that is not recorded")]
    Audit(#[from] AuditError),
    /// The analyst.
    #[error(transparent)]
    Analyst(#[from] NoAnalyst),
    /// The launcher's process.
    #[error(transparent)]
    Process(#[from] LauncherProcessError),
    /// The launcher.
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    /// Privilege that is left.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// A defect in the tools.
    #[error(transparent)]
    Tools(#[from] RegistryError),
    /// The runtime.
    #[error("can not {0}")]
    Io(&'static str, #[source] io::Error),
}

impl StartError {
    /// The exit status.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Settings(_) => BAD_CONFIGURATION,
            Self::Listen(error) if error.is_unsafe() => BAD_CONFIGURATION,
            Self::State(StateError::NotOwn { .. } | StateError::Place(_)) => BAD_CONFIGURATION,
            Self::Listen(_)
            | Self::NotEmbedded
            | Self::NotOperator
            | Self::NotHanded
            | Self::State(_)
            | Self::Audit(_)
            | Self::Analyst(_)
            | Self::Process(_)
            | Self::Launcher(_)
            | Self::Privilege(_)
            | Self::Tools(_)
            | Self::Io(..) => 1,
        }
    }
}
