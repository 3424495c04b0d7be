//! Overlays for a program that watches, such as a development server. It sees the live workspace
//! read-only, and writes only in directories of noise, each on an overlay of its own. The upper
//! layers are one tree with the paths of the workspace, so that its changes are committed like
//! those of every other program. Runs in the cell, while it has privilege.

use super::{
    MountedOverlays, OverlayInputs,
    alike::DirectoryMaker,
    in_memory, make,
    merge::{self, NoiseLayers, OverlayLayers, UPPER, WORKSPACE, below},
    on_disk, open, refuse_mounts_below,
};
use crate::{
    borrowed::BorrowedIdentity, failure::StepFailure, mounts, own_mounts, store::override_modes,
};
use palisade_plan::{MountRights, NoiseOverlays, Overlay, Transactions, Upper};
use palisade_workspace::{ChangeTime, LayerAccess, Layers};
use rustix::{
    fs::{Mode, OFlags},
    mount::UnmountFlags,
};
use std::{
    collections::BTreeSet,
    os::fd::{AsFd as _, OwnedFd},
};

/// Mounts the overlays, and makes everything else read-only.
pub(super) fn lay(
    overlay: &Overlay,
    noise: &NoiseOverlays,
    ground: OverlayInputs<'_>,
) -> Result<MountedOverlays, StepFailure> {
    let path = &overlay.workspace;
    refuse_mounts_below(path)?;
    let here = mounts::resolve_without_links(path.as_path())
        .map_err(StepFailure::kernel("open the workspace"))?;
    // The workspace becomes read-only. This copy of its mount stays writable, for the commit.
    let lower = mounts::copy(here.as_fd(), 0).map_err(StepFailure::kernel("copy the mount"))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let lower = rustix::fs::openat(&lower, ".", flags, Mode::empty())
        .map_err(StepFailure::kernel("open the workspace"))?;
    let stat = rustix::fs::fstat(&lower).map_err(StepFailure::kernel("look at the workspace"))?;
    let (layer, kept) = match on_disk(ground.store, &stat, overlay.otherwise)? {
        Some(directory) => (directory, Upper::Disk),
        None => (in_memory(overlay.bytes)?, Upper::Memory),
    };
    let mut maker = DirectoryMaker::new(overlay.rights, overlay.identity);
    let built = build(&mut maker, &layer, &lower, noise);
    maker.give_back()?;
    let (upper, directories) = built?;
    let parts = OverlayLayers {
        names: WORKSPACE,
        lower: &here,
        layer: &layer,
        has_whiteouts: false,
        writes: Some(kept),
    };
    let merged = match (overlay.rights, &ground.users) {
        (MountRights::Session, Some(users)) => {
            merge::directories_apart(parts, &directories, path, (users, overlay.identity))?
        }
        (MountRights::Session, None) => {
            let why = "no user namespace is available for overlays";
            return Err(StepFailure::Setup(why.into()));
        }
        (MountRights::Own, _) => mount_here(overlay, parts, &directories)?,
    };
    if kept == Upper::Disk {
        super::close(&layer)?;
    }
    own_mounts::read_only(&noise.read_only)?;
    ground.main.map_or(Ok(()), own_mounts::make_repository_read_only)?;
    for (NoiseLayers { way, .. }, merged) in directories.iter().zip(&merged) {
        let at = below(&here, way)?;
        mounts::attach(merged.as_fd(), at.as_fd(), std::path::Path::new(""))
            .map_err(StepFailure::kernel(format!("mount over {way:?}")))?;
    }
    let kept = Transactions { upper: kept, ..overlay.transactions };
    let (path, bytes) = (path.clone(), overlay.bytes);
    let since = ChangeTime::default();
    let access = LayerAccess::Writable;
    let layers =
        Layers { path, lower, upper, since, committed: None, bytes, kept, main: None, access };
    Ok(MountedOverlays { layers, mounts: merged })
}

/// Mounts the overlays in this process. The layer is mounted only until they are.
fn mount_here(
    overlay: &Overlay,
    parts: OverlayLayers<'_>,
    directories: &[NoiseLayers],
) -> Result<Vec<OwnedFd>, StepFailure> {
    super::attach(parts.layer, &overlay.workspace)?;
    let borrowed = BorrowedIdentity::take(overlay.identity)?;
    let merged = override_modes().and_then(|()| merge::directories_here(parts, directories));
    borrowed.give_back()?;
    rustix::mount::unmount(overlay.workspace.as_path(), UnmountFlags::DETACH)
        .map_err(StepFailure::kernel("unmount the layer"))?;
    merged
}

/// Makes the directories in the layer, with those above them. A directory that is gone by now is
/// left out.
fn build(
    maker: &mut DirectoryMaker,
    layer: &OwnedFd,
    lower: &OwnedFd,
    noise: &NoiseOverlays,
) -> Result<(OwnedFd, Vec<NoiseLayers>), StepFailure> {
    let mut wanted = BTreeSet::from([String::new()]);
    let mut directories = Vec::new();
    for (number, path) in noise.directories.iter().enumerate() {
        let Ok(way) = String::from_utf8(path.0.clone()) else { continue };
        if below(lower, &way).is_err() {
            continue;
        }
        let slashes = way.char_indices().filter(|(_, letter)| *letter == '/');
        wanted.extend(slashes.filter_map(|(at, _)| Some(way.get(..at)?.to_owned())));
        wanted.insert(way.clone());
        let (upper, work) = (format!("{UPPER}/{way}"), format!("work-{number}"));
        directories.push(NoiseLayers { way, upper, work });
    }
    let mut made = Vec::new();
    // Each directory comes before those in it.
    for way in wanted {
        let Some(likeness) = maker.look(lower, way.as_bytes())? else {
            let why = format!("the session may not enter {way:?} in the workspace");
            return Err(StepFailure::Setup(why));
        };
        let at = if way.is_empty() { UPPER.to_owned() } else { format!("{UPPER}/{way}") };
        maker.make(layer, at.as_bytes(), Some(&likeness))?;
        made.push((at, likeness));
    }
    for (at, likeness) in made.iter().rev() {
        maker.finish(layer, at.as_bytes(), Some(likeness))?;
    }
    maker.become_session()?;
    directories.iter().try_for_each(|directory| make(layer, &directory.work).map(drop))?;
    Ok((open(layer, UPPER)?, directories))
}
