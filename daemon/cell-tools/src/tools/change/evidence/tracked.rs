//! Finds out which paths git tracks, in every repository around them. Runs in the cell.
//!
//! The index alone also tells it in repositories that keep nothing, because their references or
//! objects can not be read: references in another format, or a repository around the workspace. Where
//! it lists a path no more, the commit that is checked out may still have it.

use super::{
    linked::{RepositoryPlace, joined, own_directory},
    lost::ancestors,
    repositories::in_repository,
    trees::{self, Trees},
    working_tree::bounds,
};
use palisade_repository::{HeadTree, Repository, StagingIndex, read_index, read_index_file};
use std::{cell::OnceCell, collections::HashMap};

/// The paths that git tracked before a change.
#[derive(Debug)]
pub(super) struct TrackedPaths<'a> {
    trees: &'a Trees,
    /// The top of the nearest working tree for each directory, if there is one.
    tops: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// The index of each working tree; `None` if it can not be read.
    indexes: HashMap<Vec<u8>, Option<StagingIndex>>,
    /// The commit that is checked out in each working tree; `None` if its repository is not one that
    /// can be read. Only paths that the index does not list are looked for there.
    heads: HashMap<Vec<u8>, Option<HeadTree>>,
    /// The index of the repository around the workspace, once it was read.
    outer: OnceCell<Option<StagingIndex>>,
}

impl<'a> TrackedPaths<'a> {
    pub(super) fn new(trees: &'a Trees) -> Self {
        let (tops, indexes, heads) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { trees, tops, indexes, heads, outer: OnceCell::new() }
    }

    /// Returns the top of the nearest working tree that contains a path; `None` if there is none.
    pub(super) fn top_of(&mut self, way: &[u8]) -> Option<Vec<u8>> {
        let above = ancestors(way).next()?;
        if let Some(known) = self.tops.get(above) {
            return known.clone();
        }
        let is_there =
            |above: &&[u8]| trees::seen(self.trees.before(), &joined(above, b".git")).is_some();
        let top = std::iter::once(above).chain(ancestors(above)).find(is_there);
        let top = top.map(<[u8]>::to_vec);
        self.tops.insert(above.to_vec(), top.clone());
        top
    }

    /// Returns the index of a working tree in which a path was looked for, if it could be read.
    pub(super) fn index(&self, top: &[u8]) -> Option<&StagingIndex> {
        self.indexes.get(top)?.as_ref()
    }

    /// Returns `true` if git tracks a path, or something below it. Repositories further out count
    /// too, because a program can make one in the working tree of another. An index that can not be
    /// read counts as if it listed everything.
    pub(super) fn is_tracked(&mut self, way: &[u8]) -> bool {
        let mut inner = way.to_vec();
        while let Some(top) = self.top_of(&inner) {
            let trees = self.trees;
            let index = self.indexes.entry(top.clone()).or_insert_with(|| {
                let own = own_directory(trees, &top)?;
                read_index(trees::directory(trees.before(), &own).ok()?, &bounds()).ok()
            });
            let path = in_repository(&top, way);
            if index.as_ref().is_none_or(|index| is_listed(index, path)) {
                return true;
            }
            let head = self.heads.entry(top.clone()).or_insert_with(|| head_of(trees, &top));
            if head.as_mut().is_some_and(|head| head.has(path)) {
                return true;
            }
            inner = top;
        }
        self.is_tracked_around(way)
    }

    /// Returns `true` if the repository around the workspace tracks a path.
    fn is_tracked_around(&self, way: &[u8]) -> bool {
        // The repository of a linked worktree is elsewhere.
        let Some(outer) = self.trees.outer.as_ref().filter(|_| !way.starts_with(b"/")) else {
            return false;
        };
        let index = self.outer.get_or_init(|| {
            outer.index.as_ref().and_then(|index| read_index_file(index, &bounds()).ok())
        });
        index.as_ref().is_none_or(|index| is_listed(index, &joined(&outer.prefix, way)))
    }
}

/// Reads the commit that was checked out before a change; `None` if its repository can not be read.
fn head_of(trees: &Trees, top: &[u8]) -> Option<HeadTree> {
    let repository = match RepositoryPlace::of(trees, top) {
        Some(place) => place.open(trees.before()),
        None => {
            let own = trees::directory(trees.before(), &own_directory(trees, top)?).ok()?;
            Repository::open_at(own, bounds())
        }
    };
    repository.ok().map(HeadTree::of)
}

/// Returns `true` if an index lists a path or something below it.
pub(super) fn is_listed(index: &StagingIndex, path: &[u8]) -> bool {
    let below = [path, b"/"].concat();
    let first = index.entries().partition_point(|entry| entry.path.as_slice() < path);
    let after = index.entries().partition_point(|entry| entry.path.as_slice() < below.as_slice());
    let is = |at: usize, what: &dyn Fn(&[u8]) -> bool| {
        index.entries().get(at).is_some_and(|entry| what(&entry.path))
    };
    is(first, &|found| found == path) || is(after, &|found| found.starts_with(&below))
}
