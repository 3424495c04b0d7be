//! The content of a patch, file by file. Pure: no I/O.

use crate::{
    apply,
    error::{PatchError, Problem},
    hunk::Hunk,
    text::shown,
};

/// A parsed patch. Every part refers to the files as they were before any part is applied: the
/// source of a copy may be changed by another part. No path is changed or created by two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// The parts in the patch's order, one for each file; at least one.
    pub files: Vec<FilePatch>,
}

/// The change that a patch makes to one file. Paths are relative, and have no `.`, `..` or empty
/// part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePatch {
    /// Creates a new file.
    Add {
        /// The line of the patch where this part begins.
        line: usize,
        /// The path of the new file.
        path: Vec<u8>,
        /// The content of the new file.
        content: Vec<u8>,
        /// The mode of the new file, if the patch says it.
        executable: Option<Mode>,
    },
    /// Deletes a file.
    Delete {
        /// The line of the patch where this part begins.
        line: usize,
        /// The file.
        path: Vec<u8>,
        /// The complete content of the file; `None` if the patch does not say it.
        hunks: Option<Vec<Hunk>>,
    },
    /// Changes a file.
    Update {
        /// The line of the patch where this part begins.
        line: usize,
        /// The file.
        path: Vec<u8>,
        /// The path of the result, if it differs.
        to: Option<Destination>,
        /// The mode of the result, if the patch says it.
        mode: Option<Mode>,
        /// The changes; empty if the patch only renames, copies or changes the mode.
        hunks: Vec<Hunk>,
    },
}

/// The destination of an update's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// The file is renamed.
    Move(Vec<u8>),
    /// The file itself is unchanged, and the result is a new file.
    Copy(Vec<u8>),
}

impl Destination {
    /// Returns the new path.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Move(path) | Self::Copy(path) => path,
        }
    }
}

/// The modes that a patch can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Mode 100644.
    Regular,
    /// Mode 100755.
    Executable,
}

impl FilePatch {
    /// Returns the line of the patch where this part begins, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        match self {
            Self::Add { line, .. } | Self::Delete { line, .. } | Self::Update { line, .. } => *line,
        }
    }

    /// Returns the path of the file that is read or, for [`FilePatch::Add`], of the file that is
    /// created.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Add { path, .. } | Self::Delete { path, .. } | Self::Update { path, .. } => path,
        }
    }

    /// Computes the new content from the old. A new file must have been absent or empty. For a
    /// deleted file the result is empty, if the old content is what the patch says.
    ///
    /// # Errors
    ///
    /// If the old content is not what the patch is for; see [`Problem`].
    pub fn apply(&self, old: &[u8]) -> Result<Vec<u8>, PatchError> {
        let fail = |problem| Err(PatchError { line: self.line(), problem });
        match self {
            Self::Add { path, content, .. } => match old.len() {
                0 => Ok(content.clone()),
                size => fail(Problem::Exists { path: shown(path), size }),
            },
            Self::Delete { hunks: None, .. } => Ok(Vec::new()),
            Self::Delete { hunks: Some(hunks), .. } => {
                match apply::apply(old, hunks, self.line())? {
                    rest if rest.is_empty() => Ok(rest),
                    rest => fail(Problem::Leaves { left: rest.len() }),
                }
            }
            Self::Update { hunks, .. } => apply::apply(old, hunks, self.line()),
        }
    }
}
