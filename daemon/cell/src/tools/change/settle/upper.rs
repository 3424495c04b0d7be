//! The upper layer of a transaction, in which all can be read. Room: the cell.
//!
//! The process that settles a transaction has no privilege: what its owner may not read, it may not
//! either. In the upper layer, which nobody else has by then, it may change modes. What it changed
//! has its own mode again when the change is done or let go of, since a layer can be settled again.

use super::{
    super::{act::set_mode, seen::Seen},
    found::directory_of,
};
use crate::tools::open_with;
use palisade_plan::Path;
use rustix::{
    fs::{FileType, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use std::{
    cell::RefCell,
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
};

/// All of a mode but the kind of file.
const MODE: u32 = 0o7777;

/// The upper layer, and what was made readable in it.
#[derive(Debug)]
pub(in super::super) struct UpperLayer {
    fd: OwnedFd,
    /// The workspace's path: that of the layer's top.
    top: Vec<u8>,
    changed: RefCell<Vec<(Vec<u8>, u32)>>,
    modes: RefCell<HashMap<(u64, u64), u32>>,
}

impl UpperLayer {
    pub(super) fn new(fd: OwnedFd, top: &[u8]) -> Self {
        let (changed, modes) = (RefCell::default(), RefCell::default());
        Self { fd, top: top.to_vec(), changed, modes }
    }

    /// Whether something could not be read at first.
    pub(super) fn was_closed(&self) -> bool {
        !self.changed.borrow().is_empty()
    }

    /// A directory of it, by its way from the top.
    pub(super) fn directory(&self, way: &[u8]) -> Result<OwnedFd, Errno> {
        directory_of(&self.fd, way)
    }

    /// What an entry is, with the mode that the program gave it. From here on it can be read, if it
    /// is the session's own.
    pub(super) fn seen(
        &self,
        dir: impl AsFd,
        name: &[u8],
        path: &Path,
        stat: &Stat,
    ) -> Result<Seen, Errno> {
        let seen = Seen::from(stat);
        if let Some(mode) = self.modes.borrow().get(&seen.id()) {
            return Ok(seen.with_mode(*mode));
        }
        let needed = match seen.kind() {
            FileType::Directory => 0o500,
            FileType::RegularFile => 0o400,
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => 0,
        };
        let way = path.0.strip_prefix(self.top.as_slice()).and_then(|way| way.strip_prefix(b"/"));
        if let (Some(way), true) = (way, seen.mode() & needed != needed) {
            let mode = stat.st_mode & MODE;
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let handle = open_with(dir, name, flags, ResolveFlags::BENEATH)?;
            if Seen::from(&rustix::fs::fstat(&handle)?).id() != seen.id() {
                return Err(Errno::STALE);
            }
            match set_mode(&handle, mode | needed) {
                // Somebody else's: whoever reads it is told that it can not be.
                Err(Errno::PERM) => return Ok(seen),
                done => done?,
            }
            self.changed.borrow_mut().push((way.to_vec(), mode));
            self.modes.borrow_mut().insert(seen.id(), mode);
        }
        Ok(seen)
    }
}

impl Drop for UpperLayer {
    fn drop(&mut self) {
        let resolve = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
        // What is below a directory goes first: it can not be reached any more after that.
        for (way, mode) in self.changed.borrow_mut().drain(..).rev() {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let handle = open_with(&self.fd, &way, flags, resolve);
            // A layer in which this fails is not used again: its process ends with an error.
            handle.and_then(|handle| set_mode(&handle, mode)).ok();
        }
    }
}
