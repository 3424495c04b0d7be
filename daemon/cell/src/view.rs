//! What of the workspace is not shown, and what is not changed, asked by where something really is.
//! Room: the cell.

use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    names::{Kind, Names, PatternError, Veil},
};
use std::{os::unix::ffi::OsStrExt as _, path::PathBuf};

/// The workspace as a session's tools see it.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub(crate) workspace: PathBuf,
    pub(crate) names: Names,
    pub(crate) veil: Veil,
}

impl View {
    /// A workspace and the names in it that are hidden or protected.
    ///
    /// # Errors
    /// If one of the names is no pattern.
    pub fn new(workspace: impl Into<PathBuf>, names: Names) -> Result<Self, PatternError> {
        let veil = Veil::new(&names)?;
        Ok(Self { workspace: workspace.into(), names, veil })
    }

    /// Where something is below the workspace; none if it is not, or is the workspace itself.
    pub(crate) fn below<'a>(&self, real: &'a [u8]) -> Option<&'a [u8]> {
        let rest = real.strip_prefix(self.workspace.as_os_str().as_bytes())?;
        rest.strip_prefix(b"/").filter(|rest| !rest.is_empty())
    }

    /// Whether nothing of that name exists for the session. The path is one without links.
    pub(crate) fn hides(&self, real: &Path, kind: Kind) -> bool {
        !self.veil.hidden.is_empty()
            && self.below(&real.0).is_some_and(|path| self.veil.hidden.covers(path, kind).is_some())
    }

    /// Refuses to make or change something of that name.
    pub(crate) fn refuse(&self, real: &Path, kind: Kind) -> Result<(), FileError> {
        let Some(path) = self.below(&real.0) else { return Ok(()) };
        let (error, what) = if self.veil.hidden.covers(path, kind).is_some() {
            (FileErrorKind::Hidden, "hides, so nothing can be made or changed there")
        } else if self.veil.protected.covers(path, kind).is_some() {
            (FileErrorKind::Protected, "protects: it can be read and not be changed")
        } else {
            return Ok(());
        };
        let message = format!("{} has a name that the profile {what}", crate::tools::shown(real));
        Err(FileError { kind: error, errno: 0, message, about: Some(real.clone()) })
    }
}
