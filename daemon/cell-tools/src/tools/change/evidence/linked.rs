//! Finds the repository of a working tree. Usually that is the directory `.git`. In a linked
//! worktree (`git worktree add`), `.git` is a file that names a directory of the main repository.
//! Runs in the cell.
//!
//! Such a file is not believed: the directory must be where git makes it, and its own
//! files must lead back to the worktree.

use super::{
    super::tree,
    trees::{self, TreeView, Trees},
    working_tree::bounds,
};
use crate::tools::split;
use palisade_repository::{Repository, RepositoryError};
use rustix::{fs::FileType, io::Errno};

/// The maximum size of a file that leads to another directory.
const MOST_LINK_BYTES: u64 = 4096;

/// The maximum number of linked worktrees of a repository that are examined.
const MOST_WORKTREES: usize = 1000;

/// The directories of a working tree's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RepositoryPlace {
    /// The directory with objects and references.
    pub(super) common: Vec<u8>,
    /// The directory with the index and `HEAD` of a linked worktree.
    pub(super) own: Option<Vec<u8>>,
}

/// A linked worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkedWorktree {
    /// The top of the working tree.
    pub(super) top: Vec<u8>,
    pub(super) place: RepositoryPlace,
}

/// The entry `.git` of a working tree, as it was before the change.
enum GitEntry {
    /// It is this directory.
    Directory(Vec<u8>),
    /// It is a file that names this directory.
    LinkTo(Vec<u8>),
}

impl GitEntry {
    fn of(trees: &Trees, top: &[u8]) -> Option<Self> {
        let git = joined(top, b".git");
        match trees::seen(trees.before(), &git)?.kind() {
            FileType::Directory => Some(Self::Directory(git)),
            FileType::RegularFile => {
                let text = trees::read(trees.before(), &git, MOST_LINK_BYTES)?;
                resolved(trees, top, text.strip_prefix(b"gitdir:")?).map(Self::LinkTo)
            }
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => None,
        }
    }
}

impl RepositoryPlace {
    /// Finds the repository of the working tree with this top, as it was before the change.
    pub(super) fn of(trees: &Trees, top: &[u8]) -> Option<Self> {
        match GitEntry::of(trees, top)? {
            GitEntry::Directory(common) => Some(Self { common, own: None }),
            GitEntry::LinkTo(own) => Self::linked(trees, &joined(top, b".git"), own),
        }
    }

    fn linked(trees: &Trees, git: &[u8], own: Vec<u8>) -> Option<Self> {
        let common = split(&own).0.strip_suffix(b"/worktrees")?.to_vec();
        let leads_to = |name: &[u8]| {
            let text = trees::read(trees.before(), &joined(&own, name), MOST_LINK_BYTES)?;
            resolved(trees, &own, &text)
        };
        let is_mutual = leads_to(b"gitdir")? == git && leads_to(b"commondir")? == common;
        let is_repository = trees.git_directory(&own) == Some(common.as_slice());
        (is_mutual && is_repository).then_some(Self { common, own: Some(own) })
    }

    /// Opens the repository in one of the two states.
    pub(super) fn open(&self, tree: TreeView<'_>) -> Result<Repository, RepositoryError> {
        let failed =
            |error: Errno| RepositoryError::Io { path: ".".to_owned(), source: error.into() };
        let common = trees::directory(tree, &self.common).map_err(failed)?;
        match &self.own {
            None => Repository::open_at(common, bounds()),
            Some(own) => {
                let own = trees::directory(tree, own).map_err(failed)?;
                Repository::open_worktree(own, common, bounds())
            }
        }
    }
}

/// Returns the directory with the index of the working tree with this top, as it was before the
/// change; `None` if it is not in the trees. The link of a submodule is believed: no program can
/// change it without approval, and nothing counts as kept because of it.
pub(super) fn own_directory(trees: &Trees, top: &[u8]) -> Option<Vec<u8>> {
    match GitEntry::of(trees, top)? {
        GitEntry::Directory(git) => Some(git),
        GitEntry::LinkTo(own) => trees.git_directory(&own).is_some().then_some(own),
    }
}

/// Finds the linked worktrees of a repository whose working trees are in the workspace.
pub(super) fn linked_worktrees(trees: &Trees, common: &[u8]) -> Vec<LinkedWorktree> {
    let all = joined(common, b"worktrees");
    let names = trees::directory(trees.before(), &all)
        .and_then(|directory| tree::entries(&directory, MOST_WORKTREES));
    let worktree = |name: Vec<u8>| {
        let own = joined(&all, &name);
        let text = trees::read(trees.before(), &joined(&own, b"gitdir"), MOST_LINK_BYTES)?;
        let git = resolved(trees, &own, &text)?;
        let top = match git.as_slice() {
            b".git" => Vec::new(),
            git => git.strip_suffix(b"/.git")?.to_vec(),
        };
        let place = RepositoryPlace::of(trees, &top)?;
        (place.own.as_deref() == Some(own.as_slice())).then_some(LinkedWorktree { top, place })
    };
    names.unwrap_or_default().into_iter().filter_map(worktree).collect()
}

/// Splits a path below `worktrees` of a repository into the name of the worktree and the rest.
pub(super) fn worktree_part(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = rest.strip_prefix(b"worktrees/")?;
    let slash = rest.iter().position(|byte| *byte == b'/')?;
    Some((rest.get(..slash)?, rest.get(slash + 1..)?))
}

/// Returns the path in the trees that a file in a directory leads to. Links are refused when it is
/// opened, so its text can be resolved by itself.
pub(super) fn resolved(trees: &Trees, directory: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let start = if text.starts_with(b"/") { Vec::new() } else { trees.path(directory).0 };
    let mut names: Vec<&[u8]> = Vec::new();
    for name in start.split(|byte| *byte == b'/').chain(text.split(|byte| *byte == b'/')) {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    let path = [b"/", names.join(&b'/').as_slice()].concat();
    trees.way(&path).filter(|way| !way.is_empty()).map(<[u8]>::to_vec)
}

/// Appends a relative path to a directory.
pub(super) fn joined(top: &[u8], way: &[u8]) -> Vec<u8> {
    if top.is_empty() { way.to_vec() } else { [top, b"/", way].concat() }
}
