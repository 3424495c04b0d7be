//! What a patch says of each file. Pure.

use crate::{
    apply,
    error::{PatchError, Problem},
    hunk::Hunk,
    text::shown,
};

/// A patch, parsed. Every part is of the files as they were before any part is made: a copy's
/// source may be changed by another part. No path is changed or made by two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// One part for each file, in the patch's order; at least one.
    pub files: Vec<FilePatch>,
}

/// What a patch does to one file. Paths are relative, and have no `.`, `..` or empty part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePatch {
    /// A new file.
    Add {
        /// The line of the patch that begins it.
        line: usize,
        /// Where.
        path: Vec<u8>,
        /// What is in it.
        content: Vec<u8>,
        /// Whether it can be executed, if the patch says so.
        executable: Option<Mode>,
    },
    /// A file that goes.
    Delete {
        /// The line of the patch that begins it.
        line: usize,
        /// Which.
        path: Vec<u8>,
        /// What was in it, all of it; none if the patch does not say.
        hunks: Option<Vec<Hunk>>,
    },
    /// A file that changes.
    Update {
        /// The line of the patch that begins it.
        line: usize,
        /// Which.
        path: Vec<u8>,
        /// Where the result goes, if not there.
        to: Option<To>,
        /// The mode that the result gets, if the patch says so.
        mode: Option<Mode>,
        /// What changes in it; none for a mere rename, copy or mode.
        hunks: Vec<Hunk>,
    },
}

/// Where the result of an update goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    /// The file is renamed.
    Move(Vec<u8>),
    /// The file stays as it is, and the result is a new one.
    Copy(Vec<u8>),
}

impl To {
    /// The new path.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Move(path) | Self::Copy(path) => path,
        }
    }
}

/// The modes that a patch can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// 100644.
    Regular,
    /// 100755.
    Executable,
}

impl FilePatch {
    /// The line of the patch that begins it, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        match self {
            Self::Add { line, .. } | Self::Delete { line, .. } | Self::Update { line, .. } => *line,
        }
    }

    /// The file that is read: for [`FilePatch::Add`], the one that is made.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Add { path, .. } | Self::Delete { path, .. } | Self::Update { path, .. } => path,
        }
    }

    /// The new content, given the old: of a new file, which must have been absent or empty; of a
    /// file that goes, nothing, if the old content is what the patch says.
    ///
    /// # Errors
    ///
    /// The old content is not what the patch is for; see [`Problem`].
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
