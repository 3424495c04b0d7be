//! Finds out what git ignores in a working tree, from the tree's own ignore files. Runs in the
//! cell.

use super::trees::{TreeView, directory};
use crate::tools::rules::{Allowance, Kind, Rules, Sources};
use std::{collections::HashMap, os::fd::AsFd as _, sync::Arc};

/// The ignore rules of a working tree, read when they are needed.
#[derive(Debug)]
pub(super) struct IgnoreRules<'a> {
    tree: TreeView<'a>,
    allowance: Allowance,
    /// The rules by directory, relative to the workspace.
    known: HashMap<Vec<u8>, Option<Arc<Rules>>>,
}

impl<'a> IgnoreRules<'a> {
    pub(super) fn new(tree: TreeView<'a>) -> Self {
        Self { tree, allowance: Allowance::default(), known: HashMap::new() }
    }

    /// Returns the outermost ignored directory that contains a path. Both are relative to the
    /// workspace. `repository` is the top of the working tree.
    pub(super) fn directory_of<'w>(
        &mut self,
        repository: &[u8],
        way: &'w [u8],
    ) -> Option<&'w [u8]> {
        let start = if repository.is_empty() { 0 } else { repository.len() + 1 };
        let slashes = way.iter().enumerate().skip(start).filter(|(_, byte)| **byte == b'/');
        for (at, _) in slashes {
            let directory = way.get(..at)?;
            if self.is_ignored(repository, directory, Kind::Directory) {
                return Some(directory);
            }
        }
        None
    }

    /// Returns `true` if the rules ignore this path itself.
    pub(super) fn is_ignored(&mut self, repository: &[u8], way: &[u8], kind: Kind) -> bool {
        let above = way.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash);
        let rules = self.rules(repository, way.get(..above).unwrap_or_default());
        Rules::leave_out(rules.as_ref(), way, kind)
    }

    /// Returns the rules that apply in a directory.
    fn rules(&mut self, repository: &[u8], way: &[u8]) -> Option<Arc<Rules>> {
        if let Some(known) = self.known.get(way) {
            return known.clone();
        }
        let above = if way == repository {
            None
        } else {
            let slash = way.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            self.rules(repository, way.get(..slash)?)
        };
        let start = if way.is_empty() { 0 } else { way.len() + 1 };
        let own = match directory(self.tree, way) {
            Ok(dir) => {
                Rules::within(above.as_ref(), dir.as_fd(), Sources::GIT, start, &self.allowance)
            }
            Err(_) => above,
        };
        self.known.insert(way.to_vec(), own.clone());
        own
    }
}
