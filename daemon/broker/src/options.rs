//! What was typed: the command line and the configuration file. Nothing is touched here but that
//! file. Broker.

use clap::Parser;
use serde::Deserialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The daemon that AI agents run their tools through, confined.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "palisaded", version, about)]
pub struct Options {
    /// Configuration file; the same keys as these options. Else /etc/palisade/palisaded.toml for
    /// root, $XDG_CONFIG_HOME/palisade/palisaded.toml for others, if it exists
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read configuration and profiles, say what would be done, and end
    #[arg(long)]
    pub check: bool,
    /// The agent socket [default: /run/palisade/agent.sock for root, else
    /// $XDG_RUNTIME_DIR/palisade/agent.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The operator socket, where checkpoints are answered [default: operator.sock beside the agent
    /// socket]
    #[arg(long, value_name = "PATH")]
    pub operator_socket: Option<PathBuf>,
    /// The provider socket, where other processes register tools [default: provider.sock beside the
    /// agent socket]
    #[arg(long, value_name = "PATH")]
    pub provider_socket: Option<PathBuf>,
    /// A directory of profiles; may be given several times
    #[arg(long, value_name = "DIR")]
    pub profiles: Vec<PathBuf>,
    /// Where spools and the audit log are kept [default: /var/lib/palisade for root, else $XDG_STATE_HOME/palisade]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// When audit records are forced to the disk: `always` (before each call, milliseconds each)
    /// or within a time. They survive the daemon's end in any case; this is for a loss of power
    /// [default: 50ms]
    #[arg(long, value_name = "WHEN")]
    pub audit_sync: Option<palisade_audit::Sync>,
    /// Whom the daemon becomes if it is started by root [default: palisade, else a free uid]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The socket of a launcher that is a service of its own; else one is started
    #[arg(long, value_name = "PATH")]
    pub launcher_socket: Option<PathBuf>,
    /// Serve the one client that is connected to standard input, and end with it
    #[arg(long)]
    pub embedded: bool,
    /// With --embedded, hear the one operator who is connected to standard output
    #[arg(long, requires = "embedded")]
    pub operator_stdout: bool,
    /// What to log, as in RUST_LOG: `info`, `palisade_broker=debug`, ...
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
}

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ConfigFile {
    socket: Option<PathBuf>,
    operator_socket: Option<PathBuf>,
    provider_socket: Option<PathBuf>,
    profiles: Vec<PathBuf>,
    state: Option<PathBuf>,
    audit_sync: Option<palisade_audit::Sync>,
    user: Option<String>,
    launcher_socket: Option<PathBuf>,
    log: Option<String>,
}

/// Why the configuration is no good.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It could not be read.
    #[error("can not read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It says something that is not known, or not as it should be.
    #[error("{path}:{line}: {why}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

impl Options {
    /// Adds what the configuration file says and the command line does not.
    pub(crate) fn with_file(self, default: Option<&Path>) -> Result<Self, ConfigError> {
        let Some(path) = self.config.as_deref().or(default) else { return Ok(self) };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.config.is_none() => {
                return Ok(self);
            }
            Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
        };
        let file: ConfigFile = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            let why = error.message().to_owned();
            ConfigError::Invalid { path: path.to_owned(), line, why }
        })?;
        Ok(Self {
            socket: self.socket.or(file.socket),
            operator_socket: self.operator_socket.or(file.operator_socket),
            provider_socket: self.provider_socket.or(file.provider_socket),
            operator_stdout: self.operator_stdout,
            profiles: if self.profiles.is_empty() { file.profiles } else { self.profiles },
            state: self.state.or(file.state),
            audit_sync: self.audit_sync.or(file.audit_sync),
            user: self.user.or(file.user),
            launcher_socket: self.launcher_socket.or(file.launcher_socket),
            log: self.log.or(file.log),
            config: self.config,
            check: self.check,
            embedded: self.embedded,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, options: Options) -> Result<Options, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("palisaded.toml");
        fs::write(&path, text).unwrap();
        options.with_file(Some(&path))
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let typed = Options { socket: Some("/typed".into()), ..Options::default() };
        let options = with("socket = \"/file\"\nstate = \"/state\"\n", typed).unwrap();
        assert_eq!(options.socket.as_deref(), Some(Path::new("/typed")));
        assert_eq!(options.state.as_deref(), Some(Path::new("/state")));
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_line() {
        let error = with("# a comment\nsocket = \"/a\"\nsokcet = \"/b\"\n", Options::default());
        match error {
            Err(ConfigError::Invalid { line: 3, why, .. }) => {
                assert!(why.contains("sokcet"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            with("\n\nuser = 3\n", Options::default()),
            Err(ConfigError::Invalid { line: 3, .. })
        ));
    }

    #[test]
    fn only_the_default_file_may_be_missing() {
        let missing = PathBuf::from("/nonexistent/palisaded.toml");
        Options::default().with_file(Some(&missing)).unwrap();
        let named = Options { config: Some(missing), ..Options::default() };
        assert!(matches!(named.with_file(None), Err(ConfigError::Read { .. })));
    }

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory as _;
        Options::command().debug_assert();
    }
}
