//! The changes that a call makes to files. Runs in the broker. Pure: no I/O.

use super::content::Content;
use palisade_plan::change::{Conflicts, Replacement, WriteMode};
use palisade_policy::Profile;
use palisade_protocol::CallId;

/// A change that a call makes to files. Paths are as the call gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeTask {
    Write {
        path: Vec<u8>,
        mode: WriteMode,
        content: Content,
    },
    Edit {
        files: Vec<EditedFile>,
    },
    Patch {
        patch: String,
    },
    Delete {
        path: Vec<u8>,
        recursive: bool,
        kept: UndoRetention,
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
        which: UndoTarget,
        force: bool,
    },
    /// Commits the effects of a program's transaction, except for these paths.
    Settle {
        without: Vec<Vec<u8>>,
        kept: UndoRetention,
        conflicts: Conflicts,
    },
}

/// The edits of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditedFile {
    pub(crate) path: Vec<u8>,
    pub(crate) edits: Vec<Replacement>,
}

/// The choice to store deleted content for undo or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UndoRetention {
    ForUndo,
    Not,
}

/// The calls to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UndoTarget {
    /// This call only.
    Call(CallId),
    /// All calls of its session after this one.
    After(CallId),
}

impl ChangeTask {
    /// Returns the paths that the arguments name.
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

    /// Returns `true` if the content follows as an attachment.
    pub(crate) const fn is_attached(&self) -> bool {
        matches!(self, Self::Write { content: Content::Attached, .. })
    }

    /// Returns `true` if the replaced content is stored for undo.
    pub(crate) const fn is_kept(&self) -> bool {
        !matches!(
            self,
            Self::Delete { kept: UndoRetention::Not, .. }
                | Self::Settle { kept: UndoRetention::Not, .. }
        )
    }

    /// Returns `true` if an interrupted change leaves a journal. A journal is trusted only for a
    /// change that is known to have begun.
    pub(crate) const fn is_journalled(&self) -> bool {
        matches!(self, Self::Settle { .. })
    }

    /// Returns how large a file may become, or all files of a program together, in bytes.
    pub(crate) fn most(&self, profile: &Profile) -> u64 {
        match self {
            Self::Settle { .. } => profile.program_files_bytes(),
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
