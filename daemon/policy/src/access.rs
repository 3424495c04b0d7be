//! Access levels for paths, and whether a profile may widen the profile that it extends. Pure: no
//! I/O.

use crate::keys::words;
use palisade_plan::Access;

/// The permission for a profile to allow more than the profile that it extends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widening {
    No,
    Yes,
}

/// The access that a session has below a path. Each variant includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathAccess {
    Read,
    Execute,
    Write,
}

impl PathAccess {
    pub(crate) const fn access(self) -> Access {
        match self {
            Self::Read => Access::Read,
            Self::Execute => Access::Execute,
            Self::Write => Access::Write,
        }
    }
}

/// The protection of a writable directory by transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarding {
    /// The directory is listed in `fs.write`, or can not be changed at all.
    Guarded,
    /// The directory is listed in `fs.unguarded`: changes there take effect at once, and every
    /// receipt says so.
    Unguarded,
}

words! {
    /// The access that a session has to its workspace.
    pub(crate) enum WorkspaceAccess {
        Read = "read",
        Write = "write",
    }
}

impl WorkspaceAccess {
    /// Returns the access below the workspace. Programs in the workspace may be executed in both
    /// cases.
    pub(crate) const fn reach(self) -> PathAccess {
        match self {
            Self::Read => PathAccess::Execute,
            Self::Write => PathAccess::Write,
        }
    }
}
