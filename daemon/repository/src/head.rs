//! The paths of the commit that is checked out. They are tracked, also if the index lists them no
//! more.

use crate::history::parse_commit;
use crate::object::ObjectReader;
use crate::references::{ReferenceTarget, References, read_target};
use crate::search::parse_tree;
use crate::{ObjectId, Repository, RepositoryError};
use std::collections::HashMap;

/// The entries of a tree: for each name, the id of a directory, or `None` for anything else.
type Listing = HashMap<Vec<u8>, Option<ObjectId>>;

/// The tree of the commit that `HEAD` leads to. Each directory is read once, when it is needed.
#[derive(Debug)]
pub struct HeadTree {
    repository: Repository,
    root: Root,
    /// The directories that were read, by path; `None` if one can not be read.
    directories: HashMap<Vec<u8>, Option<Listing>>,
}

#[derive(Debug, Clone, Copy)]
enum Root {
    Tree(ObjectId),
    /// There is no commit yet.
    Unborn,
    Unreadable,
}

impl HeadTree {
    /// Finds the tree of a repository.
    #[must_use]
    pub fn of(repository: Repository) -> Self {
        let root = match repository.head_tree() {
            Ok(Some(tree)) => Root::Tree(tree),
            Ok(None) => Root::Unborn,
            Err(_) => Root::Unreadable,
        };
        Self { repository, root, directories: HashMap::new() }
    }

    /// Returns `true` if the commit has a path, or something below it. What can not be read counts
    /// as if it had everything.
    pub fn has(&mut self, path: &[u8]) -> bool {
        let mut tree = match self.root {
            Root::Tree(tree) => tree,
            Root::Unborn => return false,
            Root::Unreadable => return true,
        };
        let mut start = 0;
        loop {
            let rest = path.get(start..).unwrap_or_default();
            let end = rest.iter().position(|byte| *byte == b'/');
            let name = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            let directory = path.get(..start.saturating_sub(1)).unwrap_or_default();
            let repository = &self.repository;
            let listing = self.directories.entry(directory.to_vec());
            let Some(listing) =
                listing.or_insert_with(|| self::listing(&mut repository.reader(), &tree))
            else {
                return true;
            };
            match (listing.get(name), end) {
                (None, _) | (Some(None), Some(_)) => return false,
                (Some(_), None) => return true,
                (Some(Some(below)), Some(end)) => {
                    tree = *below;
                    start += end + 1;
                }
            }
        }
    }
}

impl Repository {
    /// Returns the tree of the commit that `HEAD` leads to; `None` if there is no commit yet.
    fn head_tree(&self) -> Result<Option<ObjectId>, RepositoryError> {
        let kind = self.objects.kind;
        let damaged = || RepositoryError::malformed(b"HEAD", "its commit can not be read");
        let commit = match read_target(self.own(), b"HEAD", kind) {
            Some(ReferenceTarget::Object(commit)) => commit,
            Some(ReferenceTarget::Symbolic(name)) => {
                let references = References::read(&self.common, kind, &self.bounds)?;
                match references.direct.get(&name) {
                    Some(commit) => *commit,
                    None if self.common.file(&name)?.is_none() => return Ok(None),
                    None => return Err(damaged()),
                }
            }
            None => return Err(damaged()),
        };
        let data = self.reader().find(&commit, gix_object::Kind::Commit)?.ok_or_else(damaged)?;
        parse_commit(&data, kind).map(|(tree, _)| Some(tree)).ok_or_else(damaged)
    }
}

/// Lists the paths that the commit that was checked out before has and the one that is checked out
/// after has not. `None` if that can not be found out by examining so many entries of trees.
#[must_use]
pub fn paths_gone_from_head(
    before: &Repository,
    after: &Repository,
    most: usize,
) -> Option<Vec<Vec<u8>>> {
    let (was, is) = (before.head_tree(), after.head_tree());
    let Some(root) = was.ok()? else { return Some(Vec::new()) };
    // A commit that can not be read has nothing.
    let now = is.ok().flatten();
    let mut waiting = vec![(Vec::new(), root, now)];
    let (mut gone, mut left) = (Vec::new(), most);
    let (mut earlier, mut later) = (before.reader(), after.reader());
    while let Some((directory, tree, now)) = waiting.pop() {
        if Some(tree) == now {
            continue;
        }
        let there = match now {
            Some(now) => listing(&mut later, &now).unwrap_or_default(),
            None => Listing::new(),
        };
        for (name, below) in listing(&mut earlier, &tree)? {
            left = left.checked_sub(1)?;
            let path = [directory.as_slice(), &name].concat();
            match (below, there.get(&name)) {
                (Some(below), now) => {
                    let now = now.copied().flatten();
                    waiting.push(([path.as_slice(), b"/"].concat(), below, now));
                }
                (None, None) => gone.push(path),
                (None, Some(_)) => {}
            }
        }
    }
    Some(gone)
}

fn listing(reader: &mut ObjectReader<'_>, tree: &ObjectId) -> Option<Listing> {
    let data = reader.find(tree, gix_object::Kind::Tree).ok()??;
    let entries = parse_tree(&data, reader.objects().kind)?;
    let each = entries.iter().map(|entry| {
        let below = entry.mode.is_tree().then(|| entry.oid.to_owned());
        (entry.filename.to_vec(), below)
    });
    Some(each.collect())
}
