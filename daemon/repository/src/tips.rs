//! Tips: the objects from which git reaches everything that it keeps. A snapshot of them can be
//! taken before a command runs, and compared afterwards.

use crate::directory::{EntryType, GitDirectory};
use crate::log::ReferenceLog;
use crate::object::ObjectDatabase;
use crate::references::{ReferenceTarget, References, is_per_worktree, read_target, walk};
use crate::{Bounds, ObjectId, RepositoryError};
use std::collections::{BTreeMap, BTreeSet};

const REPLACEMENTS: &[u8] = b"refs/replace/";
const WORKTREES: &[u8] = b"worktrees/";
const MAIN_HEAD: &[u8] = b"main-worktree/HEAD";
const STASH: &[u8] = b"refs/stash";
/// Files with the id of a stash that an operation under way has made and will apply at its end.
const AUTOSTASHES: [&[u8]; 3] =
    [b"rebase-merge/autostash", b"rebase-apply/autostash", b"MERGE_AUTOSTASH"];
/// Files that the directory of every linked worktree has.
const WORKTREE_FILES: [&[u8]; 3] = [b"gitdir", b"commondir", b"index"];
/// Most linked worktrees that are examined.
pub(crate) const MOST_WORKTREES: usize = 1_000;

/// The references and reflogs of a repository at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tips {
    pub(crate) references: BTreeMap<Vec<u8>, ObjectId>,
    pub(crate) logs: BTreeMap<Vec<u8>, ReferenceLog>,
    pub(crate) unreadable: Vec<Vec<u8>>,
    /// The directories of linked worktrees that are not valid, with a slash at their end. Git's
    /// maintenance ignores or deletes them.
    pub(crate) invalid_worktrees: BTreeSet<Vec<u8>>,
    /// Objects named in reflog entries that no longer existed when the tips were read.
    pub(crate) absent: BTreeSet<ObjectId>,
}

/// The purpose of a list of roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootPurpose {
    /// To decide that bytes are kept: only roots that git's maintenance respects for some time.
    Keep,
    /// To find out what git's maintenance still reaches: also from linked worktrees.
    Maintain,
    /// To find out what is still reachable, also only until an operation has ended.
    Reach,
}

/// The directories of a repository.
pub(crate) struct RepositoryLayout<'a> {
    /// The directory of the main repository.
    pub(crate) common: &'a GitDirectory,
    /// The directory of a linked worktree, if one was opened.
    pub(crate) worktree: Option<&'a GitDirectory>,
    pub(crate) objects: &'a ObjectDatabase,
}

/// A file in a directory, and the name of the reference that it has or logs.
type NamedFile<'a> = (&'a GitDirectory, Vec<u8>, Vec<u8>);

impl<'a> RepositoryLayout<'a> {
    /// Lists every `HEAD`, with its place and its name in [`Tips`].
    fn heads(&self) -> Result<Vec<NamedFile<'a>>, RepositoryError> {
        let head = || b"HEAD".to_vec();
        let mut heads = match self.worktree {
            Some(own) => vec![(own, head(), head()), (self.common, head(), MAIN_HEAD.to_vec())],
            None => vec![(self.common, head(), head())],
        };
        for (name, is) in self.common.names(b"worktrees", MOST_WORKTREES)? {
            if is == EntryType::Directory {
                let path = [WORKTREES, &name, b"/HEAD"].concat();
                heads.push((self.common, path.clone(), path));
            }
        }
        Ok(heads)
    }

    /// Lists the directories in `worktrees` that lack a file without which git's maintenance ignores
    /// or deletes them. Where the worktree is can not be seen from here; a change of the files that
    /// say so is found by comparing them.
    fn invalid_worktrees(&self) -> Result<BTreeSet<Vec<u8>>, RepositoryError> {
        let names = self.common.names(b"worktrees", MOST_WORKTREES)?;
        let directories = names.into_iter().map(|(name, _)| [WORKTREES, &name, b"/"].concat());
        let has = |directory: &[u8], file: &&[u8]| {
            let identity = self.common.identity(&[directory, file].concat());
            identity.is_ok_and(|identity| identity.is_some_and(|identity| identity.size > 0))
        };
        let is_valid = |directory: &Vec<u8>| WORKTREE_FILES.iter().all(|file| has(directory, file));
        Ok(directories.filter(|directory| !is_valid(directory)).collect())
    }
}

impl Tips {
    pub(crate) fn read(
        layout: &RepositoryLayout<'_>,
        bounds: &Bounds,
    ) -> Result<Self, RepositoryError> {
        let kind = layout.objects.kind;
        let mut references = References::read(layout.common, kind, bounds)?;
        if let Some(own) = layout.worktree {
            references.read_worktree(own, kind, bounds)?;
        }
        let References { direct, unreadable } = references;
        let mut tips = Tips { references: direct, unreadable, ..Tips::default() };
        tips.invalid_worktrees = layout.invalid_worktrees()?;
        let heads = layout.heads()?;
        for (directory, path, name) in &heads {
            tips.read_head(directory, path, name, kind);
            tips.read_autostashes(directory, path, name, kind);
        }
        tips.read_logs(layout, heads, bounds)?;
        let entries = tips.logs.values().flat_map(ReferenceLog::entries);
        let logged: BTreeSet<_> = entries.flat_map(|entry| entry.objects()).collect();
        tips.absent = logged.into_iter().filter(|id| layout.objects.lacks(id)).collect();
        Ok(tips)
    }

    fn read_head(
        &mut self,
        directory: &GitDirectory,
        path: &[u8],
        name: &[u8],
        kind: gix_hash::Kind,
    ) {
        match read_target(directory, path, kind) {
            Some(ReferenceTarget::Object(id)) => drop(self.references.insert(name.to_vec(), id)),
            // Which worktree the reference belongs to is not known here.
            Some(ReferenceTarget::Symbolic(target)) if is_per_worktree(&target) => {}
            Some(ReferenceTarget::Symbolic(target)) => {
                if let Some(id) = self.references.get(&target).copied() {
                    self.references.insert(name.to_vec(), id);
                }
            }
            None => self.unreadable.push(name.to_vec()),
        }
    }

    /// Reads the stashes of operations under way in the directory of a `HEAD`.
    fn read_autostashes(
        &mut self,
        directory: &GitDirectory,
        head: &[u8],
        name: &[u8],
        kind: gix_hash::Kind,
    ) {
        let beside = |head: &[u8], file: &[u8]| {
            [head.strip_suffix(b"HEAD").unwrap_or_default(), file].concat()
        };
        for file in AUTOSTASHES {
            if let Some(ReferenceTarget::Object(id)) =
                read_target(directory, &beside(head, file), kind)
            {
                self.references.insert(beside(name, file), id);
            }
        }
    }

    fn read_logs(
        &mut self,
        layout: &RepositoryLayout<'_>,
        heads: Vec<NamedFile<'_>>,
        bounds: &Bounds,
    ) -> Result<(), RepositoryError> {
        let mut paths = Vec::new();
        for (directory, path, name) in heads {
            let parent = path.strip_suffix(b"HEAD").unwrap_or_default();
            paths.push((directory, [parent, b"logs/HEAD"].concat(), name));
        }
        for (path, is) in walk(layout.common, b"logs", bounds)? {
            // Git reads the reflog of every `HEAD` elsewhere, and no others that are not below
            // `refs`. Not every version treats the reflog of a deleted reference as a root.
            let name = path.strip_prefix(b"logs/").unwrap_or(&path).to_vec();
            match is {
                EntryType::File
                    if !name.starts_with(b"refs/") || !self.references.contains_key(&name) => {}
                EntryType::File => paths.push((layout.common, path, name)),
                EntryType::Directory | EntryType::Other => self.unreadable.push(path),
            }
        }
        let mut left = bounds.log_bytes;
        for (directory, path, name) in paths {
            match directory.read(&path, left) {
                Ok(Some(bytes)) => {
                    left = left.saturating_sub(bytes.len() as u64);
                    self.logs.insert(name, ReferenceLog::parse(bytes, layout.objects.kind));
                }
                Ok(None) => {}
                Err(error @ RepositoryError::Bound { .. }) => return Err(error),
                Err(_) => self.unreadable.push(path),
            }
        }
        Ok(())
    }

    /// Returns the references and `HEAD`, by name. `HEAD` of another worktree is
    /// `worktrees/NAME/HEAD`.
    #[must_use]
    pub fn references(&self) -> &BTreeMap<Vec<u8>, ObjectId> {
        &self.references
    }

    /// Returns the reflogs, by the name of their reference.
    #[must_use]
    pub fn logs(&self) -> &BTreeMap<Vec<u8>, ReferenceLog> {
        &self.logs
    }

    /// Returns the names of references that exist and cannot be read; they keep nothing.
    #[must_use]
    pub fn unreadable(&self) -> &[Vec<u8>] {
        &self.unreadable
    }

    /// Iterates over every object that a reference or reflog entry names, with the name of the
    /// reference.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&[u8], ObjectId)> {
        let references = self.references.iter().map(|(name, id)| (name.as_slice(), *id));
        let logged = self.logs.iter().flat_map(|(name, log)| {
            let ids = log.entries().iter().flat_map(|entry| entry.objects());
            ids.map(move |id| (name.as_slice(), id))
        });
        references.chain(logged)
    }

    /// Returns the objects that git would replace by another object.
    pub(crate) fn replaced(&self) -> BTreeSet<ObjectId> {
        let names = self.references.keys().chain(&self.unreadable);
        let ids = names.filter_map(|name| name.strip_prefix(REPLACEMENTS));
        ids.filter_map(|id| ObjectId::from_hex(id).ok()).collect()
    }

    /// Returns `true` if a reference or log is a root for a purpose.
    pub(crate) fn is_root(&self, name: &[u8], purpose: RootPurpose) -> bool {
        let counts = match purpose {
            RootPurpose::Keep => !is_passing(name),
            RootPurpose::Maintain => !is_passing(name) || self.is_worktree_head(name),
            RootPurpose::Reach => true,
        };
        counts && !name.starts_with(REPLACEMENTS)
    }

    /// Returns `true` if a name is that of `HEAD` in a valid linked worktree.
    fn is_worktree_head(&self, name: &[u8]) -> bool {
        name.starts_with(WORKTREES)
            && name
                .strip_suffix(b"HEAD")
                .is_some_and(|directory| !self.invalid_worktrees.contains(directory))
    }

    /// Returns the roots of reachability: `HEAD` and its reflog, the stash, branches, then
    /// everything else.
    pub(crate) fn roots(&self, purpose: RootPurpose, bounds: &Bounds) -> Vec<ObjectId> {
        let names = self.references.keys().chain(self.logs.keys());
        let mut names: Vec<_> = names.filter(|name| self.is_root(name, purpose)).collect();
        names.sort_by_key(|name| (order(name), *name));
        names.dedup();
        let mut roots = Vec::new();
        for name in names {
            roots.extend(self.references.get(name).copied());
            let oldest = bounds.oldest_log_entry.filter(|_| name != STASH);
            let entries = self.logs.get(name).map(ReferenceLog::entries).unwrap_or_default();
            let recent =
                entries.iter().rev().filter(|entry| oldest.is_none_or(|o| entry.time >= o));
            roots.extend(recent.flat_map(|entry| entry.objects()));
        }
        roots
    }
}

/// Returns `true` if git's maintenance does not respect what a name leads to, or no longer does once a
/// worktree is removed or an operation has ended.
pub(crate) fn is_passing(name: &[u8]) -> bool {
    name.starts_with(WORKTREES) || is_autostash(name) || is_per_worktree(name)
}

fn is_autostash(name: &[u8]) -> bool {
    AUTOSTASHES.iter().any(|file| name.ends_with(file)) && !name.starts_with(b"refs/")
}

/// Returns `true` if a name in [`Tips`] stands for a stash: one of `git stash`, or one that a rebase
/// or merge under way has made.
#[must_use]
pub fn is_stash(name: &[u8]) -> bool {
    name == STASH || is_autostash(name)
}

/// Returns the rank of a reference in the order in which roots are searched.
fn order(name: &[u8]) -> u8 {
    match name {
        b"HEAD" => 0,
        STASH => 1,
        name if name.starts_with(b"refs/heads/") => 2,
        _ => 3,
    }
}
