//! Pins directories on a session's private, writable file systems: directories of programs that the
//! host does not have, and the parents of read-only mounts. Runs in the cell, while it has
//! privilege.
//!
//! A directory above a mount can be renamed, and the mount moves with it. Another directory with
//! other programs could then be made in its place. A mount point itself can not be renamed.

use crate::{
    failure::StepFailure,
    mounts::{self, NO_DEV, NO_EXEC, NO_SUID, READ_ONLY},
    root::RootEntry,
};
use palisade_plan::{Access, Root};
use std::{
    collections::BTreeSet,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// Adds the directories that must stay empty, and pins every directory that leads to a read-only
/// mount.
pub(crate) fn add(root: &Root, pieces: &mut Vec<(PathBuf, RootEntry)>) -> Result<(), StepFailure> {
    for path in &root.empty {
        let path = path.as_path();
        // Whoever may write on a private file system can replace a link there.
        pieces.retain(|(at, piece)| at != path || !matches!(piece, RootEntry::Link(_)));
        if private_above(root, pieces, path).is_some_and(|above| above != path) {
            pieces.push((path.to_owned(), RootEntry::Directory(empty(path)?)));
        }
    }
    let mut pins = BTreeSet::new();
    for (path, _) in pieces.iter().filter(|(path, piece)| is_read_only(root, path, piece)) {
        let Some(parent) = path.parent() else { continue };
        let Some(above) = private_above(root, pieces, parent) else { continue };
        let between = parent.ancestors().take_while(|ancestor| *ancestor != above);
        pins.extend(between.map(Path::to_owned));
    }
    pieces.extend(pins.into_iter().map(|path| (path, RootEntry::Pinned)));
    Ok(())
}

/// Returns the private file system that `path` lies on, or `None` if the innermost mount above it
/// is another one.
fn private_above<'a>(
    root: &'a Root,
    pieces: &[(PathBuf, RootEntry)],
    path: &Path,
) -> Option<&'a Path> {
    let over = pieces.iter().map(|(at, _)| at.as_path()).filter(|at| path.starts_with(at));
    let innermost = over.max_by_key(|at| at.components().count())?;
    root.tmpfs.iter().map(|tmpfs| tmpfs.path.as_path()).find(|private| *private == innermost)
}

/// Returns `true` if `piece` is a mount that the session can not write.
fn is_read_only(root: &Root, path: &Path, piece: &RootEntry) -> bool {
    let writes =
        root.binds.iter().any(|bind| bind.access == Access::Write && bind.path.as_path() == path);
    let private = root.tmpfs.iter().any(|tmpfs| tmpfs.path.as_path() == path);
    match piece {
        RootEntry::Directory(_) | RootEntry::File(_) => {
            !writes && !private && root.workspace.path.as_path() != path
        }
        RootEntry::Link(_) | RootEntry::Text(_) | RootEntry::Pinned => false,
    }
}

/// Makes a read-only file system whose root directory stays empty.
fn empty(path: &Path) -> Result<OwnedFd, StepFailure> {
    let options = [("mode", "0555".into()), ("size", "4k".into()), ("nr_inodes", "2".into())];
    mounts::new("tmpfs", &options, NO_SUID | NO_DEV | NO_EXEC | READ_ONLY)
        .map_err(StepFailure::kernel(format!("empty {}", path.display())))
}
