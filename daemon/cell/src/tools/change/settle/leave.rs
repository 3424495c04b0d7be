//! What a transaction's program did and is to be left out. Room: the cell.

use crate::tools::{Stop, invalid};
use palisade_plan::Path;
use std::collections::HashMap;

/// What is to be left as it is.
pub(super) struct Leave<'a> {
    paths: HashMap<&'a [u8], Known>,
}

/// Whether a path was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Yes,
    No,
}

impl<'a> Leave<'a> {
    pub(super) fn new(leave: &'a [Path]) -> Self {
        Self { paths: leave.iter().map(|path| (path.0.as_slice(), Known::No)).collect() }
    }

    /// Whether a path, or one above it, is to be left.
    pub(super) fn has(&mut self, path: &Path) -> bool {
        let (mut has, mut above) = (false, path.0.as_slice());
        while !self.paths.is_empty() {
            if let Some(known) = self.paths.get_mut(above) {
                *known = Known::Yes;
                has = true;
            }
            match above.iter().rposition(|byte| *byte == b'/') {
                Some(slash) if slash > 0 => above = above.get(..slash).unwrap_or_default(),
                Some(_) | None => break,
            }
        }
        has
    }

    /// Refuses what no effect is about: who named it meant something else.
    pub(super) fn all_known(&self) -> Result<(), Stop> {
        match self.paths.iter().find(|(_, known)| **known == Known::No) {
            None => Ok(()),
            Some((path, _)) => {
                let path = Path(path.to_vec());
                Err(invalid(&path, "it is not among what the program changed").into())
            }
        }
    }
}
