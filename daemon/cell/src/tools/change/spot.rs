//! Where something is or is to be: a directory that is held open, and a name below it, perhaps
//! through directories that are still to be made. Room: the cell.

use super::seen::Seen;
use crate::tools::{open, open_with};
use palisade_plan::Path;
use rustix::{
    fs::{AtFlags, CWD, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    rc::Rc,
};

/// Whether links may be on the way to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// They are followed.
    ThroughLinks,
    /// They are refused.
    Straight,
}

/// A directory that was there.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    /// Its path without links, and without a slash at the end.
    pub(super) real: Vec<u8>,
}

impl Dir {
    /// Opens it. Readable if that is allowed: only such a descriptor can be locked.
    pub(super) fn open(path: &[u8], way: Way) -> Result<Self, Errno> {
        Self::at(CWD, path, way)
    }

    /// Opens it from another.
    pub(super) fn at(from: impl AsFd, path: &[u8], way: Way) -> Result<Self, Errno> {
        let resolve = match way {
            Way::ThroughLinks => ResolveFlags::empty(),
            Way::Straight => ResolveFlags::NO_SYMLINKS,
        };
        let fd = match open_with(&from, path, OFlags::DIRECTORY | OFlags::RDONLY, resolve) {
            Err(Errno::ACCESS) => {
                open_with(&from, path, OFlags::DIRECTORY | OFlags::PATH, resolve)?
            }
            done => done?,
        };
        let real = real(&fd).unwrap_or_else(|| path.to_vec());
        let end = real.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        Ok(Self { fd, real: real.get(..end).unwrap_or_default().to_vec() })
    }

    /// One that is open already.
    pub(super) fn of(fd: OwnedFd, path: &[u8]) -> Self {
        Self { fd, real: path.to_vec() }
    }

    /// Whether it still has the path that it had.
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

/// Where a descriptor leads, as the kernel names it.
fn real(fd: &OwnedFd) -> Option<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let text = rustix::fs::readlink(link, Vec::with_capacity(128)).ok()?.into_bytes();
    text.starts_with(b"/").then_some(text)
}

/// A name in a directory.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    /// A directory that was there.
    pub(super) base: Rc<Dir>,
    /// From there to the directory of the name; empty if it is in the base itself.
    pub(super) way: Vec<u8>,
    /// The name.
    pub(super) name: Vec<u8>,
}

/// Where a link leads. What was a link when it was looked at and is none now has changed since.
pub(super) fn link_target(dir: impl AsFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
    match rustix::fs::readlinkat(dir, name, Vec::new()) {
        Err(Errno::INVAL) => Err(Errno::STALE),
        read => Ok(read?.into_bytes()),
    }
}

impl Spot {
    /// The absolute path, without links but perhaps at its end.
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

    /// What is at a way below this one; itself if that is empty.
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

    /// The directory of the name.
    pub(super) fn dir(&self) -> Result<Handle<'_>, Errno> {
        if self.way.is_empty() {
            return Ok(Handle::Base(self.base.as_fd()));
        }
        let resolve =
            ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_XDEV);
        open_with(&self.base, &self.way, OFlags::DIRECTORY | OFlags::PATH, resolve)
            .map(Handle::Below)
    }

    /// What is there; a link itself.
    pub(super) fn look(&self) -> Result<Option<Seen>, Errno> {
        let dir = match self.dir() {
            Err(Errno::NOENT) => return Ok(None),
            dir => dir?,
        };
        look(&dir, &self.name)
    }

    /// Where the link leads; `ESTALE` if it is none any more.
    pub(super) fn link(&self) -> Result<Vec<u8>, Errno> {
        link_target(self.dir()?, &self.name)
    }

    /// Opens what is there, and no link.
    pub(super) fn open(&self, access: OFlags) -> Result<OwnedFd, Errno> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        open_with(self.dir()?, &self.name, flags, ResolveFlags::BENEATH | ResolveFlags::NO_XDEV)
    }

    /// Opens it for what needs no access to it.
    pub(super) fn handle(&self) -> Result<OwnedFd, Errno> {
        open(self.dir()?, &self.name, OFlags::PATH | OFlags::NOFOLLOW)
    }
}

/// What is in a directory under a name; a link itself.
pub(super) fn look(dir: impl AsFd, name: &[u8]) -> Result<Option<Seen>, Errno> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Seen::from(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A directory, borrowed or opened for the moment.
#[derive(Debug)]
pub(super) enum Handle<'a> {
    Base(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Handle<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Base(fd) => *fd,
            Self::Below(fd) => fd.as_fd(),
        }
    }
}
