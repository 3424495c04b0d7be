//! What a transaction's program did and is to be left out. Room: the cell.

use crate::tools::{Stop, invalid};
use palisade_plan::Path;

/// What is to be left as it is.
pub(super) struct Leave<'a> {
    paths: Vec<(&'a Path, Known)>,
}

/// Whether a path was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Yes,
    No,
}

impl<'a> Leave<'a> {
    pub(super) fn new(leave: &'a [Path]) -> Self {
        Self { paths: leave.iter().map(|path| (path, Known::No)).collect() }
    }

    /// Whether a path, or one above it, is to be left.
    pub(super) fn has(&mut self, path: &Path) -> bool {
        let mut has = false;
        for (left, known) in &mut self.paths {
            let rest = path.0.strip_prefix(left.0.as_slice());
            if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/")) {
                *known = Known::Yes;
                has = true;
            }
        }
        has
    }

    /// Refuses what no effect is about: who named it meant something else.
    pub(super) fn all_known(&self) -> Result<(), Stop> {
        match self.paths.iter().find(|(_, known)| *known == Known::No) {
            None => Ok(()),
            Some((path, _)) => {
                Err(invalid(path, "it is not among what the program changed").into())
            }
        }
    }
}
