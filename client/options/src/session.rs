//! The options that select a daemon and describe a session of it.

use clap::{Args, ValueEnum};
use palisade_client::{Ask, Guard, Open};
use std::{io, path::PathBuf};

/// The options that select a daemon.
#[derive(Debug, Clone, Default, Args)]
pub struct Connection {
    /// The daemon's socket [default: $PALISADE_SOCKET, a running daemon, or a private daemon]
    #[arg(long, value_name = "PATH", help_heading = "Daemon")]
    pub socket: Option<PathBuf>,
    /// A directory of profiles for a private daemon; may be given several times
    #[arg(long, value_name = "DIR", conflicts_with = "socket", help_heading = "Daemon")]
    pub profiles: Vec<PathBuf>,
}

/// The session to open, and the daemon to open it with.
#[derive(Debug, Clone, Args)]
pub struct SessionTerms {
    /// The options that select a daemon.
    #[command(flatten)]
    pub connection: Connection,
    /// The session's profile [default: the daemon's default profile]
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// The directory to work in; it has the same path inside the session
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub workspace: PathBuf,
    /// When to ask for approval; can only be stricter than the profile
    #[arg(long, value_name = "MODE")]
    pub ask: Option<AskMode>,
    /// How the effects of commands are judged; can only be stricter than the profile
    #[arg(long, value_name = "GUARD")]
    pub guard: Option<GuardMode>,
    /// A host to which programs may connect by name, for this session: NAME, *.NAME or NAME:PORT; may
    /// be given several times. Adds to the profile of a private daemon; any other daemon refuses what
    /// the profile does not allow
    #[arg(long, value_name = "NAME")]
    pub allow_domain: Vec<String>,
}

/// The modes of asking for approval, from lax to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AskMode {
    /// Never ask: deny rules still apply
    Never,
    /// Before destructive calls
    Destructive,
    /// Before every call of a tool that is not read-only
    Sensitive,
    /// Before every call
    Always,
}

impl From<AskMode> for Ask {
    fn from(mode: AskMode) -> Self {
        match mode {
            AskMode::Never => Self::Never,
            AskMode::Destructive => Self::Destructive,
            AskMode::Sensitive => Self::Sensitive,
            AskMode::Always => Self::Always,
        }
    }
}

/// The check of the effects of commands, from lax to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GuardMode {
    /// Not at all
    Off,
    /// By its text; a command that is not proven to only read needs approval first
    Text,
    /// By its effects, unless its text shows that it only reads
    Auto,
    /// By its effects, always
    Transaction,
}

impl From<GuardMode> for Guard {
    fn from(mode: GuardMode) -> Self {
        match mode {
            GuardMode::Off => Self::Off,
            GuardMode::Text => Self::Text,
            GuardMode::Auto => Self::Auto,
            GuardMode::Transaction => Self::Transaction,
        }
    }
}

/// The reason a directory can not be the workspace.
#[derive(Debug, thiserror::Error)]
#[error("can not use {} as the workspace: {source}", path.display())]
pub struct WorkspaceError {
    /// The path as given.
    pub path: PathBuf,
    /// The kernel's error.
    pub source: io::Error,
}

impl WorkspaceError {
    /// The advice to the user.
    pub const HINT: &str = "name a directory that exists with --workspace";
}

impl SessionTerms {
    /// Returns the session's options. The workspace must exist; symbolic links in its path are
    /// resolved.
    ///
    /// # Errors
    /// If the workspace does not exist or can not be reached.
    pub fn open(&self) -> Result<Open, WorkspaceError> {
        Ok(self.open_at(self.workspace()?))
    }

    /// Returns the workspace's path with symbolic links resolved. It must exist.
    ///
    /// # Errors
    /// If the workspace does not exist, can not be reached, or is not a directory.
    pub fn workspace(&self) -> Result<PathBuf, WorkspaceError> {
        let path = &self.workspace;
        let failed = |source| WorkspaceError { path: path.clone(), source };
        let real = path.canonicalize().map_err(failed)?;
        // A directory that can not be examined is refused by the session, which says why.
        match real.metadata() {
            Ok(found) if !found.is_dir() => Err(failed(io::ErrorKind::NotADirectory.into())),
            Ok(_) | Err(_) => Ok(real),
        }
    }

    /// Returns the session's options for another workspace.
    pub fn open_at(&self, workspace: PathBuf) -> Open {
        let mut open = Open::new(workspace);
        if let Some(profile) = &self.profile {
            open = open.profile(profile);
        }
        if let Some(ask) = self.ask {
            open = open.ask(ask.into());
        }
        if let Some(guard) = self.guard {
            open = open.guard(guard.into());
        }
        for name in &self.allow_domain {
            open = open.allow_domain(name);
        }
        open
    }
}
