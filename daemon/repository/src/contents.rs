//! Finds out whether the contents of a commit also exist elsewhere: in reachable commits, or in the
//! working tree. That is so for a stash that was applied before it was dropped.

use crate::history::{History, parse_commit};
use crate::keep::is_tracked_path;
use crate::object::ObjectReader;
use crate::search::FileType;
use crate::search::{TreeSearch, parse_tree};
use crate::tips::{RootPurpose, Tips};
use crate::{NotKeptReason, ObjectId, Repository, RepositoryError};
use gix_object::tree::EntryKind;
use std::collections::{BTreeMap, BTreeSet};

/// Most files of a commit that are searched for.
const MOST_FILES: usize = 10_000;

/// A file of a commit.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CommittedFile {
    path: Vec<u8>,
    is_link: bool,
    object: ObjectId,
}

impl Repository {
    /// Returns whether every file of a stash is in the working tree, or in a commit reachable from
    /// `tips`. The commit that the stash was made on must be reachable.
    ///
    /// # Errors
    ///
    /// If it takes more work than the bounds allow, or the objects cannot be read.
    pub fn has_contents_of_stash(
        &self,
        stash: &ObjectId,
        tips: &Tips,
        mut is_in_working_tree: impl FnMut(&[u8], FileType, &[u8]) -> bool,
    ) -> Result<bool, RepositoryError> {
        let mut reader = self.reader();
        let Some((tree, parents)) = commit(&mut reader, stash)? else { return Ok(false) };
        let Some((base, others)) = parents.split_first() else { return Ok(false) };
        let Some((base_tree, _)) = commit(&mut reader, base)? else { return Ok(false) };
        if !self.reaches(tips, base)? {
            return Ok(false);
        }
        let mut files = BTreeSet::new();
        let mut trees = vec![(tree, Some(base_tree))];
        for (number, other) in others.iter().enumerate() {
            let Some((tree, _)) = commit(&mut reader, other)? else { return Ok(false) };
            // The second parent has the index; a third one has the untracked files.
            trees.push((tree, (number == 0).then_some(base_tree)));
        }
        for (tree, base) in trees {
            if !differing(&mut reader, tree, base, &mut files)? {
                return Ok(false);
            }
        }
        let mut search = TreeSearch::default();
        let mut answers = Vec::new();
        for file in &files {
            let file_type = if file.is_link { FileType::SymbolicLink } else { FileType::Regular };
            let Some(bytes) = reader.find(&file.object, gix_object::Kind::Blob)? else {
                return Ok(false);
            };
            if is_in_working_tree(&file.path, file_type, &bytes) {
                continue;
            }
            if !is_tracked_path(&file.path) {
                return Ok(false);
            }
            search.add(&file.path, file_type, file.object, answers.len());
            answers.push(Err(NotKeptReason::NoCommit));
        }
        let mut reader = self.reader().ignoring(&tips.replaced());
        self.answer(tips, &mut reader, search, &mut answers)?;
        Ok(answers.iter().all(Result::is_ok))
    }

    /// Returns whether a commit is reachable.
    fn reaches(&self, tips: &Tips, wanted: &ObjectId) -> Result<bool, RepositoryError> {
        let severed = self.severed()?;
        let mut history = History::new(tips.roots(RootPurpose::Maintain, &self.bounds), &severed);
        let mut reader = self.reader();
        while let Some(commit) = history.next(&mut reader)? {
            if commit.id == *wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn commit(
    reader: &mut ObjectReader<'_>,
    id: &ObjectId,
) -> Result<Option<(ObjectId, Vec<ObjectId>)>, RepositoryError> {
    let kind = reader.objects().kind;
    let data = reader.find(id, gix_object::Kind::Commit)?;
    Ok(data.and_then(|data| parse_commit(&data, kind)))
}

/// Lists the files of a tree that are not in another; returns false if they cannot all be listed.
fn differing(
    reader: &mut ObjectReader<'_>,
    tree: ObjectId,
    base: Option<ObjectId>,
    files: &mut BTreeSet<CommittedFile>,
) -> Result<bool, RepositoryError> {
    let mut waiting = vec![(Vec::new(), tree, base)];
    while let Some((way, tree, base)) = waiting.pop() {
        if Some(tree) == base {
            continue;
        }
        let Some(entries) = entries(reader, &tree)? else { return Ok(false) };
        let earlier = match base {
            Some(base) => entries_or_none(reader, &base)?,
            None => BTreeMap::new(),
        };
        for (name, (kind, object)) in entries {
            let path = [way.as_slice(), &name].concat();
            let before = earlier.get(&name);
            match kind {
                EntryKind::Tree => {
                    let before = before.filter(|(kind, _)| *kind == EntryKind::Tree);
                    let way = [path.as_slice(), b"/"].concat();
                    waiting.push((way, object, before.map(|(_, id)| *id)));
                }
                EntryKind::Commit => {}
                EntryKind::Blob | EntryKind::BlobExecutable | EntryKind::Link => {
                    let is_link = kind == EntryKind::Link;
                    if before.is_none_or(|(_, id)| *id != object) {
                        files.insert(CommittedFile { path, is_link, object });
                    }
                }
            }
        }
        if files.len() > MOST_FILES {
            return Ok(false);
        }
    }
    Ok(true)
}

type TreeEntries = BTreeMap<Vec<u8>, (EntryKind, ObjectId)>;

fn entries(
    reader: &mut ObjectReader<'_>,
    tree: &ObjectId,
) -> Result<Option<TreeEntries>, RepositoryError> {
    let kind = reader.objects().kind;
    let Some(data) = reader.find(tree, gix_object::Kind::Tree)? else { return Ok(None) };
    let Some(entries) = parse_tree(&data, kind) else { return Ok(None) };
    let entry = |entry: &gix_object::tree::EntryRef<'_>| {
        (entry.filename.to_vec(), (entry.mode.kind(), entry.oid.to_owned()))
    };
    Ok(Some(entries.iter().map(entry).collect()))
}

/// Returns the entries of a tree, or none if it cannot be read: every file then counts as
/// different.
fn entries_or_none(
    reader: &mut ObjectReader<'_>,
    tree: &ObjectId,
) -> Result<TreeEntries, RepositoryError> {
    Ok(entries(reader, tree)?.unwrap_or_default())
}
