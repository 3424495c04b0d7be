//! Why the daemon did not start, or stopped serving. Broker.

use super::farewell;
use crate::{
    launcher::LauncherError, launcher_process::LauncherProcessError, listen::ListenError,
    privilege::PrivilegeError, settings::SettingsError, state::StateError, tools::RegistryError,
};
use palisade_audit::AuditError;
use palisade_programs::NotFound;
use std::{error::Error as _, io, os::unix::net::UnixStream};

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
    /// There is nobody to analyse shell lines.
    #[error("{0}; build or install the whole of Palisade")]
    Analyst(NotFound),
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
    /// The one client was told why.
    #[error(transparent)]
    Told(Box<Self>),
    /// The runtime.
    #[error("can not {0}")]
    Io(&'static str, #[source] io::Error),
}

impl StartError {
    /// Has the one client of a private daemon know, if it has one that listens.
    pub(super) fn tell(self, client: Option<UnixStream>) -> Self {
        match client.map(|client| farewell::tell(&client, &self.text())) {
            Some(Ok(())) => Self::Told(Box::new(self)),
            Some(Err(_)) | None => self,
        }
    }

    /// The whole of it, down to the kernel's answer.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.to_string();
        let mut source = self.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }

    /// The exit status.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Told(error) => error.status(),
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
