//! Remembers what was committed while a transaction's program was still running, so that the next
//! commit does not take that for a change from outside. Runs in the cell.

use super::{
    super::{done::TakenStep, spot::EntryLocation},
    found::directory_of,
    whole::{TreeEntry, each},
};
use palisade_plan::{Path, cell::FileError};
use palisade_workspace::{CommittedPath, EntryMetadata, Layers, make_opaque};
use rustix::fs::FileType;
use std::collections::HashMap;

fn committed<'a>(layers: &'a Layers, path: &Path) -> Option<&'a CommittedPath> {
    layers.committed.as_ref().and_then(|committed| committed.get(path))
}

/// Returns `true` if an entry may have been changed from outside since the program was started.
pub(super) fn changed_outside(layers: &Layers, path: &Path, seen: &EntryMetadata) -> bool {
    let then = committed(layers, path).map(|then| then.version);
    seen.changed_since(layers.since) && then != Some(seen.version())
}

/// Returns `true` if everything at a path was committed from the program.
pub(super) fn has_committed(layers: &Layers, path: &Path) -> bool {
    committed(layers, path).is_some_and(|then| then.whole)
}

/// A directory that exists in both layers and was not changed from outside.
#[derive(Debug)]
pub(in super::super) struct UnchangedDirectory {
    pub(super) path: Path,
    /// The path relative to the layers' directory.
    pub(super) way: Vec<u8>,
    /// True if nothing of the workspace shows through the directory.
    pub(super) whole: bool,
}

/// Records what was committed, if the program goes on.
pub(in super::super) fn note(
    layers: &mut Layers,
    done: &[TakenStep],
    directories: &[UnchangedDirectory],
) {
    let Some(mut committed) = layers.committed.take() else { return };
    let is_here = |path: &Path| path.as_path().starts_with(layers.path.as_path());
    for one in done.iter().filter(|one| is_here(&one.path())) {
        if let TakenStep::Moved { from, .. } | TakenStep::MovedOver { from, .. } = one {
            forget(&mut committed, &from.path());
        }
        match (one, one.left()) {
            (TakenStep::Placed { .. }, Some(spot)) => {
                forget(&mut committed, &spot.path());
                let Ok(dir) = spot.dir() else { continue };
                // An entry that can not be read any more counts as changed from outside.
                let met = each(&dir, &spot.name, &spot.path(), None, |part: &TreeEntry<'_>| {
                    if separate_from_workspace(layers, spot, part) {
                        let version = part.seen.version();
                        committed.insert(part.path.clone(), CommittedPath { version, whole: true });
                    }
                    Ok::<(), FileError>(())
                });
                met.unwrap_or_default();
            }
            (_, Some(spot)) => {
                if let Ok(Some(seen)) = spot.look() {
                    let whole = seen.kind() != FileType::Directory;
                    let version = seen.version();
                    committed.insert(spot.path(), CommittedPath { version, whole });
                }
            }
            (_, None) => forget(&mut committed, &one.path()),
        }
    }
    for UnchangedDirectory { path, way, whole } in directories.iter().filter(|at| is_here(&at.path))
    {
        if let Ok(stat) = directory_of(&layers.lower, way).and_then(rustix::fs::fstat) {
            let (version, whole) = (EntryMetadata::from(&stat).version(), *whole);
            committed.insert(path.clone(), CommittedPath { version, whole });
        }
    }
    layers.committed = Some(committed);
    if let Some(main) = &mut layers.main {
        note(main, done, directories);
    }
}

/// Keeps a committed directory separate from the workspace; returns `true` if that succeeded. The
/// program goes on with its own directory, so what the workspace now has there must not show
/// through. A directory that can not be made opaque is not recorded, and the next commit is
/// refused.
fn separate_from_workspace(layers: &Layers, spot: &EntryLocation, part: &TreeEntry<'_>) -> bool {
    if part.seen.kind() != FileType::Directory {
        return true;
    }
    let above = spot.base.real.len() + 1;
    let way = part.path.0.get(above..).unwrap_or_default();
    directory_of(&layers.upper, way).and_then(|upper| make_opaque(&upper)).is_ok()
}

/// Forgets a path that is gone, and everything below it.
fn forget(committed: &mut HashMap<Path, CommittedPath>, gone: &Path) {
    let below = [&gone.0, b"/".as_slice()].concat();
    committed.retain(|path, _| path != gone && !path.0.starts_with(&below));
}
