//! The paths that a commit leaves out. Runs in the cell.

use crate::tools::{Stop, invalid};
use palisade_plan::Path;
use std::collections::HashMap;

/// The paths to leave unchanged.
pub(super) struct ExcludedPaths<'a> {
    paths: HashMap<&'a [u8], ChangePresence>,
}

/// The presence of a change at a path or below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangePresence {
    Yes,
    No,
}

impl<'a> ExcludedPaths<'a> {
    pub(super) fn new(leave: &'a [Path]) -> Self {
        Self { paths: leave.iter().map(|path| (path.0.as_slice(), ChangePresence::No)).collect() }
    }

    /// Returns `true` if a path, or a directory above it, is left out. Notes for each such entry
    /// that there is a change at it or below it.
    pub(super) fn has(&mut self, path: &Path) -> bool {
        let (mut has, mut above) = (false, path.0.as_slice());
        while !self.paths.is_empty() {
            if let Some(known) = self.paths.get_mut(above) {
                *known = ChangePresence::Yes;
                has = true;
            }
            match above.iter().rposition(|byte| *byte == b'/') {
                Some(slash) if slash > 0 => above = above.get(..slash).unwrap_or_default(),
                Some(_) | None => break,
            }
        }
        has
    }

    /// Refuses paths without any effect: whoever named one meant something else.
    pub(super) fn all_known(&self) -> Result<(), Stop> {
        match self.paths.iter().find(|(_, known)| **known == ChangePresence::No) {
            None => Ok(()),
            Some((path, _)) => {
                let path = Path(path.to_vec());
                Err(invalid(&path, "it is not among what the program changed").into())
            }
        }
    }
}
