//! Finds new files that have the bytes of a file that is gone, as after a rename by copying. Runs
//! in the cell.

use super::{
    super::settle::{content, whole},
    ignored::IgnoreRules,
    lost::LostEntry,
    noticed::new_paths,
    trees::{Trees, file, relative},
};
use crate::tools::rules::Kind;
use palisade_plan::{
    Path,
    cell::FileError,
    change::{Effect, Print},
    evidence::{EarlierEntry, EarlierKind, GitEvidence, NewCopy, git_directory},
};
use rustix::fs::FileType;
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
            let opened = lost
                .spot
                .dir()
                .and_then(|dir| content::open_file(&dir, &lost.spot.name, &lost.seen));
            one.digest = opened.ok().and_then(|file| digest(&file, one.size, &mut left));
            digests.extend(one.digest);
        }
    }
    let mut ignore = IgnoreRules::new(trees.after());
    let mut copies = Vec::new();
    for (size, ways) in by_size {
        for way in ways {
            let opened = file(trees.after(), &way).map(File::from);
            let Some(digest) = opened.ok().and_then(|file| digest(&file, size, &mut left)) else {
                continue;
            };
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
        GitEvidence::None => false,
        GitEvidence::Internal { .. } => true,
    };
    earlier.kind == EarlierKind::File && earlier.moved_to.is_none() && !is_kept
}

fn digest(file: &File, size: u64, left: &mut u64) -> Option<[u8; 32]> {
    *left = left.checked_sub(size)?;
    content::digest(file, size, None).ok().map(|(digests, _)| digests.whole)
}

/// Returns every new regular file with its size. Paths are relative to the workspace.
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
            Print::Absent | Print::Directory | Print::Symlink { .. } | Print::Node { .. } => {}
        }
    }
    files
}

fn in_tree(trees: &Trees, way: &[u8], path: &Path, files: &mut Vec<(Vec<u8>, u64)>) {
    let each =
        whole::each(trees.after().workspace, way, path, None, |part| -> Result<(), FileError> {
            if part.seen.kind() == FileType::RegularFile && files.len() < MOST_FILES {
                files.push(([way, b"/", part.way].concat(), part.seen.size));
            }
            Ok(())
        });
    // A tree that can not be walked completely counts as having no copies.
    if each.is_err() {
        files.retain(|(file, _)| !file.starts_with(way));
    }
}
