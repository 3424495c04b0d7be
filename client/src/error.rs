//! The errors that can keep a request from being answered. Runs in the agent's process.

use palisade_programs::{NotFound, Obstacle, SearchedPath};
use palisade_protocol::{CallResult, ErrorCode, NameError, WireError, limits::MAX_FRAME};
use std::{io, path::PathBuf, time::Duration};

/// The reason there is no answer, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing listens on the socket, or this user may not use it.
    #[error(
        "can not connect to {}: {source}; is palisaded running, and may this user use its socket? \
         Client::embedded() needs no running daemon",
        path.display()
    )]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The program of the daemon to embed was not found.
    #[error("{}", not_found(.0))]
    DaemonNotFound(#[from] NotFound),
    /// The daemon to embed could not be started.
    #[error("can not start {}: {source}; is it a program this user may run?", path.display())]
    DaemonNotStarted {
        /// The program's path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The embedded daemon did not end by itself and was killed.
    #[error("the embedded daemon did not end within {0:?} and was killed; see its messages")]
    DaemonStuck(Duration),
    /// The socket itself failed before the first message.
    #[error("can not use the socket: {0}")]
    Socket(#[source] io::Error),
    /// The daemon sent something that this client does not understand.
    #[error(
        "the daemon's answer is not understood: {0}; are client and daemon from the same release?"
    )]
    Protocol(String),
    /// The daemon refused or failed the request, and says why.
    #[error(transparent)]
    Remote(#[from] WireError),
    /// A call was made and did not succeed, in a method that only returns a value on success.
    #[error("{}", failed(.0))]
    Failed(Box<CallResult>),
    /// The connection ended first. Whether the call ran is unknown.
    #[error("the connection to the daemon ended ({0}); reconnect() makes a new one")]
    Disconnected(String),
    /// The request is larger than a frame may be.
    #[error(
        "the request is larger than the {MAX_FRAME} bytes of a frame; send large content with \
         write_bytes or as stdin, which are sent in pieces"
    )]
    TooLarge,
    /// The arguments have no JSON form.
    #[error("the arguments can not be written as JSON: {0}")]
    Arguments(#[source] serde_json::Error),
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The attachment could not be read; the call was cancelled.
    #[error("can not read the call's attachment: {0}; the call was cancelled")]
    Attachment(#[source] io::Error),
    /// The file is not text.
    #[error("{} is not UTF-8 text; read_bytes returns its bytes", .0.display())]
    NotText(PathBuf),
    /// The workspace's path can not be made absolute.
    #[error("can not make {} an absolute path: {source}; name the directory in full", path.display())]
    Workspace {
        /// The path as given.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A client that was created from a stream can not connect again.
    #[error(
        "this client was created from a stream and can not connect again; create a new \
         one with Client::from_stream"
    )]
    NotReconnectable,
    /// A session that ends with its connection can not be resumed.
    #[error(
        "this session ends with its connection; open one with Open::resumable, on a daemon that \
         listens on a socket"
    )]
    NotResumable,
}

impl Error {
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

/// Says what to set. A path that exists and can not be used is named with the reason.
fn not_found(missing: &NotFound) -> String {
    let absent = |searched: &&SearchedPath| matches!(searched.obstacle, Obstacle::Absent);
    let blocked: Vec<_> = missing
        .searched
        .iter()
        .filter(|searched| !absent(searched))
        .map(ToString::to_string)
        .collect();
    let blocked = match blocked.as_slice() {
        [] => String::new(),
        blocked => format!(" ({})", blocked.join(", ")),
    };
    let near = missing.searched.iter().find(absent).and_then(|searched| searched.path.parent());
    let near = near.map(|near| format!(" into {}", near.display())).unwrap_or_default();
    let name = &missing.name;
    format!("{name} was not found{blocked}; set PALISADE_DAEMON to its path, or install it{near}")
}

fn failed(result: &CallResult) -> String {
    match &result.error {
        Some(error) => format!("{}: {error}", result.tool),
        None => format!("{} did not succeed and gave no reason", result.tool),
    }
}
