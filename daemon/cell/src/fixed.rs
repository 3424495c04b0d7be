//! What stays where it is on a private file system of the session's, which the session may write:
//! directories of programs that the host does not have, and the way to what is mounted read-only.
//! Room: the cell, while it has privilege.
//!
//! A directory above a mount can be renamed, the mount with it, and another be made in its place
//! with other programs in it. A mount point itself can not.

use crate::{
    failure::StepFailure,
    mounts::{self, NO_DEV, NO_EXEC, NO_SUID, READ_ONLY},
    root::Piece,
};
use palisade_plan::{Access, Root};
use std::{
    collections::BTreeSet,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// Adds the directories that are to be empty, and pins the way to all that is read-only.
pub(crate) fn add(root: &Root, pieces: &mut Vec<(PathBuf, Piece)>) -> Result<(), StepFailure> {
    for path in &root.empty {
        let path = path.as_path();
        // A link on a private file system can be replaced by whoever may write there.
        pieces.retain(|(at, piece)| at != path || !matches!(piece, Piece::Link(_)));
        if private_above(root, pieces, path).is_some_and(|above| above != path) {
            pieces.push((path.to_owned(), Piece::Directory(empty(path)?)));
        }
    }
    let mut pins = BTreeSet::new();
    for (path, _) in pieces.iter().filter(|(path, piece)| is_read_only(root, path, piece)) {
        let Some(parent) = path.parent() else { continue };
        let Some(above) = private_above(root, pieces, parent) else { continue };
        let between = parent.ancestors().take_while(|ancestor| *ancestor != above);
        pins.extend(between.map(Path::to_owned));
    }
    pieces.extend(pins.into_iter().map(|path| (path, Piece::Pinned)));
    Ok(())
}

/// The private file system that a path lies on, if what is innermost over it is one.
fn private_above<'a>(root: &'a Root, pieces: &[(PathBuf, Piece)], path: &Path) -> Option<&'a Path> {
    let over = pieces.iter().map(|(at, _)| at.as_path()).filter(|at| path.starts_with(at));
    let innermost = over.max_by_key(|at| at.components().count())?;
    root.tmpfs.iter().map(|tmpfs| tmpfs.path.as_path()).find(|private| *private == innermost)
}

/// Whether what is put in place is a mount that the session can not write.
fn is_read_only(root: &Root, path: &Path, piece: &Piece) -> bool {
    let writes =
        root.binds.iter().any(|bind| bind.access == Access::Write && bind.path.as_path() == path);
    let private = root.tmpfs.iter().any(|tmpfs| tmpfs.path.as_path() == path);
    match piece {
        Piece::Directory(_) | Piece::File(_) => {
            !writes && !private && root.workspace.path.as_path() != path
        }
        Piece::Link(_) | Piece::Text(_) | Piece::Pinned => false,
    }
}

/// A directory with nothing in it, for good.
fn empty(path: &Path) -> Result<OwnedFd, StepFailure> {
    let options = [("mode", "0555".into()), ("size", "4k".into()), ("nr_inodes", "2".into())];
    mounts::new("tmpfs", &options, NO_SUID | NO_DEV | NO_EXEC | READ_ONLY)
        .map_err(StepFailure::kernel(format!("empty {}", path.display())))
}
