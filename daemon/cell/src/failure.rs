//! Why a process is not confined as it should be.

use palisade_plan::{Path, cell::Fault};
use std::io;

/// Why a step could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum StepFailure {
    /// The kernel refused an act.
    #[error("{act}: {source}")]
    Kernel {
        /// What was being done.
        act: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The workspace can not be used.
    #[error("workspace {path:?}: {why}")]
    Workspace {
        /// The workspace.
        path: Path,
        /// Why not.
        why: String,
    },
    /// A mount whose files can not be shown as the session's own.
    #[error(
        "{path:?} is to be written by a session with a uid of its own, and {mount:?} ({kind}) can not \
         show its files as the session's: {why}"
    )]
    Mount {
        /// What the session was to have.
        path: Path,
        /// The mount.
        mount: Path,
        /// Of which file system.
        kind: String,
        /// The kernel's answer.
        why: String,
    },
    /// What is in force afterwards is not what was asked for.
    #[error("{0}")]
    NotInForce(String),
}

impl StepFailure {
    /// For `map_err`: a failed act of the kernel.
    pub fn kernel<E: Into<io::Error>>(act: impl Into<String>) -> impl FnOnce(E) -> Self {
        let act = act.into();
        move |source| Self::Kernel { act, source: source.into() }
    }

    /// Whose fault it was.
    pub(crate) const fn fault(&self) -> Fault {
        match self {
            Self::Workspace { .. } => Fault::Workspace,
            Self::Mount { .. } => Fault::Mount,
            Self::Kernel { .. } | Self::NotInForce(_) => Fault::Host,
        }
    }
}
