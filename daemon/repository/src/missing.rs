//! Finds objects that were readable in an earlier state of a repository and are not in a later one.
//! Also finds files that redirect git to other objects than before.

use crate::commit_graph::is_consistent;
use crate::directory::{EntryType, FileIdentity, GitDirectory, same_bytes};
use crate::object::{ObjectDatabase, ObjectReader, StoredCopy};
use crate::tips::MOST_WORKTREES;
use crate::{ObjectId, Repository, RepositoryError};
use std::collections::BTreeSet;

/// Files that redirect git elsewhere, or truncate history. The last two are caches that git trusts,
/// and that it writes only when asked to.
const LINKS: [&[u8]; 8] = [
    b"objects/info/alternates",
    b"objects/info/http-alternates",
    b"info/grafts",
    b"shallow",
    b"commondir",
    b"gitdir",
    b"objects/info/commit-graphs/commit-graph-chain",
    b"objects/pack/multi-pack-index",
];
/// A cache of history that git's maintenance writes. It is checked when it changes.
const COMMIT_GRAPH: &[u8] = b"objects/info/commit-graph";
/// The largest file that is compared byte by byte. For a larger one each object is verified.
const COMPARED: u64 = 1 << 30;

/// Lists objects that are no longer readable, and unreadable packs that changed.
pub(crate) fn missing(
    before: &Repository,
    after: &Repository,
) -> Result<(Vec<ObjectId>, Vec<Vec<u8>>), RepositoryError> {
    let (old, new) = (&before.objects, &after.objects);
    let limit = before.bounds.listed_objects;
    let mut suspects = BTreeSet::new();
    let mut suspect = |id: ObjectId| {
        suspects.insert(id);
        let is_bounded = suspects.len() <= limit;
        is_bounded.then_some(()).ok_or(RepositoryError::bound("listed objects", limit))
    };
    let mut listed = 0;
    for pack in &old.packs {
        let is_usable = new.packs.iter().any(|other| other.name == pack.name);
        if is_usable && is_same_pack(old, new, &pack.name)? {
            continue;
        }
        for id in pack.index.all_ids() {
            suspect(id.ok_or(RepositoryError::malformed(&pack.name, "an index that is cut"))?)?;
        }
    }
    for first in 0..=u8::MAX {
        let first = format!("{first:02x}").into_bytes();
        let Some(directory) = old.directory.directory(&first)? else { continue };
        let later = new.directory.directory(&first).ok().flatten();
        for (name, is) in directory.names(b".", limit)? {
            listed += 1;
            if listed > limit {
                return Err(RepositoryError::bound("listed objects", limit));
            }
            let id = ObjectId::from_hex(&[first.as_slice(), &name].concat());
            let id = id.ok().filter(|id| id.kind() == old.kind && is == EntryType::File);
            let Some(id) = id else { continue };
            let is_same = match &later {
                Some(later) => is_same_file(&directory, later, &name)?,
                None => false,
            };
            if !is_same {
                suspect(id)?;
            }
        }
    }
    let mut changed_packs = Vec::new();
    for name in &old.unusable {
        if !is_same_pack(old, new, name)? {
            changed_packs.push(name.clone());
        }
    }
    Ok((unreadable(before, after, suspects)?, changed_packs))
}

/// Returns the objects that the later state cannot read although the earlier one could.
fn unreadable(
    before: &Repository,
    after: &Repository,
    suspects: BTreeSet<ObjectId>,
) -> Result<Vec<ObjectId>, RepositoryError> {
    let (mut old, mut new): (ObjectReader<'_>, ObjectReader<'_>) =
        (before.reader(), after.reader());
    let mut missing = Vec::new();
    for id in suspects {
        if matches!(new.read(&id)?, StoredCopy::Found(_)) {
            continue;
        }
        match old.read(&id)? {
            StoredCopy::Found(_) | StoredCopy::TooLarge => missing.push(id),
            StoredCopy::Absent | StoredCopy::Damaged => {}
        }
    }
    Ok(missing)
}

fn is_same_pack(
    old: &ObjectDatabase,
    new: &ObjectDatabase,
    name: &[u8],
) -> Result<bool, RepositoryError> {
    for ending in [b".idx".as_slice(), b".pack"] {
        let path = [b"pack/", name, ending].concat();
        if !is_same_file(&old.directory, &new.directory, &path)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns `true` if a file is unchanged. If its change time, which only the kernel sets, is the
/// same, the file is not read.
fn is_same_file(
    old: &GitDirectory,
    new: &GitDirectory,
    path: &[u8],
) -> Result<bool, RepositoryError> {
    let (identity, later) = (old.identity(path)?, new.identity(path).ok().flatten());
    if identity.is_some() && identity == later {
        return Ok(true);
    }
    let size = |identity: Option<FileIdentity>| identity.map(|identity| identity.size);
    if size(identity) != size(later) || size(identity) > Some(COMPARED) {
        return Ok(false);
    }
    match (old.file(path)?, new.file(path)) {
        (Some(one), Ok(Some(other))) => {
            same_bytes(one, other).map_err(|error| RepositoryError::io(path, error))
        }
        (None, Ok(None)) => Ok(true),
        _ => Ok(false),
    }
}

/// Lists the files that redirect git elsewhere, or truncate history, and that differ.
pub(crate) fn changed_links(
    before: &Repository,
    after: &Repository,
) -> Result<Vec<Vec<u8>>, RepositoryError> {
    let mut paths: BTreeSet<Vec<u8>> = LINKS.iter().map(|path| path.to_vec()).collect();
    for repository in [before, after] {
        for (name, _) in repository.common.names(b"worktrees", MOST_WORKTREES)? {
            paths.insert([b"worktrees/", name.as_slice(), b"/gitdir"].concat());
            paths.insert([b"worktrees/", name.as_slice(), b"/commondir"].concat());
        }
    }
    let mut changed = Vec::new();
    for path in paths {
        let read = |repository: &Repository| {
            repository.common.read(&path, repository.bounds.file_bytes).map_err(drop)
        };
        let (old, new) = (read(before), read(after));
        if old.is_err() || old != new {
            changed.push(path);
        }
    }
    if !has_consistent_graph(before, after)? {
        changed.push(COMMIT_GRAPH.to_vec());
    }
    Ok(changed)
}

/// Returns `true` if the cache of history is unchanged, deleted, or consistent with the commits.
fn has_consistent_graph(before: &Repository, after: &Repository) -> Result<bool, RepositoryError> {
    let identity =
        |repository: &Repository| repository.common.identity(COMMIT_GRAPH).ok().flatten();
    if identity(before).is_some() && identity(before) == identity(after) {
        return Ok(true);
    }
    let bytes = match after.common.read(COMMIT_GRAPH, after.bounds.file_bytes) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(true),
        Err(_) => return Ok(false),
    };
    match is_consistent(&bytes, &mut after.reader()) {
        Err(RepositoryError::Bound { .. }) => Ok(false),
        other => other,
    }
}
