//! The names in a workspace that are hidden or protected, matched against real paths. Runs in the
//! cell.

use crate::{MainRepository, OuterRepository};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    names::{Kind, NameMatchers, Names, PatternError},
};
use std::{os::unix::ffi::OsStrExt as _, path::PathBuf};

/// The workspace as a session's tools see it.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The directory of the workspace.
    pub workspace: PathBuf,
    /// The hidden and protected names.
    pub names: Names,
    /// Those names, compiled.
    pub matchers: NameMatchers,
    /// The main repository of a workspace that is a linked worktree of git.
    pub main: Option<MainRepository>,
    /// The repository in whose working tree the workspace is a directory.
    pub outer: Option<OuterRepository>,
}

impl View {
    /// Builds the view of a workspace with the given hidden and protected names.
    ///
    /// # Errors
    /// If one of the names is not a valid pattern.
    pub fn new(workspace: impl Into<PathBuf>, names: Names) -> Result<Self, PatternError> {
        let matchers = NameMatchers::new(&names)?;
        Ok(Self { workspace: workspace.into(), names, matchers, main: None, outer: None })
    }

    /// Returns a path relative to the workspace; `None` if it is outside, or is the workspace
    /// itself.
    #[must_use]
    pub fn below<'a>(&self, real: &'a [u8]) -> Option<&'a [u8]> {
        let rest = real.strip_prefix(self.workspace.as_os_str().as_bytes())?;
        rest.strip_prefix(b"/").filter(|rest| !rest.is_empty())
    }

    /// Returns `true` if the path is hidden from the session. It must contain no links.
    #[must_use]
    pub fn hides(&self, real: &Path, kind: Kind) -> bool {
        !self.matchers.hidden.is_empty()
            && self
                .below(&real.0)
                .is_some_and(|path| self.matchers.hidden.covers(path, kind).is_some())
    }

    /// Refuses to create or change a hidden or protected path.
    ///
    /// # Errors
    /// If the path is hidden or protected.
    pub fn refuse(&self, real: &Path, kind: Kind) -> Result<(), FileError> {
        let Some(path) = self.below(&real.0) else { return Ok(()) };
        let (error, what) = if self.matchers.hidden.covers(path, kind).is_some() {
            (FileErrorKind::Hidden, "hides, so nothing can be created or changed there")
        } else if self.matchers.protected.covers(path, kind).is_some() {
            (FileErrorKind::Protected, "protects: it can be read but not changed")
        } else {
            return Ok(());
        };
        let message = format!("{} has a name that the profile {what}", shown(real));
        Err(FileError { kind: error, errno: 0, message, about: Some(real.clone()), diff: None })
    }
}

/// Formats a path for a message. Characters that could move a terminal's cursor or reverse text are
/// escaped.
#[must_use]
pub fn shown(path: &Path) -> String {
    palisade_text::escape_controls(&String::from_utf8_lossy(&path.0))
}
