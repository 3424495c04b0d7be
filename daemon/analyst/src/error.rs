//! What keeps the analyst from answering at all.

use std::path::PathBuf;

/// Why there is no analyst.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// It could not be started.
    #[error("can not start {}: {source}; build or install the whole of Palisade", path.display())]
    Start {
        /// Its path.
        path: PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// It was started and did not come up.
    #[error("{} does not come up: {why}", path.display())]
    Useless {
        /// Its path.
        path: PathBuf,
        /// What it did instead.
        why: String,
    },
}
