//! A session's workspace as both halves of a cell see it: its hidden names, the layers of a
//! transaction, its main repository and its directory trees. Runs in the cell, before and after it
//! gives up privilege.
#![forbid(unsafe_code)]

pub mod memory_file;
pub mod tree;

mod layers;
mod main_repository;
mod metadata;
mod outer_repository;
mod view;

pub use layers::{ChangeTime, CommittedPath, LayerAccess, Layers, is_copy, is_opaque, make_opaque};
pub use main_repository::MainRepository;
pub use metadata::{EntryMetadata, look, modified, version};
pub use outer_repository::OuterRepository;
pub use view::{View, shown};

use palisade_plan::names::Kind;
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::os::fd::{AsFd, OwnedFd};

/// Opens a path with restrictions on how it is resolved. The magic links of `/proc` are never
/// followed.
///
/// # Errors
/// The kernel's error.
pub fn open_with(
    base: impl AsFd,
    path: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    rustix::io::retry_on_intr(|| {
        rustix::fs::openat2(&base, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    })
}

/// Converts a file type to the kinds that patterns tell apart.
#[must_use]
pub const fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice => Kind::Other,
        FileType::Unknown => Kind::Either,
    }
}
