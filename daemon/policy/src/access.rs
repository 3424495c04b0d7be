//! What may be done with paths, and whether a profile may allow more than what it extends.

use palisade_plan::Access;
use serde::{Deserialize, Serialize};

/// Whether a profile may allow more than what it extends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widening {
    No,
    Yes,
}

/// What may be done below a path; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    Read,
    Execute,
    Write,
}

impl Reach {
    pub(crate) const fn access(self) -> Access {
        match self {
            Self::Read => Access::Read,
            Self::Execute => Access::Execute,
            Self::Write => Access::Write,
        }
    }
}

/// Whether a directory that can be changed may be outside of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarding {
    /// `fs.write`, or what can not be changed at all.
    Guarded,
    /// `fs.unguarded`: what is changed there takes effect at once, and every receipt says so.
    Unguarded,
}

/// What may be done with the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkspaceAccess {
    Read,
    Write,
}

impl WorkspaceAccess {
    /// Programs of the workspace run either way.
    pub(crate) const fn reach(self) -> Reach {
        match self {
            Self::Read => Reach::Execute,
            Self::Write => Reach::Write,
        }
    }
}
