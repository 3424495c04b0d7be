//! The repository around a workspace that is a directory in the working tree of git. Runs in the
//! cell.

use std::{fs::File, sync::Arc};

/// The repository around a workspace. Its directory is not in the session: only its index is, and
/// only this process reads that.
#[derive(Debug, Clone)]
pub struct OuterRepository {
    /// The workspace's path in the working tree.
    pub prefix: Vec<u8>,
    /// The index as it was when the session began; `None` if it can not be read.
    pub index: Option<Arc<File>>,
}
