//! A spot: the place of an entry, as an open directory and a name below it. The path between the
//! two may lead through directories that are still to be made. Runs in the cell.

use crate::tools::{about_no_process, open, open_with};
use palisade_plan::Path;
use palisade_workspace::{EntryMetadata, look};
use rustix::{
    fs::{CWD, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    rc::Rc,
};

/// The treatment of symbolic links on the way to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkHandling {
    /// Links are followed.
    ThroughLinks,
    /// Links are refused.
    Straight,
}

/// An existing directory that is held open.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    /// Its path without links, and without a slash at the end.
    pub(super) real: Vec<u8>,
}

impl Dir {
    /// Opens a directory, for reading if that is allowed: only such a descriptor can be locked.
    pub(super) fn open(path: &[u8], way: LinkHandling) -> Result<Self, Errno> {
        Self::at(CWD, path, way)
    }

    /// Opens a directory relative to another one.
    pub(super) fn at(from: impl AsFd, path: &[u8], way: LinkHandling) -> Result<Self, Errno> {
        let resolve = match way {
            LinkHandling::ThroughLinks => ResolveFlags::empty(),
            LinkHandling::Straight => ResolveFlags::NO_SYMLINKS,
        };
        let fd = match open_with(&from, path, OFlags::DIRECTORY | OFlags::RDONLY, resolve) {
            Err(Errno::ACCESS) => {
                open_with(&from, path, OFlags::DIRECTORY | OFlags::PATH, resolve)?
            }
            done => done?,
        };
        let fd = about_no_process(fd)?;
        let real = real(&fd).unwrap_or_else(|| path.to_vec());
        let end = real.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        Ok(Self { fd, real: real.get(..end).unwrap_or_default().to_vec() })
    }

    /// Wraps a directory that is already open.
    pub(super) fn of(fd: OwnedFd, path: &[u8]) -> Self {
        Self { fd, real: path.to_vec() }
    }

    /// Returns `true` if the directory still has the path at which it was opened.
    pub(super) fn is_in_place(&self) -> bool {
        let here = real(&self.fd);
        here.is_none_or(|here| here == self.real || (here == b"/" && self.real.is_empty()))
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the path of a descriptor, as the kernel names it.
fn real(fd: &OwnedFd) -> Option<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let text = rustix::fs::readlink(link, Vec::with_capacity(128)).ok()?.into_bytes();
    text.starts_with(b"/").then_some(text)
}

/// The place of an entry: a name in a directory.
#[derive(Debug, Clone)]
pub(super) struct EntryLocation {
    /// An existing directory.
    pub(super) base: Rc<Dir>,
    /// The path from there to the directory of the name; empty if that is the base itself.
    pub(super) way: Vec<u8>,
    /// The name of the entry.
    pub(super) name: Vec<u8>,
}

/// Reads a link. `ESTALE` if the entry is not a link any more.
pub(super) fn link_target(dir: impl AsFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
    match rustix::fs::readlinkat(dir, name, Vec::new()) {
        Err(Errno::INVAL) => Err(Errno::STALE),
        read => Ok(read?.into_bytes()),
    }
}

impl EntryLocation {
    /// Returns the absolute path. Only its last component may be a link.
    pub(super) fn path(&self) -> Path {
        let mut path = self.base.real.clone();
        for part in [&self.way, &self.name] {
            if !part.is_empty() {
                path.push(b'/');
                path.extend_from_slice(part);
            }
        }
        Path(path)
    }

    /// Returns the spot at a relative path below this one; for an empty path, this one.
    pub(super) fn below(&self, way: &[u8]) -> Self {
        if way.is_empty() {
            return self.clone();
        }
        let (above, name) = match way.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (way.get(..slash), way.get(slash + 1..)),
            None => (None, Some(way)),
        };
        let parts = [Some(self.way.as_slice()), Some(self.name.as_slice()), above];
        let parts: Vec<_> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        let name = name.unwrap_or_default().to_vec();
        Self { base: Rc::clone(&self.base), way: parts.join(&b'/'), name }
    }

    /// Opens the directory of the name.
    pub(super) fn dir(&self) -> Result<DirHandle<'_>, Errno> {
        if self.way.is_empty() {
            return Ok(DirHandle::Base(self.base.as_fd()));
        }
        let resolve =
            ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);
        open_with(&self.base, &self.way, OFlags::DIRECTORY | OFlags::PATH, resolve)
            .map(DirHandle::Below)
    }

    /// Returns the metadata of the entry, without following a link; `None` if it is missing.
    pub(super) fn look(&self) -> Result<Option<EntryMetadata>, Errno> {
        let dir = match self.dir() {
            Err(Errno::NOENT) => return Ok(None),
            dir => dir?,
        };
        look(&dir, &self.name)
    }

    /// Reads the link at this spot; `ESTALE` if it is not a link any more.
    pub(super) fn link(&self) -> Result<Vec<u8>, Errno> {
        link_target(self.dir()?, &self.name)
    }

    /// Opens the entry, but never through a link.
    pub(super) fn open(&self, access: OFlags) -> Result<OwnedFd, Errno> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        open_with(self.dir()?, &self.name, flags, ResolveFlags::BENEATH | ResolveFlags::NO_XDEV)
    }

    /// Opens the entry with `O_PATH`, which needs no permission on it.
    pub(super) fn handle(&self) -> Result<OwnedFd, Errno> {
        open(self.dir()?, &self.name, OFlags::PATH | OFlags::NOFOLLOW)
    }
}

/// A directory descriptor, borrowed or opened for the moment.
#[derive(Debug)]
pub(super) enum DirHandle<'a> {
    Base(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for DirHandle<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Base(fd) => *fd,
            Self::Below(fd) => fd.as_fd(),
        }
    }
}
