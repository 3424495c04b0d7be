//! Mounts by descriptor: each path is resolved once, and the resolved file is what gets mounted.
//! Runs in the cell, while it has privilege.

use crate::{
    failure::StepFailure,
    kernel::{self, Recursive},
};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
        OpenTreeFlags,
    },
};
use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

pub(crate) const READ_ONLY: u64 = 0x1;
pub(crate) const NO_SUID: u64 = 0x2;
pub(crate) const NO_DEV: u64 = 0x4;
pub(crate) const NO_EXEC: u64 = 0x8;

/// Stops mount events from passing between this namespace and any other.
pub(crate) fn make_private() -> Result<(), StepFailure> {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(StepFailure::kernel("make mounts private"))
}

/// Resolves a path to an `O_PATH` descriptor, without magic links. The last component is not
/// followed.
pub(crate) fn resolve(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

/// Resolves a directory to an `O_PATH` descriptor. A symbolic link anywhere in its path gives
/// `ELOOP`.
pub(crate) fn resolve_without_links(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)
}

/// Returns `true` if a descriptor refers to a mount point itself.
pub(crate) fn is_mount(fd: &OwnedFd) -> rustix::io::Result<bool> {
    let stat = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Makes a detached copy of the mounts at a descriptor, with `attributes` on all of them.
pub(crate) fn copy(of: BorrowedFd<'_>, attributes: u64) -> std::io::Result<OwnedFd> {
    let tree = clone_tree(of, OpenTreeFlags::AT_RECURSIVE)?;
    if attributes != 0 {
        kernel::set_mount_attributes(tree.as_fd(), attributes, Recursive::Yes)?;
    }
    Ok(tree)
}

/// Makes a detached copy whose file owners are mapped by the user namespace `users`. Either all of
/// the mounts are mapped, or the call fails.
pub(crate) fn copy_mapped(
    of: BorrowedFd<'_>,
    attributes: u64,
    users: BorrowedFd<'_>,
) -> std::io::Result<OwnedFd> {
    let tree = clone_tree(of, OpenTreeFlags::AT_RECURSIVE)?;
    kernel::map_mount(tree.as_fd(), attributes, users, Recursive::Yes)?;
    Ok(tree)
}

/// Checks whether one mount, without those below it, can be mapped.
pub(crate) fn copy_one_mapped(of: BorrowedFd<'_>, users: BorrowedFd<'_>) -> std::io::Result<()> {
    let tree = clone_tree(of, OpenTreeFlags::empty())?;
    kernel::map_mount(tree.as_fd(), 0, users, Recursive::No)
}

fn clone_tree(of: BorrowedFd<'_>, more: OpenTreeFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    rustix::mount::open_tree(of, "", flags | more)
}

/// Makes a new detached file system.
pub(crate) fn new(
    kind: &str,
    options: &[(&str, String)],
    attributes: u64,
) -> std::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(context.as_fd(), *key, value.as_str())?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    let attributes = u32::try_from(attributes).unwrap_or(u32::MAX);
    Ok(rustix::mount::fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::from_bits_retain(attributes),
    )?)
}

/// Attaches a detached mount at a path.
pub(crate) fn attach(
    mount: BorrowedFd<'_>,
    at: BorrowedFd<'_>,
    path: &Path,
) -> std::io::Result<()> {
    let mut flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    if path.as_os_str().is_empty() {
        flags |= MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    }
    Ok(rustix::mount::move_mount(mount, "", at, path, flags)?)
}
