//! The errors that keep the analyst from answering at all.

use std::path::PathBuf;

/// The reason why no analyst runs.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The process could not be started.
    #[error("can not start {}: {source}; build or install the whole of Palisade", path.display())]
    Start {
        /// The path of the program.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The process was started, but does not answer.
    #[error("{} does not come up: {why}", path.display())]
    Useless {
        /// The path of the program.
        path: PathBuf,
        /// The observed failure.
        why: String,
    },
}
