//! Reasons why a process could not be confined as planned. Runs in the cell.

use palisade_plan::{Path, cell::Fault};
use std::io;

/// The reason why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepFailure {
    /// A system call failed.
    #[error("{act}: {source}")]
    Kernel {
        /// The act that was attempted.
        act: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The workspace can not be used.
    #[error("workspace {path:?}: {why}")]
    Workspace {
        /// The path of the workspace.
        path: Path,
        /// The reason.
        why: String,
    },
    /// A mount can not show its files as owned by the session.
    #[error(
        "{path:?} is writable for a session with its own uid, but the files of {mount:?} ({kind}) \
         can not be mapped to that uid: {why}"
    )]
    Mount {
        /// The path that the session was to write.
        path: Path,
        /// The mount point.
        mount: Path,
        /// The file system type.
        kind: String,
        /// The kernel's error.
        why: String,
    },
    /// A step could not be set up for a reason other than a failed system call.
    #[error("{0}")]
    Setup(String),
    /// A restriction was set up, and a check shows that it is not in force.
    #[error("{0}")]
    NotInForce(String),
}

impl StepFailure {
    /// Returns a closure for `map_err` that wraps the error of a failed system call.
    pub fn kernel<E: Into<io::Error>>(act: impl Into<String>) -> impl FnOnce(E) -> Self {
        let act = act.into();
        move |source| Self::Kernel { act, source: source.into() }
    }

    /// Returns which party has to fix this failure: host, workspace or mount.
    pub(crate) const fn fault(&self) -> Fault {
        match self {
            Self::Workspace { .. } => Fault::Workspace,
            Self::Mount { .. } => Fault::Mount,
            Self::Kernel { .. } | Self::Setup(_) | Self::NotInForce(_) => Fault::Host,
        }
    }
}
