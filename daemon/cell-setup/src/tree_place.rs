//! Finds the place of a directory tree on the host, so that the broker knows which sessions change
//! the same directories. Runs in the cell, while it has privilege, with the session's rights.

use palisade_plan::{DirectoryIdentity, TreePlace};
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, OwnedFd};

/// The most directories of a place. A deeper tree counts as unknown, and so overlaps every other.
const MOST_DIRECTORIES: usize = 512;

/// Returns the place of a tree, from its top directory up to the root.
///
/// Names are not compared: a directory keeps its identity when it is renamed.
pub(crate) fn of(top: impl AsFd) -> TreePlace {
    TreePlace(directories(top).unwrap_or_default())
}

/// Returns the directory itself and those above it; `None` if they can not all be looked at.
fn directories(top: impl AsFd) -> Option<Vec<DirectoryIdentity>> {
    let mut all = vec![identity(&top)?];
    let mut above = parent(&top)?;
    while all.len() < MOST_DIRECTORIES {
        let next = identity(&above)?;
        // The root is its own parent.
        if all.last() == Some(&next) {
            return Some(all);
        }
        all.push(next);
        above = parent(&above)?;
    }
    None
}

fn identity(directory: impl AsFd) -> Option<DirectoryIdentity> {
    let stat = rustix::fs::fstat(directory).ok()?;
    Some(DirectoryIdentity { device: stat.st_dev, inode: stat.st_ino })
}

fn parent(directory: impl AsFd) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, "..", flags, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::resolve_without_links;
    use std::{fs, path::Path};

    fn place(path: &Path) -> TreePlace {
        of(resolve_without_links(path).unwrap())
    }

    #[test]
    fn a_tree_overlaps_itself_what_is_inside_and_what_is_around_it() {
        let temp = tempfile::tempdir().unwrap();
        let at = temp.path().canonicalize().unwrap();
        fs::create_dir_all(at.join("a/b/c")).unwrap();
        fs::create_dir_all(at.join("ab")).unwrap();
        let [a, b, c, ab] = ["a", "a/b", "a/b/c", "ab"].map(|name| place(&at.join(name)));
        assert!(a.overlaps(&a) && a.overlaps(&c) && c.overlaps(&a) && b.overlaps(&c));
        assert!(!a.overlaps(&ab) && !ab.overlaps(&c));
        assert!(place(Path::new("/")).overlaps(&c));
        // Under another name it is still the same tree.
        fs::rename(at.join("a"), at.join("z")).unwrap();
        assert_eq!(place(&at.join("z/b")), b);
    }

    #[test]
    fn a_place_that_is_not_known_may_be_anywhere() {
        let temp = tempfile::tempdir().unwrap();
        let (known, unknown) = (place(&temp.path().canonicalize().unwrap()), TreePlace(Vec::new()));
        assert!(known.overlaps(&unknown) && unknown.overlaps(&known));
        assert!(unknown.overlaps(&unknown));
    }
}
