//! The workspace before and after a change, read without following links. Runs in the cell.

use super::super::spot::{Dir, LinkHandling};
use crate::tools::{open_with, split};
use palisade_plan::{Path, evidence::git_directory};
use palisade_workspace::{EntryMetadata, OuterRepository, View, look};
use rustix::{
    fs::{FileType, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    fs::File,
    io::Read as _,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
};

/// The workspace before and after a change, with the repository outside of it that its linked
/// worktree belongs to, if there is one.
///
/// A path in it is relative to the workspace, or absolute if it is in that repository.
#[derive(Debug)]
pub(super) struct Trees {
    before: Dir,
    after: Dir,
    outside: Option<OutsideTrees>,
    /// The repository in whose working tree the workspace is a directory.
    pub(super) outer: Option<OuterRepository>,
    /// True if the whole change is made. If a part is left out, that part may preserve nothing.
    is_whole: bool,
    pub(super) top: Vec<u8>,
}

/// A repository outside of the workspace, before and after a change.
#[derive(Debug)]
struct OutsideTrees {
    before: Dir,
    after: Dir,
    path: Vec<u8>,
}

/// The state before a change that the workspace shows already.
#[derive(Debug)]
pub(in super::super) struct EarlierTrees {
    /// The workspace.
    pub(in super::super) workspace: OwnedFd,
    /// The repository outside of the workspace that its linked worktree belongs to.
    pub(in super::super) main: Option<OwnedFd>,
}

/// One of the two states.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeView<'a> {
    pub(super) workspace: BorrowedFd<'a>,
    outside: Option<(&'a [u8], BorrowedFd<'a>)>,
}

impl Trees {
    /// Opens both states. Without `before`, the change is not made yet.
    pub(super) fn open(
        view: &View,
        before: Option<EarlierTrees>,
        is_whole: bool,
    ) -> Result<Self, Errno> {
        let top = view.workspace.as_os_str().as_bytes();
        let main = view.main.as_ref().map(|main| &main.path);
        let now = |path: &[u8]| Dir::open(path, LinkHandling::ThroughLinks);
        let (before, main_before) = match before {
            Some(EarlierTrees { workspace, main }) => (Dir::of(workspace, top), main),
            None => (now(top)?, None),
        };
        let outside = match main {
            Some(Path(path)) => {
                let before = match main_before {
                    Some(before) => Dir::of(before, path),
                    None => now(path)?,
                };
                Some(OutsideTrees { before, after: now(path)?, path: path.clone() })
            }
            None => None,
        };
        let (after, outer, top) = (now(top)?, view.outer.clone(), top.to_vec());
        Ok(Self { before, after, outside, outer, is_whole, top })
    }

    pub(super) fn before(&self) -> TreeView<'_> {
        let outside = self.outside.as_ref();
        let outside = outside.map(|outside| (outside.path.as_slice(), outside.before.as_fd()));
        TreeView { workspace: self.before.as_fd(), outside }
    }

    /// Returns the state in which bytes must be preserved. If a part of the change is left out,
    /// only what was there before is certain to stay.
    pub(super) fn kept(&self) -> TreeView<'_> {
        if self.is_whole { self.after() } else { self.before() }
    }

    pub(super) fn after(&self) -> TreeView<'_> {
        let outside = self.outside.as_ref();
        let outside = outside.map(|outside| (outside.path.as_slice(), outside.after.as_fd()));
        TreeView { workspace: self.after.as_fd(), outside }
    }

    /// Returns the absolute path of a path in the trees.
    pub(super) fn path(&self, way: &[u8]) -> Path {
        match way {
            [] => Path(self.top.clone()),
            [b'/', ..] => Path(way.to_vec()),
            way => Path([&self.top, b"/".as_slice(), way].concat()),
        }
    }

    /// Returns the path in the trees of an absolute path; `None` if it is in neither of them.
    pub(super) fn way<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        relative(path, &self.top).or_else(|| self.outside_of(path).map(|_| path))
    }

    /// Returns the directory of the repository that a path is inside of.
    pub(super) fn git_directory<'w>(&self, way: &'w [u8]) -> Option<&'w [u8]> {
        match self.outside_of(way) {
            Some(outside) => way.get(..outside.len()).filter(|_| way.len() > outside.len()),
            None => git_directory(way),
        }
    }

    /// Returns the repository outside of the workspace, if a path is inside of it.
    fn outside_of(&self, path: &[u8]) -> Option<&[u8]> {
        let outside = self.outside.as_ref()?.path.as_slice();
        relative(path, outside).map(|_| outside)
    }

    /// Returns `true` if a repository is outside of the workspace, and its main working tree too.
    pub(super) fn is_outside(&self, git_dir: &[u8]) -> bool {
        self.outside_of(git_dir).is_some()
    }
}

/// Returns a path relative to the workspace; `None` if it is outside.
pub(super) fn relative<'a>(path: &'a [u8], top: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(top)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
}

const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);

fn open_in(tree: TreeView<'_>, way: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let (root, way) = match (way.first(), tree.outside) {
        (Some(b'/'), Some((path, outside))) => (outside, relative(way, path).ok_or(Errno::NOENT)?),
        (Some(b'/'), None) => return Err(Errno::NOENT),
        (_, _) => (tree.workspace, way),
    };
    let way = if way.is_empty() { b"." as &[u8] } else { way };
    open_with(root, way, flags | OFlags::NOFOLLOW, RESOLVE)
}

/// Opens a directory of a tree.
pub(super) fn directory(tree: TreeView<'_>, way: &[u8]) -> Result<OwnedFd, Errno> {
    open_in(tree, way, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a regular file of a tree.
pub(super) fn file(tree: TreeView<'_>, way: &[u8]) -> Result<OwnedFd, Errno> {
    let file = open_in(tree, way, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    let is_file =
        FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::RegularFile;
    is_file.then_some(file).ok_or(Errno::INVAL)
}

/// Reads a regular file of a tree; `None` if it has more bytes than `most`.
pub(super) fn read(tree: TreeView<'_>, way: &[u8], most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::from(file(tree, way).ok()?);
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    Some(bytes).filter(|bytes| bytes.len() as u64 <= most)
}

/// Returns the metadata of an entry of a tree; `None` if it is missing.
pub(super) fn seen(tree: TreeView<'_>, way: &[u8]) -> Option<EntryMetadata> {
    let (above, name) = split(way);
    look(directory(tree, above).ok()?, name).ok().flatten()
}

/// Reads the target of a symbolic link of a tree.
pub(super) fn link(tree: TreeView<'_>, way: &[u8]) -> Option<Vec<u8>> {
    let (above, name) = split(way);
    let target = rustix::fs::readlinkat(directory(tree, above).ok()?, name, Vec::new());
    target.ok().map(std::ffi::CString::into_bytes)
}
