//! Why a process is not confined as it should be.

use palisade_plan::Path;
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
}
