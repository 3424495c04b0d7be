//! What a call will change. Broker, pure.

use super::content::Content;
use palisade_plan::change::{Conflicts, Replacement, WriteMode};
use palisade_policy::Profile;
use palisade_protocol::CallId;

/// What a call will change. Paths are as they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeTask {
    Write {
        path: Vec<u8>,
        mode: WriteMode,
        content: Content,
    },
    Edit {
        files: Vec<Edited>,
    },
    Patch {
        patch: String,
    },
    Delete {
        path: Vec<u8>,
        recursive: bool,
        kept: Kept,
    },
    Move {
        from: Vec<u8>,
        to: Vec<u8>,
        overwrite: bool,
    },
    MakeDir {
        path: Vec<u8>,
    },
    Undo {
        which: Undone,
        force: bool,
    },
    /// What a program did in its transaction, but for these paths.
    Settle {
        without: Vec<Vec<u8>>,
        kept: Kept,
        conflicts: Conflicts,
    },
}

/// The edits of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edited {
    pub(crate) path: Vec<u8>,
    pub(crate) edits: Vec<Replacement>,
}

/// What becomes of what is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    ForUndo,
    Not,
}

/// What is to be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Undone {
    /// This call.
    Call(CallId),
    /// All calls of its session after this one.
    After(CallId),
}

impl ChangeTask {
    /// The paths that it names.
    pub(crate) fn paths(&self) -> Vec<&[u8]> {
        match self {
            Self::Write { path, .. } | Self::Delete { path, .. } | Self::MakeDir { path } => {
                vec![path]
            }
            Self::Edit { files } => files.iter().map(|file| file.path.as_slice()).collect(),
            Self::Move { from, to, .. } => vec![from, to],
            Self::Patch { .. } | Self::Undo { .. } | Self::Settle { .. } => Vec::new(),
        }
    }

    /// Whether its content follows.
    pub(crate) const fn is_attached(&self) -> bool {
        matches!(self, Self::Write { content: Content::Attached, .. })
    }

    /// Whether what it replaces is kept for an undo.
    pub(crate) const fn is_kept(&self) -> bool {
        !matches!(self, Self::Delete { kept: Kept::Not, .. } | Self::Settle { kept: Kept::Not, .. })
    }

    /// Whether it leaves a journal if it is cut off, which is believed only of a change that is known
    /// to have been begun.
    pub(crate) const fn is_journalled(&self) -> bool {
        matches!(self, Self::Settle { .. })
    }

    /// How large a file may be afterwards.
    pub(crate) fn most(&self, profile: &Profile) -> u64 {
        match self {
            // A program's files are bounded by limits.file_size and limits.transaction.
            Self::Settle { .. } => u64::MAX,
            Self::Write { .. }
            | Self::Edit { .. }
            | Self::Patch { .. }
            | Self::Delete { .. }
            | Self::Move { .. }
            | Self::MakeDir { .. }
            | Self::Undo { .. } => profile.file_bytes(),
        }
    }
}
