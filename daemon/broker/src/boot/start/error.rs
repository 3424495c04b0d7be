//! The errors for which the daemon does not start, or stops serving. Runs in the broker.

use super::farewell;
use crate::{
    boot::{
        launcher_process::LauncherProcessError, privilege::PrivilegeError, settings::SettingsError,
        state::StateError,
    },
    cells::launcher::LauncherError,
    front::listen::ListenError,
    network::credentials::CredentialFileError,
    tools::RegistryError,
};
use palisade_audit::{AuditError, KeyError};
use palisade_programs::NotFound;
use std::{error::Error as _, io, os::unix::net::UnixStream};

/// `EX_CONFIG`: the exit status for an invalid configuration.
const BAD_CONFIGURATION: u8 = 78;

/// An error for which the daemon does not start, or stops serving.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options or the configuration are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A socket could not be created.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Standard input is not a client's socket.
    #[error("with --embedded, standard input must be a connected Unix stream socket")]
    NotEmbedded,
    /// Standard input is not a listening socket.
    #[error("with --linger-ms, standard input must be a listening Unix stream socket with a path")]
    NotListening,
    /// Standard output is not an operator's socket.
    #[error("with --operator-stdout, standard output must be a connected Unix stream socket")]
    NotOperator,
    /// The service manager did not pass the agent socket.
    #[error("the service manager passed sockets, but no agent socket; name it `agent`")]
    NotHanded,
    /// The configuration names an address for metrics, and the service manager opens all sockets.
    #[error(
        "metrics.listen has no effect in the service, whose sockets systemd opens; leave it out, \
         and run `systemctl enable --now palisade-metrics.socket` (that file says how to have a \
         loopback address)"
    )]
    MetricsOfService,
    /// The state directory can not be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The audit log can not be opened.
    #[error("{0}; nothing runs that is not recorded")]
    Audit(#[from] AuditError),
    /// The key that signs the audit log can not be used.
    #[error("audit.key: {0}")]
    Key(#[from] KeyError),
    /// The service manager passed no credentials, and the key is to be one.
    #[error(
        "audit.key is \"credential:{0}\", and the service manager passed no credentials; add \
         LoadCredential={0}:FILE to the unit"
    )]
    NoCredentials(String),
    /// The directory of credentials can not be read.
    #[error(transparent)]
    Credentials(#[from] CredentialFileError),
    /// The analyst, which parses shell lines, is not installed.
    #[error("{0}; build or install the whole of Palisade")]
    Analyst(NotFound),
    /// The launcher could not be started.
    #[error(transparent)]
    Process(#[from] LauncherProcessError),
    /// The launcher can not be used.
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    /// Privilege could not be given up.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// The tools are defective.
    #[error(transparent)]
    Tools(#[from] RegistryError),
    /// The client of an embedded daemon was already told why.
    #[error(transparent)]
    Told(Box<Self>),
    /// A system call failed.
    #[error("can not {0}")]
    Io(&'static str, #[source] io::Error),
}

impl StartError {
    /// Reports the error to the client of an embedded daemon, if there is one that listens.
    pub(super) fn tell(self, client: Option<UnixStream>) -> Self {
        match client.map(|client| farewell::tell(&client, &self.text())) {
            Some(Ok(())) => Self::Told(Box::new(self)),
            Some(Err(_)) | None => self,
        }
    }

    /// Returns the error with all its causes, down to the kernel's error.
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

    /// Returns the exit status.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Told(error) => error.status(),
            Self::Settings(_)
            | Self::Key(_)
            | Self::NoCredentials(_)
            | Self::Credentials(_)
            | Self::MetricsOfService => BAD_CONFIGURATION,
            Self::Listen(error) if error.is_unsafe() => BAD_CONFIGURATION,
            Self::State(StateError::NotOwn { .. } | StateError::Place(_)) => BAD_CONFIGURATION,
            Self::Listen(_)
            | Self::NotEmbedded
            | Self::NotListening
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
