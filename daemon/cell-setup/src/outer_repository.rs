//! Finds the repository around a workspace that is a directory in the working tree of git. Runs in
//! the cell, while it has privilege.
//!
//! Files that git tracks there are no noise, so the file tools need its index. It is opened with the
//! session's rights and not read here. Nothing of the repository becomes visible to programs: the
//! rules of Landlock leave the index out.

use crate::{
    borrowed::BorrowedIdentity,
    failure::StepFailure,
    mounts::{self, NO_DEV, NO_EXEC, NO_SUID, READ_ONLY},
    root::RootEntry,
    worktree,
};
use palisade_plan::{Identity, Path};
use palisade_workspace::OuterRepository;
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    fs::File,
    io::ErrorKind,
    os::{fd::AsFd as _, unix::ffi::OsStrExt as _},
    path::{Path as StdPath, PathBuf},
    sync::Arc,
};

/// The file in a session's root that has the workspace's path in the working tree.
const PREFIX: &str = "/.palisade-outer-prefix";

/// The mount of the index in a session's root. It shows the index as it was when the session began,
/// because git replaces the file.
const INDEX: &str = "/.palisade-outer-index";

/// Finds the nearest repository around a workspace. The caller has the session's file system
/// identity.
pub(crate) fn find(workspace: &Path) -> Option<OuterRepository> {
    let workspace = workspace.as_path();
    workspace.ancestors().skip(1).find_map(|top| {
        let index = match open_index(top) {
            Ok(index) => Some(Arc::new(index)),
            // A repository without an index tracks nothing, but one further out may.
            Err(Errno::NOENT) => return None,
            Err(_) => None,
        };
        let prefix = workspace.strip_prefix(top).ok()?.as_os_str().as_bytes().to_vec();
        Some(OuterRepository { prefix, index })
    })
}

fn open_index(top: &StdPath) -> Result<File, Errno> {
    let git = top.join(".git");
    match open_file(&git.join("index")) {
        // In a linked worktree and in a submodule it is a file that names the directory.
        Err(Errno::NOTDIR) => {
            let link = worktree::read_link_file(&open_file(&git)?).ok_or(Errno::INVAL)?;
            let text = link.strip_prefix(b"gitdir:").ok_or(Errno::INVAL)?.trim_ascii();
            open_file(&top.join(Path(text.to_vec()).as_path()).join("index"))
        }
        opened => opened,
    }
}

/// Opens a regular file for reading, whatever links lead to it.
fn open_file(path: &StdPath) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
    let is_file = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) == FileType::RegularFile;
    if is_file { Ok(File::from(fd)) } else { Err(Errno::INVAL) }
}

/// Returns the entries of the session's root from which [`recorded`] reads it.
///
/// # Errors
/// If the index can not be mounted.
pub(crate) fn entries(outer: &OuterRepository) -> Result<Vec<(PathBuf, RootEntry)>, StepFailure> {
    let mut entries = vec![(PREFIX.into(), RootEntry::Text(outer.prefix.clone()))];
    if let Some(index) = &outer.index {
        let mount = mounts::copy(index.as_fd(), READ_ONLY | NO_SUID | NO_DEV | NO_EXEC);
        let failed = StepFailure::kernel("mount the index of the repository around the workspace");
        entries.push((INDEX.into(), RootEntry::File(mount.map_err(failed)?)));
    }
    Ok(entries)
}

/// Opens what the session's root was made with.
///
/// # Errors
/// If it is there and can not be opened.
pub(crate) fn recorded(peer: Identity) -> Result<Option<OuterRepository>, StepFailure> {
    let prefix = match std::fs::read(PREFIX) {
        Ok(prefix) => prefix,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StepFailure::kernel(format!("read {PREFIX}"))(error)),
    };
    let borrowed = BorrowedIdentity::take_for_lookup(peer)?;
    let opened = open_file(StdPath::new(INDEX));
    borrowed.give_back()?;
    let index = match opened {
        Ok(index) => Some(Arc::new(index)),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(StepFailure::kernel(format!("open {INDEX}"))(error)),
    };
    Ok(Some(OuterRepository { prefix, index }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, io::Read as _, os::unix::fs::symlink};

    /// Returns the prefix and the text of the index.
    fn found(workspace: &StdPath) -> Option<(String, Option<String>)> {
        let outer = find(&Path::from(workspace))?;
        let index = outer.index.map(|index| {
            let mut text = String::new();
            (&*index).read_to_string(&mut text).unwrap();
            text
        });
        Some((String::from_utf8(outer.prefix).unwrap(), index))
    }

    #[test]
    fn the_nearest_index_above_the_workspace_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path();
        let workspace = top.join("a/b");
        fs::create_dir_all(&workspace).unwrap();
        assert_eq!(found(&workspace), None);
        fs::create_dir(top.join(".git")).unwrap();
        assert_eq!(found(&workspace), None, "a repository without an index tracks nothing");
        fs::write(top.join(".git/index"), "outer").unwrap();
        let outer = Some(("a/b".to_owned(), Some("outer".to_owned())));
        assert_eq!(found(&workspace), outer);
        // The workspace's own repository is in the workspace.
        fs::create_dir(workspace.join(".git")).unwrap();
        fs::write(workspace.join(".git/index"), "own").unwrap();
        assert_eq!(found(&workspace), outer);
        fs::create_dir(top.join("a/.git")).unwrap();
        assert_eq!(found(&workspace), outer, "one without an index hides no other");
        fs::write(top.join("a/.git/index"), "nearer").unwrap();
        assert_eq!(found(&workspace), Some(("b".to_owned(), Some("nearer".to_owned()))));
    }

    #[test]
    fn links_of_git_are_followed_and_what_can_not_be_read_is_said() {
        let temp = tempfile::tempdir().unwrap();
        let (top, real) = (temp.path().join("tree"), temp.path().join("real"));
        let workspace = top.join("w");
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir(&real).unwrap();
        fs::write(real.join("index"), "there").unwrap();
        let there = Some(("w".to_owned(), Some("there".to_owned())));
        fs::write(top.join(".git"), "gitdir: ../real\n").unwrap();
        assert_eq!(found(&workspace), there);
        fs::write(top.join(".git"), format!("gitdir: {}\n", real.display())).unwrap();
        assert_eq!(found(&workspace), there);
        fs::write(top.join(".git"), "something else\n").unwrap();
        assert_eq!(found(&workspace), Some(("w".to_owned(), None)));
        fs::remove_file(top.join(".git")).unwrap();
        symlink(&real, top.join(".git")).unwrap();
        assert_eq!(found(&workspace), there);
        fs::remove_file(real.join("index")).unwrap();
        fs::create_dir(real.join("index")).unwrap();
        assert_eq!(found(&workspace), Some(("w".to_owned(), None)));
    }
}
