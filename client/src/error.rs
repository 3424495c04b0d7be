//! The errors that can keep a request from being answered. Runs in the agent's process.

use palisade_programs::{NotFound, Obstacle, SearchedPath};
use palisade_protocol::{CallResult, ErrorCode, NameError, WireError, limits::MAX_FRAME};
use std::{fmt, io, path::PathBuf, time::Duration};

/// The reason there is no answer, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing listens on the socket, or this user may not use it.
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The program of the daemon to embed was not found.
    DaemonNotFound(#[from] NotFound),
    /// The daemon to embed could not be started.
    DaemonNotStarted {
        /// The program's path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The embedded daemon did not end by itself and was killed.
    DaemonStuck(Duration),
    /// The socket itself failed before the first message.
    Socket(#[source] io::Error),
    /// The daemon sent something that this client does not understand.
    Protocol(String),
    /// The daemon refused or failed the request, and says why.
    Remote(#[from] WireError),
    /// A call was made and did not succeed, in a method that only returns a value on success.
    Failed(Box<CallResult>),
    /// The connection ended first. Whether the call ran is unknown.
    Disconnected(String),
    /// The request is larger than a frame may be.
    TooLarge,
    /// The arguments have no JSON form.
    Arguments(#[source] serde_json::Error),
    /// The name is not valid.
    Name(#[from] NameError),
    /// The attachment could not be read; the call was cancelled.
    Attachment(#[source] io::Error),
    /// The file is not text.
    NotText(PathBuf),
    /// The workspace's path can not be made absolute.
    Workspace {
        /// The path as given.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A client that was created from a stream can not connect again.
    NotReconnectable,
    /// A session that ends with its connection can not be resumed.
    NotResumable,
}

/// Formats the message and, after a semicolon, the hint.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = self.hint();
        match hint.is_empty() {
            true => f.write_str(&self.message()),
            false => write!(f, "{}; {hint}", self.message()),
        }
    }
}

impl Error {
    /// Returns what happened, without the [hint](Self::hint).
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Connect { path, source } => {
                format!("can not connect to {}: {source}", path.display())
            }
            Self::DaemonNotFound(missing) => not_found(missing),
            Self::DaemonNotStarted { path, source } => {
                format!("can not start {}: {source}", path.display())
            }
            Self::DaemonStuck(time) => {
                format!("the embedded daemon did not end within {time:?} and was killed")
            }
            Self::Socket(error) => format!("can not use the socket: {error}"),
            Self::Protocol(why) => format!("the daemon's answer is not understood: {why}"),
            // With the daemon's own hint.
            Self::Remote(error) => error.to_string(),
            Self::Failed(result) => failed(result),
            Self::Disconnected(why) => format!("the connection to the daemon ended ({why})"),
            Self::TooLarge => {
                format!("the request is larger than the {MAX_FRAME} bytes of a frame")
            }
            Self::Arguments(error) => format!("the arguments can not be written as JSON: {error}"),
            Self::Name(error) => error.to_string(),
            Self::Attachment(error) => format!("can not read the call's attachment: {error}"),
            Self::NotText(path) => format!("{} is not UTF-8 text", path.display()),
            Self::Workspace { path, source } => {
                format!("can not make {} an absolute path: {source}", path.display())
            }
            Self::NotReconnectable => {
                "this client was created from a stream and can not connect again".to_owned()
            }
            Self::NotResumable => "this session ends with its connection".to_owned(),
        }
    }

    /// Returns what a user of this library can do; empty if there is nothing to say, or if the daemon
    /// says it in its own error.
    #[must_use]
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::DaemonNotFound(missing) => return install(missing),
            Self::Connect { .. } => {
                "is palisaded running, and may this user use its socket? Client::embedded() needs \
                 no running daemon"
            }
            Self::DaemonNotStarted { .. } => "is it a program this user may run?",
            Self::DaemonStuck(_) => "see its messages",
            Self::Protocol(_) => "are client and daemon from the same release?",
            Self::Disconnected(_) => "reconnect() makes a new one",
            Self::TooLarge => {
                "send large content with write_bytes or as stdin, which are sent in pieces"
            }
            Self::Attachment(_) => "the call was cancelled",
            Self::NotText(_) => "read_bytes returns its bytes",
            Self::Workspace { .. } => "name the directory in full",
            Self::NotReconnectable => "create a new one with Client::from_stream",
            Self::NotResumable => {
                "open one with Open::resumable, on a daemon that listens on a socket"
            }
            Self::Socket(_)
            | Self::Remote(_)
            | Self::Failed(_)
            | Self::Arguments(_)
            | Self::Name(_) => "",
        };
        hint.to_owned()
    }

    /// Returns the daemon's own error, if the daemon refused or failed the request.
    #[must_use]
    pub fn wire(&self) -> Option<&WireError> {
        match self {
            Self::Remote(error) => Some(error),
            Self::Failed(result) => result.error.as_ref(),
            Self::Connect { .. }
            | Self::DaemonNotFound(_)
            | Self::DaemonNotStarted { .. }
            | Self::DaemonStuck(_)
            | Self::Socket(_)
            | Self::Protocol(_)
            | Self::Disconnected(_)
            | Self::TooLarge
            | Self::Arguments(_)
            | Self::Name(_)
            | Self::Attachment(_)
            | Self::NotText(_)
            | Self::Workspace { .. }
            | Self::NotReconnectable
            | Self::NotResumable => None,
        }
    }

    /// Returns the code of the daemon's error, for programs.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        self.wire().map(|error| error.code)
    }

    /// Returns `true` if an [answer](crate::Operator::answer) was accepted and only remembering it
    /// was refused.
    #[must_use]
    pub fn is_remember_refusal(&self) -> bool {
        matches!(self, Self::Remote(error) if error.code == ErrorCode::Denied)
    }
}

/// Says that a program was not found. A path that exists and can not be used is named with the reason.
fn not_found(missing: &NotFound) -> String {
    let blocked: Vec<_> = missing
        .searched
        .iter()
        .filter(|searched| !is_absent(searched))
        .map(ToString::to_string)
        .collect();
    let blocked = match blocked.as_slice() {
        [] => String::new(),
        blocked => format!(" ({})", blocked.join(", ")),
    };
    format!("{} was not found{blocked}", missing.name)
}

/// Says where to install a program that was not found.
fn install(missing: &NotFound) -> String {
    let near = missing.searched.iter().find(|searched| is_absent(searched));
    let near = near.and_then(|searched| searched.path.parent());
    let near = near.map(|near| format!(" into {}", near.display())).unwrap_or_default();
    format!("set PALISADE_DAEMON to its path, or install it{near}")
}

const fn is_absent(searched: &SearchedPath) -> bool {
    matches!(searched.obstacle, Obstacle::Absent)
}

fn failed(result: &CallResult) -> String {
    match &result.error {
        Some(error) => format!("{}: {error}", result.tool),
        None => format!("{} did not succeed and gave no reason", result.tool),
    }
}
