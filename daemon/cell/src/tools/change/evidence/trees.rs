//! The workspace before and after a change, read without following links. Runs in the cell.

use super::super::{
    seen::EntryMetadata,
    spot::{Dir, LinkHandling, look},
};
use crate::tools::{open_with, split};
use palisade_plan::Path;
use rustix::{
    fs::{FileType, OFlags, ResolveFlags},
    io::Errno,
};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// The workspace before and after a change.
#[derive(Debug)]
pub(super) struct Trees {
    before: Dir,
    after: Dir,
    /// True if the whole change is made. If a part is left out, that part may preserve nothing.
    is_whole: bool,
    pub(super) top: Vec<u8>,
}

impl Trees {
    /// Opens both states. Without `before`, the change is not made yet.
    pub(super) fn open(top: &[u8], before: Option<OwnedFd>, is_whole: bool) -> Result<Self, Errno> {
        let after = Dir::open(top, LinkHandling::ThroughLinks)?;
        let before = match before {
            Some(fd) => Dir::of(fd, top),
            None => Dir::open(top, LinkHandling::ThroughLinks)?,
        };
        Ok(Self { before, after, is_whole, top: top.to_vec() })
    }

    pub(super) fn before(&self) -> BorrowedFd<'_> {
        self.before.as_fd()
    }

    /// Returns the state in which bytes must be preserved. If a part of the change is left out,
    /// only what was there before is certain to stay.
    pub(super) fn kept(&self) -> BorrowedFd<'_> {
        if self.is_whole { self.after() } else { self.before() }
    }

    pub(super) fn after(&self) -> BorrowedFd<'_> {
        self.after.as_fd()
    }

    /// Returns the absolute path of a path relative to the workspace.
    pub(super) fn path(&self, way: &[u8]) -> Path {
        match way.is_empty() {
            true => Path(self.top.clone()),
            false => Path([&self.top, b"/".as_slice(), way].concat()),
        }
    }

    /// Returns `true` if a `HEAD` file lies beside the other parts of a repository.
    pub(super) fn is_bare_repository(&self, head: &Path) -> bool {
        let Some(way) = relative(&head.0, &self.top) else { return false };
        let Some(above) = way.strip_suffix(b"HEAD") else { return false };
        [b"objects".as_slice(), b"refs"]
            .iter()
            .all(|name| directory(self.after(), &[above, name].concat()).is_ok())
    }
}

/// Returns a path relative to the workspace; `None` if it is outside.
pub(super) fn relative<'a>(path: &'a [u8], top: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(top)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
}

const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);

/// Opens a directory of a tree.
pub(super) fn directory(tree: BorrowedFd<'_>, way: &[u8]) -> Result<OwnedFd, Errno> {
    let way = if way.is_empty() { b"." as &[u8] } else { way };
    open_with(tree, way, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, RESOLVE)
}

/// Opens a regular file of a tree.
pub(super) fn file(tree: BorrowedFd<'_>, way: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let file = open_with(tree, way, flags, RESOLVE)?;
    let is_file =
        FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) == FileType::RegularFile;
    is_file.then_some(file).ok_or(Errno::INVAL)
}

/// Returns the metadata of an entry of a tree; `None` if it is missing.
pub(super) fn seen(tree: BorrowedFd<'_>, way: &[u8]) -> Option<EntryMetadata> {
    let (above, name) = split(way);
    look(directory(tree, above).ok()?, name).ok().flatten()
}

/// Reads the target of a symbolic link of a tree.
pub(super) fn link(tree: BorrowedFd<'_>, way: &[u8]) -> Option<Vec<u8>> {
    let (above, name) = split(way);
    let target = rustix::fs::readlinkat(directory(tree, above).ok()?, name, Vec::new());
    target.ok().map(std::ffi::CString::into_bytes)
}
