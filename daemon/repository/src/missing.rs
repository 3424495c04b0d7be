//! Finds objects that were readable in an earlier state of a repository and are not in a later one.
//! Also finds files that redirect git to other objects than before.

use crate::commit_graph::is_consistent;
use crate::directory::{EntryType, FileIdentity, GitDirectory, same_bytes};
use crate::object::{ObjectDatabase, ObjectReader, loose_path};
use crate::stored::StoredCopy;
use crate::tips::MOST_WORKTREES;
use crate::{ObjectChanges, ObjectId, Repository, RepositoryError};
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
/// Directories of caches that are split over several files. Git believes each file, and finds in one
/// what the positions in another stand for. It writes them only when asked to.
const SPLIT_CACHES: [&[u8]; 2] =
    [b"objects/info/commit-graphs", b"objects/pack/multi-pack-index.d"];
const PACKS: &[u8] = b"objects/pack";
/// Most files of a split cache. Git makes a few.
const MOST_CACHE_FILES: usize = 1_000;
/// The largest file that is compared byte by byte. For a larger one each object is verified.
const COMPARED: u64 = 1 << 30;

/// Objects that the later state may not be able to read.
struct Suspects {
    ids: BTreeSet<ObjectId>,
    /// The number of ids that were looked at.
    listed: usize,
    limit: usize,
}

impl Suspects {
    /// Counts an id that is looked at.
    fn count(&mut self) -> Result<(), RepositoryError> {
        self.listed += 1;
        let is_bounded = self.listed <= self.limit;
        is_bounded.then_some(()).ok_or(RepositoryError::bound("listed objects", self.limit))
    }
}

/// Lists objects that are no longer readable, and packs that changed or were added and that can not
/// be read.
pub(crate) fn missing(
    before: &Repository,
    after: &Repository,
    changes: ObjectChanges<'_>,
) -> Result<(Vec<ObjectId>, Vec<Vec<u8>>), RepositoryError> {
    let (old, new) = (&before.objects, &after.objects);
    let limit = before.bounds.listed_objects;
    let mut suspects = Suspects { ids: BTreeSet::new(), listed: 0, limit };
    let mut unreadable_files = Vec::new();
    match changes {
        ObjectChanges::Possible => {
            changed_packs(old, new, &mut suspects, &mut unreadable_files)?;
            changed_loose(old, new, &mut suspects, &mut unreadable_files)?;
        }
        ObjectChanges::Added(paths) => {
            for path in paths {
                added_file(old, new, path, &mut suspects, &mut unreadable_files)?;
            }
        }
    }
    added_packs(old, new, changes, &mut suspects, &mut unreadable_files)?;
    Ok((unreadable(before, after, suspects.ids)?, unreadable_files))
}

/// Suspects the objects of the packs that changed or were deleted.
fn changed_packs(
    old: &ObjectDatabase,
    new: &ObjectDatabase,
    suspects: &mut Suspects,
    unreadable_files: &mut Vec<Vec<u8>>,
) -> Result<(), RepositoryError> {
    for pack in &old.packs {
        let is_usable = new.packs.iter().any(|other| other.name == pack.name);
        if is_usable && is_same_pack(old, new, &pack.name)? {
            continue;
        }
        for id in pack.index.all_ids() {
            suspects.count()?;
            let cut = RepositoryError::malformed(&pack.name, "an index that is cut");
            suspects.ids.insert(id.ok_or(cut)?);
        }
    }
    for name in &old.unusable {
        if !is_same_pack(old, new, name)? {
            unreadable_files.push(name.clone());
        }
    }
    Ok(())
}

/// Suspects the loose objects that changed or were deleted, and those that were added although the
/// earlier state had the object elsewhere.
fn changed_loose(
    old: &ObjectDatabase,
    new: &ObjectDatabase,
    suspects: &mut Suspects,
    unreadable_files: &mut Vec<Vec<u8>>,
) -> Result<(), RepositoryError> {
    for first in 0..=u8::MAX {
        let first = format!("{first:02x}").into_bytes();
        let earlier = old.directory.directory(&first)?;
        let later = match new.directory.directory(&first) {
            Ok(later) => later,
            // Git would follow a link.
            Err(_) => {
                unreadable_files.push(first.clone());
                None
            }
        };
        if let Some(earlier) = &earlier {
            for (name, is) in earlier.names(b".", suspects.limit)? {
                suspects.count()?;
                let id = loose_id(old, &[first.as_slice(), &name].concat());
                let Some(id) = id.filter(|_| is == EntryType::File) else { continue };
                let is_same = match &later {
                    Some(later) => is_same_file(earlier, later, &name)?,
                    None => false,
                };
                if !is_same {
                    suspects.ids.insert(id);
                }
            }
        }
        let Some(later) = &later else { continue };
        for (name, _) in later.names(b".", suspects.limit)? {
            let is_known = match &earlier {
                Some(earlier) => earlier.identity(&name)?.is_some(),
                None => false,
            };
            if !is_known {
                let path = [first.as_slice(), b"/", &name].concat();
                added_file(old, new, &path, suspects, unreadable_files)?;
            }
        }
    }
    Ok(())
}

/// Suspects a new loose object if the earlier state had that object elsewhere.
fn added_file(
    old: &ObjectDatabase,
    new: &ObjectDatabase,
    path: &[u8],
    suspects: &mut Suspects,
    unreadable_files: &mut Vec<Vec<u8>>,
) -> Result<(), RepositoryError> {
    suspects.count()?;
    // Git would follow a link to an object, or to a directory of objects. Packs are examined
    // by `added_packs`.
    if !path.starts_with(b"pack/") && new.directory.is_link(path)? {
        unreadable_files.push(path.to_vec());
    }
    let digits: Vec<u8> = path.iter().copied().filter(|byte| *byte != b'/').collect();
    if let Some(id) = loose_id(old, &digits).filter(|id| loose_path(id) == path)
        && old.may_have(&id)
    {
        suspects.ids.insert(id);
    }
    Ok(())
}

/// Suspects the objects of new packs that the earlier state had too. Git prefers packs to loose
/// objects and does not hash what it reads, so a new pack can stand in for what was there.
fn added_packs(
    old: &ObjectDatabase,
    new: &ObjectDatabase,
    changes: ObjectChanges<'_>,
    suspects: &mut Suspects,
    unreadable_files: &mut Vec<Vec<u8>>,
) -> Result<(), RepositoryError> {
    for pack in new.packs.iter().chain(&new.promised) {
        let mut known = old.packs.iter().chain(&old.promised);
        let is_known = known.any(|other| other.name == pack.name);
        let is_same = match changes {
            ObjectChanges::Possible => is_known && is_same_pack(old, new, &pack.name)?,
            ObjectChanges::Added(_) => is_known,
        };
        if is_same {
            continue;
        }
        for id in pack.index.all_ids() {
            suspects.count()?;
            match id {
                Some(id) if old.may_have(&id) => drop(suspects.ids.insert(id)),
                Some(_) => {}
                None => unreadable_files.push(pack.name.clone()),
            }
        }
    }
    for name in new.unusable.iter().filter(|name| !old.unusable.contains(name)) {
        // What a promisor pack has was examined above.
        if !new.promised.iter().any(|pack| pack.name == *name) {
            unreadable_files.push(name.clone());
        }
    }
    Ok(())
}

/// Returns the id that the digits of a loose object's path stand for.
fn loose_id(objects: &ObjectDatabase, digits: &[u8]) -> Option<ObjectId> {
    ObjectId::from_hex(digits).ok().filter(|id| id.kind() == objects.kind)
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
        let later = new.read(&id)?;
        if matches!(later, StoredCopy::Found(_)) {
            continue;
        }
        let is_missing = match old.read(&id)? {
            StoredCopy::Found(_) | StoredCopy::TooLarge => true,
            // It may be in a place that only git reads. There must be no wrong copy of it.
            StoredCopy::Absent => {
                !matches!(later, StoredCopy::Absent) && before.objects.may_have(&id)
            }
            StoredCopy::Damaged => false,
        };
        if is_missing {
            missing.push(id);
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
    changed.extend(new_bitmaps(before, after)?);
    for directory in SPLIT_CACHES {
        let new = new_cache_files(before, after, directory)?;
        changed.extend(new.into_iter().filter(|path| !LINKS.contains(&path.as_slice())));
    }
    Ok(changed)
}

/// Lists the files in the directory of a split cache that are new or changed. A directory that can
/// not be read, as a symbolic link, counts as new.
fn new_cache_files(
    before: &Repository,
    after: &Repository,
    directory: &[u8],
) -> Result<Vec<Vec<u8>>, RepositoryError> {
    let Ok(names) = after.common.names(directory, MOST_CACHE_FILES) else {
        return Ok(vec![directory.to_vec()]);
    };
    let mut found = Vec::new();
    for (name, _) in names {
        let path = [directory, b"/", &name].concat();
        if !name.ends_with(b".lock") && !is_same_file(&before.common, &after.common, &path)? {
            found.push(path);
        }
    }
    Ok(found)
}

/// Lists the caches of reachability that are new or changed. `git prune` deletes what they leave out,
/// and they are not verified. Git's maintenance writes them only if it is configured to, or in a bare
/// repository.
fn new_bitmaps(before: &Repository, after: &Repository) -> Result<Vec<Vec<u8>>, RepositoryError> {
    let mut found = Vec::new();
    for (name, _) in after.common.names(PACKS, after.bounds.listed_objects)? {
        let path = [PACKS, b"/", &name].concat();
        if name.ends_with(b".bitmap") && !is_same_file(&before.common, &after.common, &path)? {
            found.push(path);
        }
    }
    Ok(found)
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
