//! Why there is no plan.

use std::path::PathBuf;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Relative, or with `.`, `..` or NUL in it.
    #[error("{what} {path:?} is not a plain absolute path")]
    NotPlain {
        /// `the workspace` or `the home`.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The root, or a directory of the system's own.
    #[error("{0:?} belongs to the system and can not be a workspace; open a project's directory")]
    System(PathBuf),
    /// A directory that every session has of its own.
    #[error(
        "{0:?} is private to each session and can not be a workspace; open a directory below it"
    )]
    Private(PathBuf),
    /// The home, or a directory with the home in it.
    #[error(
        "{workspace:?} holds the home {home:?} with its keys and tokens and can not be a \
         workspace; open a directory below it"
    )]
    HoldsHome {
        /// What was to be the workspace.
        workspace: PathBuf,
        /// The home in it.
        home: PathBuf,
    },
    /// The profile insists on a path below the home, and there is no home.
    #[error("the profile requires {0:?} below the home, and the user has none")]
    NoHome(String),
}
