//! Finds new files and links that are the same as one that is gone, as after a rename by copying.
//! Runs in the cell.

use super::{
    super::settle::{content, whole},
    ignored::IgnoreRules,
    lost::LostEntry,
    noticed::new_paths,
    trees::{Trees, file, link, relative},
};
use crate::tools::rules::Kind;
use palisade_plan::{
    Path,
    cell::FileError,
    change::{Effect, Print},
    evidence::{EarlierEntry, EarlierKind, GitEvidence, NewCopy, git_directory},
};
use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
};

/// The maximum number of bytes read to find copies.
const MOST_BYTES: u64 = 512 * 1024 * 1024;

/// The maximum number of new files examined.
const MOST_FILES: usize = 100_000;

/// Notes, for each renamed file, whether git ignores it at its new path.
pub(super) fn note_ignored(trees: &Trees, earlier: &mut [EarlierEntry]) {
    let mut ignore = IgnoreRules::new(trees.after());
    for place in earlier.iter_mut().filter_map(|one| one.moved_to.as_mut()) {
        if let Some(way) = relative(&place.path.0, &trees.top) {
            place.is_ignored = is_ignored(&mut ignore, way);
        }
    }
}

/// Returns `true` if any rules ignore a file. The rules of every directory above count, whichever
/// repository they belong to.
fn is_ignored(ignore: &mut IgnoreRules<'_>, way: &[u8]) -> bool {
    ignore.directory_of(b"", way).is_some() || ignore.is_ignored(b"", way, Kind::Other)
}

/// Finds new files with the bytes of files that are gone, and notes digests in `earlier`.
pub(super) fn find(
    trees: &Trees,
    effects: &[Effect],
    earlier: &mut [EarlierEntry],
    lost: &[LostEntry],
) -> Vec<NewCopy> {
    let mut left = MOST_BYTES;
    let sizes: HashSet<u64> =
        earlier.iter().filter(|one| is_open(one)).map(|one| one.size).collect();
    if sizes.is_empty() {
        return Vec::new();
    }
    let mut by_size: HashMap<u64, Vec<Vec<u8>>> = HashMap::new();
    for (way, size) in new_files(trees, effects) {
        if sizes.contains(&size) && git_directory(&way).is_none() {
            by_size.entry(size).or_default().push(way);
        }
    }
    let mut digests = HashSet::new();
    for (one, lost) in earlier.iter_mut().zip(lost) {
        if is_open(one) && by_size.contains_key(&one.size) {
            one.digest = match one.kind {
                EarlierKind::SymbolicLink => lost.spot.link().ok().map(|to| link_digest(&to)),
                EarlierKind::File
                | EarlierKind::Attributes
                | EarlierKind::Tree { .. }
                | EarlierKind::Other => {
                    let dir = lost.spot.dir();
                    let file =
                        dir.and_then(|dir| content::open_file(&dir, &lost.spot.name, &lost.seen));
                    file.ok().and_then(|file| digest(&file, one.size, &mut left))
                }
            };
            digests.extend(one.digest);
        }
    }
    let mut ignore = IgnoreRules::new(trees.after());
    let mut copies = Vec::new();
    for (size, ways) in by_size {
        for way in ways {
            let digest = match link(trees.after(), &way) {
                Some(target) => Some(link_digest(&target)),
                None => {
                    let opened = file(trees.after(), &way).map(File::from);
                    opened.ok().and_then(|file| digest(&file, size, &mut left))
                }
            };
            let Some(digest) = digest else { continue };
            if digests.contains(&digest) {
                let is_ignored = is_ignored(&mut ignore, &way);
                copies.push(NewCopy { path: trees.path(&way), digest, is_ignored });
            }
        }
    }
    copies.sort_by(|one, other| one.path.0.cmp(&other.path.0));
    copies
}

/// Returns `true` if nothing is known yet that preserves a file's bytes.
fn is_open(earlier: &EarlierEntry) -> bool {
    let is_kept = match &earlier.git {
        GitEvidence::WorkingTree(tree) => {
            tree.ignored.is_some() || (tree.commit.is_some() && !tree.stays_tracked)
        }
        GitEvidence::None | GitEvidence::Tracked => false,
        GitEvidence::Internal { .. } => true,
    };
    let is_file = matches!(earlier.kind, EarlierKind::File | EarlierKind::SymbolicLink);
    is_file && earlier.moved_to.is_none() && !is_kept
}

/// Computes the digest of a file's bytes, and of its attributes if it has some: a copy without them
/// does not keep them.
fn digest(file: &File, size: u64, left: &mut u64) -> Option<[u8; 32]> {
    *left = left.checked_sub(size)?;
    let (digests, _) = content::digest(file, size, None).ok()?;
    let attributes = content::attributes(file).ok()?;
    if attributes.is_empty() {
        return Some(digests.whole);
    }
    let mut hash = Sha256::new().chain_update(digests.whole);
    for part in attributes.iter().flat_map(|(name, value)| [name, value]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    Some(hash.finalize().into())
}

/// Computes a digest that only a link to the same target has.
fn link_digest(target: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(b"link\0").chain_update(target).finalize().into()
}

/// Returns every new regular file with its size, and every new link. Paths are relative to the
/// workspace.
fn new_files(trees: &Trees, effects: &[Effect]) -> Vec<(Vec<u8>, u64)> {
    let mut files = Vec::new();
    for effect in new_paths(effects) {
        let Some(way) = relative(&effect.path.0, &trees.top) else { continue };
        if files.len() >= MOST_FILES {
            break;
        }
        match &effect.print {
            Print::File { .. } => files.push((way.to_vec(), effect.size_after)),
            Print::Tree { .. } => in_tree(trees, way, &effect.path, &mut files),
            // A link counts as empty.
            Print::Symlink { .. } => files.push((way.to_vec(), 0)),
            Print::Absent | Print::Directory | Print::Node { .. } => {}
        }
    }
    files
}

fn in_tree(trees: &Trees, way: &[u8], path: &Path, files: &mut Vec<(Vec<u8>, u64)>) {
    let each =
        whole::each(trees.after().workspace, way, path, None, |part| -> Result<(), FileError> {
            let is_file = matches!(part.seen.kind(), FileType::RegularFile | FileType::Symlink);
            if is_file && files.len() < MOST_FILES {
                files.push(([way, b"/", part.way].concat(), part.seen.file_size()));
            }
            Ok(())
        });
    // A tree that can not be walked completely counts as having no copies.
    if each.is_err() {
        files.retain(|(file, _)| !file.starts_with(way));
    }
}
