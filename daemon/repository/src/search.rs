//! Searches for paths and blobs in the trees of commits, all at once. A tree that was searched for
//! a directory of paths is never searched for it again.

use crate::object::ObjectReader;
use crate::{ObjectId, RepositoryError};
use gix_object::TreeRefIter;
use gix_object::tree::{EntryKind, EntryRef};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// The type of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file; whether it is executable does not matter.
    Regular,
    /// A symbolic link, whose content is its target.
    SymbolicLink,
}

/// The deepest path that is searched for.
const DEPTH: usize = 256;

/// A directory of wanted paths.
#[derive(Debug, Default)]
struct WantedDirectory {
    directories: HashMap<Vec<u8>, usize>,
    files: HashMap<Vec<u8>, Vec<WantedBlob>>,
    /// The number of wanted files that were not found yet, here and below.
    open: usize,
    parent: Option<usize>,
}

#[derive(Debug)]
struct WantedBlob {
    file_type: FileType,
    object: ObjectId,
    position: usize,
}

/// Wanted paths as a tree of directories.
#[derive(Debug)]
pub(crate) struct TreeSearch {
    nodes: Vec<WantedDirectory>,
    searched: HashSet<(ObjectId, usize)>,
}

impl Default for TreeSearch {
    fn default() -> Self {
        TreeSearch { nodes: vec![WantedDirectory::default()], searched: HashSet::new() }
    }
}

impl TreeSearch {
    /// Adds a path that must lead to a blob. [`TreeSearch::look`] returns `position` when it is
    /// found.
    pub(crate) fn add(
        &mut self,
        path: &[u8],
        file_type: FileType,
        object: ObjectId,
        position: usize,
    ) {
        let mut parts: Vec<_> = path.split(|byte| *byte == b'/').collect();
        let Some(name) = parts.pop().filter(|_| parts.len() < DEPTH) else { return };
        let mut node = 0;
        for part in parts {
            let new = self.nodes.len();
            let Some(parent) = self.nodes.get_mut(node) else { return };
            let child = *parent.directories.entry(part.to_vec()).or_insert(new);
            if child == new {
                self.nodes
                    .push(WantedDirectory { parent: Some(node), ..WantedDirectory::default() });
            }
            node = child;
        }
        if let Some(node) = self.nodes.get_mut(node) {
            let wanted = WantedBlob { file_type, object, position };
            node.files.entry(name.to_vec()).or_default().push(wanted);
        }
        self.for_ancestors(node, |node| node.open += 1);
    }

    /// Returns `true` if something wanted was not found yet.
    pub(crate) fn is_open(&self) -> bool {
        self.nodes.first().is_some_and(|root| root.open > 0)
    }

    /// Searches the tree of a commit and returns what was found in it, by position.
    pub(crate) fn look(
        &mut self,
        reader: &mut ObjectReader<'_>,
        tree: &ObjectId,
    ) -> Result<Vec<(usize, ObjectId)>, RepositoryError> {
        let mut found = Vec::new();
        let mut waiting = vec![(*tree, 0)];
        while let Some((tree, node)) = waiting.pop() {
            let is_open = self.nodes.get(node).is_some_and(|node| node.open > 0);
            if !is_open || !self.searched.insert((tree, node)) {
                continue;
            }
            let Some(data) = reader.find(&tree, gix_object::Kind::Tree)? else { continue };
            let Some(entries) = parse_tree(&data, reader.objects().kind) else { continue };
            for entry in entries {
                self.match_entry(node, &entry, &mut waiting, &mut found);
            }
        }
        Ok(found)
    }

    fn match_entry(
        &mut self,
        node: usize,
        entry: &EntryRef<'_>,
        waiting: &mut Vec<(ObjectId, usize)>,
        found: &mut Vec<(usize, ObjectId)>,
    ) {
        let Some(directory) = self.nodes.get_mut(node) else { return };
        let name: &[u8] = entry.filename;
        let file_type = match entry.mode.kind() {
            EntryKind::Tree => {
                waiting.extend(
                    directory.directories.get(name).map(|child| (entry.oid.to_owned(), *child)),
                );
                return;
            }
            EntryKind::Blob | EntryKind::BlobExecutable => FileType::Regular,
            EntryKind::Link => FileType::SymbolicLink,
            EntryKind::Commit => return,
        };
        let Some(wanted) = directory.files.get_mut(name) else { return };
        let before = found.len();
        wanted.retain(|wanted| {
            let matches = wanted.file_type == file_type && wanted.object == entry.oid;
            if matches {
                found.push((wanted.position, wanted.object));
            }
            !matches
        });
        let count = found.len() - before;
        self.for_ancestors(node, |node| node.open -= count);
    }

    fn for_ancestors(&mut self, node: usize, mut act: impl FnMut(&mut WantedDirectory)) {
        let mut next = Some(node);
        while let Some(node) = next.and_then(|node| self.nodes.get_mut(node)) {
            act(node);
            next = node.parent;
        }
    }
}

/// Parses the entries of a tree. `None` if one is invalid, or if they are not in git's order, which
/// also excludes two entries of one name.
pub(crate) fn parse_tree(data: &[u8], kind: gix_hash::Kind) -> Option<Vec<EntryRef<'_>>> {
    let entries: Vec<EntryRef<'_>> =
        TreeRefIter::from_bytes(data, kind).collect::<Result<_, _>>().ok()?;
    let is_ordered = entries.windows(2).all(|pair| match pair {
        [one, other] => one.filename != other.filename && order(one, other) == Ordering::Less,
        _ => true,
    });
    is_ordered.then_some(entries)
}

/// Compares entries in git's order: by name, where a directory's name counts as if it ended with a
/// slash.
fn order(one: &EntryRef<'_>, other: &EntryRef<'_>) -> Ordering {
    let name = |entry: &EntryRef<'_>| {
        let end = entry.mode.is_tree().then_some(b'/');
        entry.filename.iter().copied().chain(end).collect::<Vec<_>>()
    };
    name(one).cmp(&name(other))
}
