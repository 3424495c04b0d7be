//! The overlay of a transaction. It lies over the workspace and takes all that a program writes
//! there. Only this process reaches its two directories. Runs in the cell, while it has privilege.
//!
//! The upper layer is in memory or on a disk, and no path leads to it. It uses `user.` attributes
//! as its marks. Overlayfs hides them from programs, and this process can read them without
//! privilege.

mod alike;
mod merge;
mod noise;
mod skeleton;
mod support;

pub(crate) use self::{alike::DirectoryMaker, support::attempt};

use self::merge::{
    MergedOverlays, OverlayLayers, REPOSITORY, RepositoryParts, UPPER, WHITEOUTS, WORK, WORKSPACE,
};
use crate::{
    borrowed::BorrowedIdentity,
    failure::StepFailure,
    mounts::{self, NO_DEV, NO_SUID},
    store::override_modes,
    whiteouts,
};
use palisade_plan::{Access, Identity, MountRights, Overlay, Path, Transactions, Upper};
use palisade_workspace::{ChangeTime, LayerAccess, Layers, MainRepository, View};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use std::os::fd::{AsFd, OwnedFd};

/// The inputs of an overlay, apart from the workspace.
#[derive(Debug)]
pub(crate) struct OverlayInputs<'a> {
    /// A directory on the disk for the upper layer.
    pub(crate) store: Option<OwnedFd>,
    /// The user namespace in which a writable overlay is mounted.
    pub(crate) users: Option<OwnedFd>,
    /// The names that the profile hides.
    pub(crate) view: &'a View,
    /// The hidden names that were found in the workspace.
    pub(crate) scanned: Option<OwnedFd>,
    /// The main repository, if the workspace is a linked worktree of git.
    pub(crate) main: Option<&'a MainRepository>,
}

/// The overlays of a transaction.
#[derive(Debug)]
pub(crate) struct MountedOverlays {
    pub(crate) layers: Layers,
    /// The mounts of those that take writes.
    pub(crate) mounts: Vec<OwnedFd>,
}

/// Mounts the overlay over the workspace, or over directories in it.
pub(crate) fn lay(
    overlay: &Overlay,
    ground: OverlayInputs<'_>,
) -> Result<MountedOverlays, StepFailure> {
    if let Some(noise) = &overlay.noise {
        return noise::lay(overlay, noise, ground);
    }
    let path = &overlay.workspace;
    let lower = open_directory(path)?;
    refuse_mounts_below(path)?;
    let stat = rustix::fs::fstat(&lower).map_err(StepFailure::kernel("look at the workspace"))?;
    let (layer, kept) = match on_disk(ground.store, &stat, overlay.otherwise)? {
        Some(directory) => (directory, Upper::Disk),
        None => (in_memory(overlay.bytes)?, Upper::Memory),
    };
    let hits = whiteouts::hits(ground.view, ground.scanned.as_ref())?;
    let mut maker = DirectoryMaker::new(overlay.rights, overlay.identity);
    let built = build(&mut maker, overlay, &layer, (&lower, ground.view), hits.as_deref());
    maker.give_back()?;
    let upper = built?;
    let writes = (overlay.access == Access::Write).then_some(kept);
    let main = match ground.main.filter(|_| writes.is_some()) {
        Some(main) => Some((main, RepositoryLayers::make(overlay, &layer, main)?)),
        None => None,
    };
    let parts = OverlayLayers {
        names: WORKSPACE,
        lower: &lower,
        layer: &layer,
        has_whiteouts: hits.is_some(),
        writes,
    };
    let repository = main.as_ref().map(|(main, made)| RepositoryParts {
        path: &main.path,
        parts: OverlayLayers {
            names: REPOSITORY,
            lower: &made.lower,
            has_whiteouts: false,
            ..parts
        },
    });
    let (merged, merged_main) = match (overlay.rights, writes, ground.users) {
        (MountRights::Session, Some(_), Some(users)) => {
            merge::apart(parts, repository, path, &users, overlay.identity)?
        }
        (MountRights::Session, Some(_), None) => {
            return Err(StepFailure::Setup("no user namespace is available for overlays".into()));
        }
        (MountRights::Session, None, _) | (MountRights::Own, ..) => {
            mount_here(overlay, parts, repository)?
        }
    };
    if kept == Upper::Disk {
        close(&layer)?;
    }
    attach(&merged, path)?;
    let kept = Transactions { upper: kept, ..overlay.transactions };
    let (since, bytes) = (ChangeTime::default(), overlay.bytes);
    let layers = |path: &Path, lower, upper| Layers {
        path: path.clone(),
        lower,
        upper,
        since,
        committed: None,
        bytes,
        kept,
        main: None,
        access: LayerAccess::Writable,
    };
    let mut all = layers(path, lower, upper);
    // One without an upper layer is always read-only.
    let mut mounts: Vec<_> = writes.map(|_| merged).into_iter().collect();
    if let (Some((main, made)), Some(merged)) = (main, merged_main) {
        attach(&merged, &main.path)?;
        mounts.push(merged);
        all.main = Some(Box::new(layers(&main.path, made.lower, made.upper)));
    }
    Ok(MountedOverlays { layers: all, mounts })
}

/// The two layers of a linked worktree's main repository.
struct RepositoryLayers {
    lower: OwnedFd,
    upper: OwnedFd,
}

impl RepositoryLayers {
    /// Opens the repository, and makes its directories in the layer.
    fn make(
        overlay: &Overlay,
        layer: &OwnedFd,
        main: &MainRepository,
    ) -> Result<Self, StepFailure> {
        let lower = open_directory(&main.path)?;
        refuse_mounts_below(&main.path)?;
        let mut maker = DirectoryMaker::new(overlay.rights, overlay.identity);
        let made = Self::make_upper(&mut maker, layer, (&lower, &main.path));
        maker.give_back()?;
        made.map(|upper| Self { lower, upper })
    }

    fn make_upper(
        maker: &mut DirectoryMaker,
        layer: &OwnedFd,
        (lower, path): (&OwnedFd, &Path),
    ) -> Result<OwnedFd, StepFailure> {
        let Some(likeness) = maker.look(lower, b"")? else {
            let why = "the session may not enter it, or it was deleted".to_owned();
            return Err(StepFailure::Workspace { path: path.clone(), why });
        };
        maker.make(layer, REPOSITORY.upper.as_bytes(), Some(&likeness))?;
        maker.finish(layer, REPOSITORY.upper.as_bytes(), Some(&likeness))?;
        maker.become_session()?;
        make(layer, REPOSITORY.work)?;
        open(layer, REPOSITORY.upper)
    }
}

/// Makes the directories of the layer, and returns the one that takes writes.
fn build(
    maker: &mut DirectoryMaker,
    overlay: &Overlay,
    layer: &OwnedFd,
    (lower, view): (&OwnedFd, &View),
    hits: Option<&[Vec<u8>]>,
) -> Result<OwnedFd, StepFailure> {
    if let Some(hits) = hits {
        whiteouts::make(maker, layer, WHITEOUTS, (lower, view), hits)?;
    }
    if overlay.access != Access::Write {
        maker.become_session()?;
        return make(layer, UPPER);
    }
    let Some(likeness) = maker.look(lower, b"")? else {
        let why = "the session may not enter it, or it was deleted".to_owned();
        return Err(StepFailure::Workspace { path: overlay.workspace.clone(), why });
    };
    maker.make(layer, UPPER.as_bytes(), Some(&likeness))?;
    if overlay.rights == MountRights::Own && likeness.owner.gid != overlay.identity.gid {
        let upper = open(layer, UPPER)?;
        skeleton::make(maker, &overlay.workspace, lower, &upper)?;
    }
    maker.finish(layer, UPPER.as_bytes(), Some(&likeness))?;
    maker.become_session()?;
    make(layer, WORK)?;
    open(layer, UPPER)
}

/// Mounts the overlays in this process, with the session's rights.
fn mount_here(
    overlay: &Overlay,
    parts: OverlayLayers<'_>,
    repository: Option<RepositoryParts<'_>>,
) -> Result<MergedOverlays, StepFailure> {
    attach(parts.layer, &overlay.workspace)?;
    let borrowed = BorrowedIdentity::take(overlay.identity)?;
    let both = || {
        let main = repository.map(|repository| merge::here(repository.parts)).transpose()?;
        Ok((merge::here(parts)?, main))
    };
    let merged = match parts.writes {
        // Overlayfs works in a directory that nobody may enter, not even its owner. In a user
        // namespace with only the session's user, this capability covers only that user's own
        // files.
        Some(_) => override_modes().and_then(|()| both()),
        None => both(),
    };
    borrowed.give_back()?;
    merged
}

/// Closes a layer's directory on the disk to other users, once everything in it has been made.
fn close(layer: &OwnedFd) -> Result<(), StepFailure> {
    let stat = rustix::fs::fstat(layer).map_err(StepFailure::kernel("look at the store"))?;
    let borrowed = BorrowedIdentity::take(Identity { uid: stat.st_uid, gid: stat.st_gid })?;
    let closed = rustix::fs::chmodat(layer, ".", Mode::RWXU, AtFlags::empty());
    borrowed.give_back()?;
    closed.map_err(StepFailure::kernel("close the layer's directory"))
}

/// Returns the directory for the layer if it is on the workspace's file system, or if a layer in
/// memory can not be used.
fn on_disk(
    store: Option<OwnedFd>,
    workspace: &Stat,
    otherwise: Upper,
) -> Result<Option<OwnedFd>, StepFailure> {
    let Some(directory) = store else {
        return match otherwise {
            Upper::Memory => Ok(None),
            Upper::Disk => Err(StepFailure::Setup(
                "a transaction can not be kept in memory here, and the launcher has no directory \
                 for it"
                    .into(),
            )),
        };
    };
    let stat = rustix::fs::fstat(&directory).map_err(StepFailure::kernel("look at the store"))?;
    let used = stat.st_dev == workspace.st_dev || otherwise == Upper::Disk;
    Ok(used.then_some(directory))
}

/// Makes a file system in memory for the layer.
fn in_memory(bytes: u64) -> Result<OwnedFd, StepFailure> {
    let options = [
        ("size", bytes.to_string()),
        // An inode costs about a kilobyte of kernel memory that `size` does not count.
        ("nr_inodes", (bytes / 1024).clamp(1024, 1_000_000).to_string()),
        // Every owner of a directory of the workspace makes its counterpart here.
        ("mode", "0777".into()),
    ];
    mounts::new("tmpfs", &options, NO_SUID | NO_DEV)
        .map_err(StepFailure::kernel("file system of the layer"))
}

fn open_directory(path: &Path) -> Result<OwnedFd, StepFailure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = rustix::fs::ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(CWD, path.as_path(), flags, Mode::empty(), resolve)
        .map_err(StepFailure::kernel("open the workspace"))
}

/// Attaches a mount over whatever is at the workspace's path now.
fn attach(mount: &OwnedFd, path: &Path) -> Result<(), StepFailure> {
    let at = mounts::resolve_without_links(path.as_path())
        .map_err(StepFailure::kernel("open the workspace"))?;
    mounts::attach(mount.as_fd(), at.as_fd(), std::path::Path::new(""))
        .map_err(StepFailure::kernel("mount over the workspace"))
}

/// Refuses a workspace with mounts in it. The program would see the directory under such a mount
/// instead, and could write it or see hidden names.
pub(crate) fn refuse_mounts_below(workspace: &Path) -> Result<(), StepFailure> {
    let text = std::fs::read("/proc/self/mountinfo")
        .map_err(StepFailure::kernel("read /proc/self/mountinfo"))?;
    let below = [workspace.0.as_slice(), b"/"].concat();
    let points = text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4).map(unescaped));
    match points.into_iter().find(|point| point.starts_with(&below)) {
        None => Ok(()),
        Some(point) => Err(StepFailure::Workspace {
            path: workspace.clone(),
            why: format!(
                "{:?} is a mount in it, which a transaction would hide: unmount it (or remove it \
                 from [fs], if the profile names it), or open the session in a directory without \
                 mounts",
                Path(point)
            ),
        }),
    }
}

/// Decodes a path as `/proc` writes it: blanks and backslashes as three octal digits.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let octal = digits.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match octal {
            Some(byte) => {
                plain.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

/// Makes a directory that only the calling identity can enter.
fn make(layer: &OwnedFd, name: &str) -> Result<OwnedFd, StepFailure> {
    rustix::fs::mkdirat(layer, name, Mode::RWXU)
        .map_err(StepFailure::kernel(format!("make the layer's {name}")))?;
    open(layer, name)
}

fn open(layer: &OwnedFd, name: &str) -> Result<OwnedFd, StepFailure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(layer, name, flags, Mode::empty())
        .map_err(StepFailure::kernel(format!("open the layer's {name}")))
}

/// Opens a directory as an `O_PATH` descriptor.
fn look_at(above: impl AsFd, name: &str) -> Result<OwnedFd, StepFailure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(above, name, flags, Mode::empty())
        .map_err(StepFailure::kernel(format!("look at the layer's {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_proc_are_read_as_they_are() {
        assert_eq!(unescaped(b"/a\\040b\\134\\011c"), b"/a b\\\tc");
        assert_eq!(unescaped(b"/a\\04"), b"/a\\04");
        assert_eq!(unescaped(b"/\xff"), b"/\xff");
    }
}
