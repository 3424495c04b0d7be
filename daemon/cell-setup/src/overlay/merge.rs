//! Mounts an overlay. The rights of the process that mounts it decide what overlayfs may do for a
//! program as long as the mount exists. Overlayfs checks the program's rights on the merged view,
//! and the mounter's rights on the layers below. Runs in the cell, while it has privilege.

use super::{attach, look_at};
use crate::{
    failure::StepFailure,
    kernel::ChildStack,
    mounts::{self, NO_DEV, NO_SUID, READ_ONLY},
};
use nix::{
    sched::{CloneFlags, setns, unshare},
    unistd::{Gid, Uid, setgroups, setresgid, setresuid},
};
use palisade_plan::{Identity, Path, Upper};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags},
};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

/// The hint in the error for layers that overlayfs refuses.
const FIT: &str =
    "overlayfs (what is below it has to be a local file system such as ext4, xfs or btrfs)";

/// The names of the directories in a layer.
pub(super) const UPPER: &str = "upper";
pub(super) const WORK: &str = "work";
pub(super) const WHITEOUTS: &str = "whiteouts";

/// The names of the directories of one overlay that takes writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerNames<'a> {
    pub(super) upper: &'a str,
    pub(super) work: &'a str,
}

/// The overlay of the workspace.
pub(super) const WORKSPACE: LayerNames<'static> = LayerNames { upper: UPPER, work: WORK };

/// The overlay of a linked worktree's main repository.
pub(super) const REPOSITORY: LayerNames<'static> =
    LayerNames { upper: "repository", work: "repository-work" };

/// The overlay of the workspace, and that of its main repository.
pub(super) type MergedOverlays = (OwnedFd, Option<OwnedFd>);

/// The main repository of a linked worktree, and its layers.
#[derive(Debug, Clone, Copy)]
pub(super) struct RepositoryParts<'a> {
    pub(super) path: &'a Path,
    pub(super) parts: OverlayLayers<'a>,
}

/// The layers of an overlay.
#[derive(Debug, Clone, Copy)]
pub(super) struct OverlayLayers<'a> {
    pub(super) names: LayerNames<'a>,
    /// The lowest layer.
    pub(super) lower: &'a OwnedFd,
    /// The mount with the directories of the upper layers.
    pub(super) layer: &'a OwnedFd,
    /// True if there is a layer of whiteouts between them.
    pub(super) has_whiteouts: bool,
    /// The place where writes are stored; `None` for a read-only overlay.
    pub(super) writes: Option<Upper>,
}

/// Mounts the overlay with this process's rights. Both layers must be mounted in its mount
/// namespace.
pub(super) fn here(parts: OverlayLayers<'_>) -> Result<OwnedFd, StepFailure> {
    let whiteouts = parts.has_whiteouts.then(|| look_at(parts.layer, WHITEOUTS)).transpose()?;
    let lowers: Vec<_> = whiteouts.iter().chain([parts.lower]).map(|fd| fd.as_fd()).collect();
    let writing = match parts.writes {
        Some(kept) => {
            let LayerNames { upper, work } = parts.names;
            Some((look_at(parts.layer, upper)?, look_at(parts.layer, work)?, kept))
        }
        None => None,
    };
    let writing = writing.as_ref().map(|(upper, work, kept)| (upper.as_fd(), work.as_fd(), *kept));
    merge(&lowers, writing)
}

/// Mounts the overlays with the session's rights: in a child, in a user namespace that has no other
/// user. Both layers are attached in a mount namespace of the child's own.
pub(super) fn apart(
    parts: OverlayLayers<'_>,
    repository: Option<RepositoryParts<'_>>,
    path: &Path,
    users: &OwnedFd,
    identity: Identity,
) -> Result<MergedOverlays, StepFailure> {
    let mut merged = None;
    let mut act = || merged = Some(in_namespaces(parts, repository, path, (users, identity)));
    ChildStack::new()
        .and_then(|mut stack| stack.run_apart(&mut act))
        .map_err(StepFailure::kernel("start what mounts the overlay"))?;
    merged.unwrap_or_else(|| Err(StepFailure::Setup("the overlay was not mounted".into())))
}

/// Mounts the overlays in the child, after it has entered the namespaces and taken on the session's
/// identity.
fn in_namespaces(
    parts: OverlayLayers<'_>,
    repository: Option<RepositoryParts<'_>>,
    path: &Path,
    (users, identity): (&OwnedFd, Identity),
) -> Result<MergedOverlays, StepFailure> {
    let (lower, layer) = enter(parts, path, (users, identity))?;
    let main = match repository {
        Some(RepositoryParts { path, parts }) => {
            let lower = mounts::resolve_without_links(path.as_path())
                .map_err(StepFailure::kernel("open the main repository"))?;
            Some(here(OverlayLayers { lower: &lower, layer: &layer, ..parts })?)
        }
        None => None,
    };
    Ok((here(OverlayLayers { lower: &lower, layer: &layer, ..parts })?, main))
}

/// Enters the namespaces and takes on the session's identity. Returns the workspace and the layer as
/// they are there.
fn enter(
    parts: OverlayLayers<'_>,
    path: &Path,
    (users, identity): (&OwnedFd, Identity),
) -> Result<(OwnedFd, OwnedFd), StepFailure> {
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    // A new mount namespace keeps the current directory, and nothing else leads to the workspace.
    rustix::process::fchdir(parts.lower).map_err(StepFailure::kernel("enter the workspace"))?;
    setns(users, CloneFlags::CLONE_NEWUSER)
        .map_err(StepFailure::kernel("enter the user namespace"))?;
    unshare(CloneFlags::CLONE_NEWNS)
        .map_err(StepFailure::kernel("unshare mounts for an overlay"))?;
    setgroups(&[]).map_err(StepFailure::kernel("setgroups"))?;
    setresgid(gid, gid, gid).map_err(StepFailure::kernel("setresgid"))?;
    setresuid(uid, uid, uid).map_err(StepFailure::kernel("setresuid"))?;
    let lower = look_at(CWD, ".")?;
    attach(parts.layer, path)?;
    let layer = mounts::resolve_without_links(path.as_path())
        .map_err(StepFailure::kernel("open the layer"))?;
    Ok((lower, layer))
}

/// Mounts overlays over directories of the workspace, with the session's rights, as [`apart`] does.
pub(super) fn directories_apart(
    parts: OverlayLayers<'_>,
    directories: &[NoiseLayers],
    path: &Path,
    (users, identity): (&OwnedFd, Identity),
) -> Result<Vec<OwnedFd>, StepFailure> {
    let mut merged = None;
    let mut act = || {
        merged = Some(enter(parts, path, (users, identity)).and_then(|(lower, layer)| {
            directories_here(OverlayLayers { lower: &lower, layer: &layer, ..parts }, directories)
        }));
    };
    ChildStack::new()
        .and_then(|mut stack| stack.run_apart(&mut act))
        .map_err(StepFailure::kernel("start what mounts the overlays"))?;
    merged.unwrap_or_else(|| Err(StepFailure::Setup("no overlay was mounted".into())))
}

/// Mounts overlays over directories of the workspace, with this process's rights.
pub(super) fn directories_here(
    parts: OverlayLayers<'_>,
    directories: &[NoiseLayers],
) -> Result<Vec<OwnedFd>, StepFailure> {
    let merge = |directory: &NoiseLayers| {
        let NoiseLayers { way, upper, work } = directory;
        let lower = below(parts.lower, way)?;
        let names = LayerNames { upper, work };
        here(OverlayLayers { names, lower: &lower, ..parts })
    };
    directories.iter().map(merge).collect()
}

/// A directory with an overlay of its own, and the names of its directories in the layer.
#[derive(Debug)]
pub(super) struct NoiseLayers {
    /// The directory, relative to the workspace.
    pub(super) way: String,
    pub(super) upper: String,
    pub(super) work: String,
}

/// Opens a directory below another one, without following links.
pub(super) fn below(directory: impl AsFd, way: &str) -> Result<OwnedFd, StepFailure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(directory, way, flags, Mode::empty(), resolve)
        .map_err(StepFailure::kernel(format!("open {way:?} in the workspace")))
}

/// Makes the detached overlay of the layers, the first one on top. Without an upper and a work
/// directory it is read-only.
fn merge(
    lowers: &[BorrowedFd<'_>],
    writing: Option<(BorrowedFd<'_>, BorrowedFd<'_>, Upper)>,
) -> Result<OwnedFd, StepFailure> {
    let fail = |act: &'static str| StepFailure::kernel::<rustix::io::Errno>(act);
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)
        .map_err(fail("open overlayfs"))?;
    let own = |fd: &BorrowedFd<'_>| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let lowers: Vec<_> = lowers.iter().map(own).collect();
    let mut options = vec![("lowerdir", lowers.join(":")), ("xino", "off".into())];
    if let Some((upper, work, _)) = &writing {
        options.extend([("upperdir", own(upper)), ("workdir", own(work)), ("index", "off".into())]);
    }
    for (key, value) in &options {
        rustix::mount::fsconfig_set_string(context.as_fd(), *key, value.as_str())
            .map_err(StepFailure::kernel(format!("{key} of {FIT}")))?;
    }
    // With `userxattr` overlayfs makes no redirects and copies no file in part only.
    rustix::mount::fsconfig_set_flag(context.as_fd(), "userxattr")
        .map_err(fail("overlayfs userxattr"))?;
    if let Some((_, _, Upper::Disk)) = writing {
        // The layer is worthless after a crash, so nothing needs to wait for the disk.
        rustix::mount::fsconfig_set_flag(context.as_fd(), "volatile")
            .map_err(fail("overlayfs volatile"))?;
    }
    rustix::mount::fsconfig_create(context.as_fd()).map_err(fail(FIT))?;
    let read_only = if writing.is_none() { READ_ONLY } else { 0 };
    let attributes = u32::try_from(NO_SUID | NO_DEV | read_only).unwrap_or(u32::MAX);
    rustix::mount::fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::from_bits_retain(attributes),
    )
    .map_err(fail("mount overlayfs"))
}
