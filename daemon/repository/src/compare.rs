//! Compares two states of one repository: which commits, reflogs, objects and staged blobs the
//! later one has lost.

use crate::history::History;
use crate::keep::is_tracked_path;
use crate::missing::{changed_links, missing};
use crate::object::ObjectReader;
use crate::search::FileType;
use crate::search::TreeSearch;
use crate::staged::{StagedEntry, StagedType};
use crate::stored::StoredCopy;
use crate::tips::{RootPurpose, Tips, is_passing, is_stash};
use crate::{KeepAnswer, NotKeptReason, ObjectId, ReferenceLog, Repository, RepositoryError};
use std::collections::{BTreeMap, BTreeSet};

/// Prefixes of references that people name.
const BRANCHES: [&[u8]; 2] = [b"refs/heads/", b"refs/tags/"];

/// The changes of the files in the object database, as far as the caller knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectChanges<'a> {
    /// Files may have been added, changed or deleted: each is examined.
    Possible,
    /// The caller knows that these files were added, and that no other file was changed. The paths
    /// are relative to `objects`.
    Added(&'a [Vec<u8>]),
}

/// The reason that a commit counts as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossReason {
    /// No reference and no reflog entry leads to it any more.
    Unreachable,
    /// Finding a path to it would take more work than the bounds allow.
    BeyondBound,
}

/// A commit or tag that a reference or its reflog named, and that git no longer reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostTip {
    /// The reference that led to it.
    pub reference: Vec<u8>,
    /// The commit or tag.
    pub object: ObjectId,
    /// The reason that it counts as lost.
    pub reason: LossReason,
}

/// A staged blob that is in no commit and not in the working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostStagedBlob {
    /// The path that it was staged for.
    pub path: Vec<u8>,
    /// The blob.
    pub object: ObjectId,
}

/// The data that a later state of a repository has lost or redirected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Commits that are no longer reachable.
    pub lost_tips: Vec<LostTip>,
    /// References that still exist, and whose reflog no longer begins with its earlier content.
    pub shrunk_logs: Vec<Vec<u8>>,
    /// Branches and tags that were deleted, and that no other reference leads to; only a reflog
    /// may.
    pub deleted_branches: Vec<LostTip>,
    /// References that were deleted together with their reflog, as with a deleted or renamed
    /// branch. This is not a loss in itself: commits that only the reflog led to are in
    /// [`Comparison::lost_tips`].
    pub deleted_logs: Vec<Vec<u8>>,
    /// References and reflogs that were readable before and are damaged now.
    pub damaged_references: Vec<Vec<u8>>,
    /// Objects that were readable before and are not now.
    pub missing_objects: Vec<ObjectId>,
    /// Packs that could not be read before and were changed or deleted, and new packs and other
    /// files below `objects` that cannot be read, and that git may use instead of others.
    pub missing_packs: Vec<Vec<u8>>,
    /// Files that redirect git elsewhere, or truncate history, and that changed.
    pub changed_links: Vec<Vec<u8>>,
    /// Stashes that are new. This is no loss.
    pub new_stashes: Vec<ObjectId>,
}

impl Comparison {
    /// Returns `true` if everything is as reachable and as readable as before, and nothing is
    /// redirected.
    #[must_use]
    pub fn is_lossless(&self) -> bool {
        let Comparison {
            lost_tips,
            shrunk_logs,
            deleted_logs: _,
            deleted_branches,
            damaged_references,
            missing_objects,
            missing_packs,
            changed_links,
            new_stashes: _,
        } = self;
        let names = [shrunk_logs, damaged_references, missing_packs, changed_links];
        lost_tips.is_empty()
            && deleted_branches.is_empty()
            && missing_objects.is_empty()
            && names.iter().all(|names| names.is_empty())
    }
}

/// Compares two states of a repository. The earlier one must still exist, as the lower layer of an
/// overlay or as a snapshot. Files whose inode and times agree in both are not read.
///
/// # Errors
///
/// If one of them cannot be read, or would take more work than the bounds allow. Everything then
/// counts as lost.
pub fn compare(
    before: &Repository,
    after: &Repository,
    objects: ObjectChanges<'_>,
) -> Result<Comparison, RepositoryError> {
    if before.objects.kind != after.objects.kind {
        return Err(RepositoryError::unsupported("another object format than before"));
    }
    let (tips, later) = (before.tips()?, after.tips()?);
    let (shrunk_logs, deleted_logs) = shrunk_logs(&tips, &later);
    let (missing_objects, missing_packs) = missing(before, after, objects)?;
    Ok(Comparison {
        lost_tips: after.lost_since(&tips, &later)?,
        shrunk_logs,
        deleted_logs,
        deleted_branches: after.deleted_branches(&tips, &later)?,
        damaged_references: damaged(&tips, &later),
        missing_objects,
        missing_packs,
        changed_links: changed_links(before, after)?,
        new_stashes: stashes(&later).difference(&stashes(&tips)).copied().collect(),
    })
}

/// Returns all stashes, those of operations under way included.
fn stashes(tips: &Tips) -> BTreeSet<ObjectId> {
    tips.named().filter(|(name, _)| is_stash(name)).map(|(_, id)| id).collect()
}

/// Lists the reflogs that lost entries: first those of references that still exist, then the
/// others.
fn shrunk_logs(before: &Tips, after: &Tips) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let is_kept = |name: &Vec<u8>, log: &ReferenceLog| {
        after.logs.get(name).is_some_and(|later| log.is_prefix_of(later))
    };
    let shrunk = before.logs.iter().filter(|(name, log)| !is_kept(name, log));
    let is_there = |name: &Vec<u8>| after.references.contains_key(name) || name == b"HEAD";
    shrunk.map(|(name, _)| name.clone()).partition(is_there)
}

fn damaged(before: &Tips, after: &Tips) -> Vec<Vec<u8>> {
    let known: BTreeSet<_> = before.unreadable.iter().collect();
    after.unreadable.iter().filter(|name| !known.contains(name)).cloned().collect()
}

impl Repository {
    /// Lists the commits and tags that earlier tips named, and that this state with its tips `now`
    /// no longer reaches. [`compare`] checks whether the objects are still readable.
    ///
    /// # Errors
    ///
    /// If the files that truncate history cannot be read.
    pub fn lost_since(&self, earlier: &Tips, now: &Tips) -> Result<Vec<LostTip>, RepositoryError> {
        let mut lost = Vec::new();
        let mut examined: BTreeSet<ObjectId> = BTreeSet::new();
        // What git's maintenance respected must not be left to what it does not.
        for purpose in [RootPurpose::Maintain, RootPurpose::Reach] {
            let unchanged = unchanged(earlier, now, purpose);
            let mut wanted: BTreeMap<ObjectId, &[u8]> = BTreeMap::new();
            for (name, id) in earlier.named() {
                let is_asked = purpose == RootPurpose::Reach || !is_passing(name);
                let is_absent =
                    earlier.absent.contains(&id) && earlier.references.get(name) != Some(&id);
                if is_asked && !is_absent && !examined.contains(&id) {
                    wanted.entry(id).or_insert(name);
                }
            }
            examined.extend(wanted.keys());
            wanted.retain(|id, _| !unchanged.contains(id));
            let roots = now.roots(purpose, &self.bounds);
            let reason = self.strike_reached(roots, &mut wanted)?;
            let tips = wanted.into_iter();
            lost.extend(tips.map(|(object, name)| LostTip {
                reference: name.to_vec(),
                object,
                reason,
            }));
        }
        Ok(lost)
    }

    /// Lists branches and tags that were deleted, and that no other reference leads to. A reflog
    /// keeps what they named for a while, but nobody finds it there by its name.
    fn deleted_branches(
        &self,
        earlier: &Tips,
        now: &Tips,
    ) -> Result<Vec<LostTip>, RepositoryError> {
        let is_own = |name: &[u8]| BRANCHES.iter().any(|prefix| name.starts_with(prefix));
        let gone = earlier.references.iter();
        let gone = gone.filter(|(name, _)| is_own(name) && !now.references.contains_key(*name));
        let mut wanted: BTreeMap<ObjectId, &[u8]> =
            gone.map(|(name, id)| (*id, name.as_slice())).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let roots = now.references.iter();
        let roots = roots.filter(|(name, _)| now.is_root(name, RootPurpose::Maintain));
        let roots = roots.map(|(_, id)| *id).collect();
        let reason = self.strike_reached(roots, &mut wanted)?;
        let lost = wanted.into_iter();
        Ok(lost
            .map(|(object, name)| LostTip { reference: name.to_vec(), object, reason })
            .collect())
    }

    /// Removes from `wanted` what is reachable from the roots, and returns why the rest is not.
    fn strike_reached(
        &self,
        roots: Vec<ObjectId>,
        wanted: &mut BTreeMap<ObjectId, &[u8]>,
    ) -> Result<LossReason, RepositoryError> {
        for root in &roots {
            wanted.remove(root);
        }
        let severed = self.severed()?;
        let mut reader = self.reader();
        let mut history = History::new(roots, &severed);
        while !wanted.is_empty() {
            let next = history.next(&mut reader);
            for id in history.take_reached() {
                wanted.remove(&id);
            }
            match next {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(RepositoryError::Bound { .. }) => return Ok(LossReason::BeyondBound),
                Err(error) => return Err(error),
            }
        }
        Ok(LossReason::Unreachable)
    }

    /// Returns for each staged entry whether a reachable commit has its blob at its path.
    ///
    /// # Errors
    ///
    /// The errors of [`Repository::keeps_all`].
    pub fn keeps_staged(
        &self,
        tips: &Tips,
        entries: &[&StagedEntry],
    ) -> Result<Vec<KeepAnswer>, RepositoryError> {
        let mut reader = self.reader().ignoring(&tips.replaced());
        let mut search = TreeSearch::default();
        let mut answers = Vec::new();
        for entry in entries {
            let blob = reader.read(&entry.object);
            let file_type = staged_file(entry).filter(|_| is_tracked_path(&entry.path));
            let why = match (blob, file_type) {
                (_, None) => NotKeptReason::Path,
                (Ok(StoredCopy::Found(object)), Some(file_type))
                    if object.kind == gix_object::Kind::Blob =>
                {
                    search.add(&entry.path, file_type, entry.object, answers.len());
                    NotKeptReason::NoCommit
                }
                (Ok(StoredCopy::Absent), _) => NotKeptReason::NoObject,
                (Ok(StoredCopy::Found(_) | StoredCopy::Damaged), _) => NotKeptReason::Damaged,
                (Ok(StoredCopy::TooLarge) | Err(_), _) => NotKeptReason::BeyondBound,
            };
            answers.push(Err(why));
        }
        self.answer(tips, &mut reader, search, &mut answers)?;
        Ok(answers)
    }

    /// Reads a blob, verified; `None` if it is absent, damaged or too large.
    ///
    /// # Errors
    ///
    /// If a bound is exceeded.
    pub fn blob(&self, id: &ObjectId) -> Result<Option<Vec<u8>>, RepositoryError> {
        let found = self.reader().find(id, gix_object::Kind::Blob)?;
        Ok(found.map(|data| data.to_vec()))
    }
}

/// Returns the objects that the same reference, or the same entry of the same reflog, still names. To
/// find out what git's maintenance reaches, only those that it respects count.
fn unchanged(earlier: &Tips, now: &Tips, purpose: RootPurpose) -> BTreeSet<ObjectId> {
    let counts = |name: &[u8]| purpose == RootPurpose::Reach || !is_passing(name);
    let same =
        earlier.references.iter().filter(|(name, id)| now.references.get(*name) == Some(*id));
    let mut unchanged: BTreeSet<_> =
        same.filter(|(name, _)| counts(name)).map(|(_, id)| *id).collect();
    for (name, log) in earlier.logs.iter().filter(|(name, _)| counts(name)) {
        let later = now.logs.get(name).map(ReferenceLog::entries).unwrap_or_default();
        let common = log.entries().iter().zip(later).take_while(|(old, new)| old == new);
        unchanged.extend(common.flat_map(|(entry, _)| entry.objects()));
    }
    unchanged
}

/// Lists the staged blobs that a later state has lost. They are neither staged nor in a reachable
/// commit, and the caller does not find them in the working tree.
///
/// # Errors
///
/// If an index cannot be read. Everything that was staged then counts as lost.
pub fn lost_staged(
    before: &Repository,
    after: &Repository,
    mut is_in_working_tree: impl FnMut(&[u8], FileType, &[u8]) -> bool,
) -> Result<Vec<LostStagedBlob>, RepositoryError> {
    let (index, later) = (before.index()?, after.index()?);
    let still_staged = |entry: &StagedEntry| {
        later.of_path(&entry.path).iter().any(|other| other.object == entry.object)
    };
    let gone: Vec<_> = index
        .entries()
        .iter()
        .filter(|entry| {
            !entry.intent_to_add && staged_file(entry).is_some() && !still_staged(entry)
        })
        .collect();
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let answers = after.keeps_staged(&after.tips()?, &gone)?;
    let mut reader: ObjectReader<'_> = before.reader();
    let mut lost = Vec::new();
    for (entry, answer) in gone.into_iter().zip(answers) {
        let Some(file_type) = staged_file(entry).filter(|_| answer.is_err()) else { continue };
        let is_safe = match reader.read(&entry.object)? {
            StoredCopy::Found(object) => is_in_working_tree(&entry.path, file_type, &object.data),
            // The blob could not be read before either.
            StoredCopy::Absent | StoredCopy::Damaged => true,
            StoredCopy::TooLarge => false,
        };
        if !is_safe {
            lost.push(LostStagedBlob { path: entry.path.clone(), object: entry.object });
        }
    }
    Ok(lost)
}

fn staged_file(entry: &StagedEntry) -> Option<FileType> {
    match entry.entry_type {
        StagedType::File => Some(FileType::Regular),
        StagedType::SymbolicLink => Some(FileType::SymbolicLink),
        StagedType::Submodule => None,
    }
}
