//! The errors of making a launch plan. Pure: no I/O.

use std::path::PathBuf;

/// The reason why no plan could be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The path is relative, or contains `.`, `..` or a NUL.
    #[error("{what} {path:?} is not a plain absolute path")]
    NotPlain {
        /// `the workspace` or `the home`.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The workspace is the root, or a system directory.
    #[error("{0:?} belongs to the system and can not be a workspace; open a project's directory")]
    System(PathBuf),
    /// The workspace is a directory that is private to every session.
    #[error(
        "{0:?} is private to each session and can not be a workspace; open a directory below it"
    )]
    Private(PathBuf),
    /// The workspace is the home, or a directory that contains the home.
    #[error(
        "{workspace:?} contains the home directory {home:?} with its keys and tokens and can not \
         be a workspace; open a directory below it"
    )]
    HoldsHome {
        /// The requested workspace.
        workspace: PathBuf,
        /// The home inside it.
        home: PathBuf,
    },
    /// The profile requires a path below the home, and the user has no home.
    #[error("the profile requires {0:?} below the home directory, and the user has none")]
    NoHome(String),
    /// A socket of the host is inside the workspace.
    #[error(
        "net.host.sockets has {0:?}, which is inside the workspace; let the service listen elsewhere"
    )]
    SocketInWorkspace(PathBuf),
}
