//! Rule 1: pairs each removed file with one new file that has the same bytes. Pure: no I/O.

use super::Judge;
use palisade_plan::evidence::{EarlierEntry, NewCopy};
use std::collections::HashMap;

/// The new files that can keep the bytes of removed ones. Each is used once.
pub(super) struct Pairs<'a> {
    judge: &'a Judge<'a>,
    by_digest: HashMap<[u8; 32], Vec<&'a [u8]>>,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(judge: &'a Judge<'a>, copies: &'a [NewCopy]) -> Self {
        let mut by_digest: HashMap<[u8; 32], Vec<&[u8]>> = HashMap::new();
        for copy in copies.iter().rev() {
            if !copy.is_ignored && judge.can_keep(&copy.path.0) {
                by_digest.entry(copy.digest).or_default().push(&copy.path.0);
            }
        }
        Self { judge, by_digest }
    }

    /// Takes a new file that keeps the bytes of a removed one.
    pub(super) fn take(&mut self, earlier: &EarlierEntry) -> Option<Vec<u8>> {
        if let Some(place) = &earlier.moved_to {
            let can_keep = !place.is_ignored && self.judge.can_keep(&place.path.0);
            return can_keep.then(|| place.path.0.clone());
        }
        let copies = self.by_digest.get_mut(&earlier.digest?)?;
        copies.pop().map(<[u8]>::to_vec)
    }
}

impl Judge<'_> {
    /// Returns `true` if a path can keep bytes. It can not if it may be deleted without approval,
    /// or belongs to git.
    fn can_keep(&self, path: &[u8]) -> bool {
        let relative = self.relative(path);
        let is_git = relative.split(|byte| *byte == b'/').any(|name| name == b".git");
        // Everything outside the workspace is deleted when the session ends.
        let is_inside = relative.len() < path.len();
        let noise = &self.context.profile.settings.transactions;
        is_inside && !is_git && !noise.is_noise(relative, false)
    }
}
