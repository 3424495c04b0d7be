//! The upper layer of a transaction, in which everything is made readable. Runs in the cell.
//!
//! The process that commits a transaction has no privilege, so it can not read what the owner may
//! not read. In the upper layer, which nobody else uses by then, it may change modes. They are
//! restored when the change is made or discarded, because a layer can be committed again.

use super::found::directory_of;
use crate::tools::open_with;
use palisade_plan::Path;
use palisade_workspace::{EntryMetadata, tree::set_mode};
use rustix::{
    fs::{FileType, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use std::{
    cell::RefCell,
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
};

/// All mode bits except the file type.
const MODE: u32 = 0o7777;

/// The mode bits that the owner of a directory needs to read it and what is in it.
const READABLE: u32 = 0o500;

/// The upper layer, and the entries that were made readable in it.
#[derive(Debug)]
pub(in super::super) struct UpperLayer {
    fd: OwnedFd,
    /// The workspace's path, which is that of the layer's top.
    top: Vec<u8>,
    changed: RefCell<Vec<(Vec<u8>, u32)>>,
    modes: RefCell<HashMap<(u64, u64), u32>>,
}

impl UpperLayer {
    /// Makes the layer's top readable.
    pub(super) fn new(fd: OwnedFd, top: &[u8]) -> Result<Self, Errno> {
        let (changed, modes) = (RefCell::default(), RefCell::default());
        let mode = rustix::fs::fstat(&fd)?.st_mode & MODE;
        let layer = Self { fd, top: top.to_vec(), changed, modes };
        if mode & READABLE != READABLE {
            set_mode(&layer.fd, mode | READABLE)?;
            layer.changed.borrow_mut().push((Vec::new(), mode));
        }
        Ok(layer)
    }

    /// Returns `true` if some entries could not be read at first.
    pub(super) fn was_closed(&self) -> bool {
        !self.changed.borrow().is_empty()
    }

    /// Opens a directory of the layer by its relative path.
    pub(super) fn directory(&self, way: &[u8]) -> Result<OwnedFd, Errno> {
        directory_of(&self.fd, way)
    }

    /// Returns the metadata of an entry, with the mode that the program gave it. If the session
    /// owns it, it is made readable.
    pub(super) fn seen(
        &self,
        dir: impl AsFd,
        name: &[u8],
        path: &Path,
        stat: &Stat,
    ) -> Result<EntryMetadata, Errno> {
        let seen = EntryMetadata::from(stat);
        if let Some(mode) = self.modes.borrow().get(&seen.id()) {
            return Ok(seen.with_mode(*mode));
        }
        let needed = match seen.kind() {
            FileType::Directory => READABLE,
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
            if EntryMetadata::from(&rustix::fs::fstat(&handle)?).id() != seen.id() {
                return Err(Errno::STALE);
            }
            match set_mode(&handle, mode | needed) {
                // Somebody else's file: reading it will fail, and that is reported.
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
        // Contents go before their directory, after which they can not be reached any more.
        for (way, mode) in self.changed.borrow_mut().drain(..).rev() {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let restored = match way.is_empty() {
                true => set_mode(&self.fd, mode),
                false => open_with(&self.fd, &way, flags, resolve)
                    .and_then(|handle| set_mode(&handle, mode)),
            };
            // If this fails, the layer is not used again, because its process ends with an error.
            restored.ok();
        }
    }
}
