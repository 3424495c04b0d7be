//! What of a transaction was committed while its program went on: the next time that is not taken for
//! somebody else's. Room: the cell.

use super::{
    super::{done::Done, seen::Seen, spot::Spot},
    found::directory_of,
    whole::{Part, each},
};
use crate::overlay::{Committed, Layers, make_opaque};
use palisade_plan::{Path, cell::FileError};
use rustix::fs::FileType;
use std::collections::HashMap;

fn committed<'a>(layers: &'a Layers, path: &Path) -> Option<&'a Committed> {
    layers.committed.as_ref().and_then(|committed| committed.get(path))
}

/// Whether somebody else may have changed something since the program was started.
pub(super) fn changed_outside(layers: &Layers, path: &Path, seen: &Seen) -> bool {
    let then = committed(layers, path).map(|then| then.version);
    seen.changed_since(layers.since) && then != Some(seen.version())
}

/// Whether what is at a path, all of it, was committed of the program's.
pub(super) fn has_committed(layers: &Layers, path: &Path) -> bool {
    committed(layers, path).is_some_and(|then| then.whole)
}

/// A directory that both layers have, and that nobody else has changed.
#[derive(Debug)]
pub(in super::super) struct Unchanged {
    pub(super) path: Path,
    /// From the top.
    pub(super) way: Vec<u8>,
    /// Nothing of the workspace shows through it.
    pub(super) whole: bool,
}

/// Notes what was done, if the program goes on.
pub(in super::super) fn note(layers: &mut Layers, done: &[Done], directories: Vec<Unchanged>) {
    let Some(mut committed) = layers.committed.take() else { return };
    for one in done {
        if let Done::Moved { from, .. } | Done::MovedOver { from, .. } = one {
            forget(&mut committed, &from.path());
        }
        match (one, one.left()) {
            (Done::Placed { .. }, Some(spot)) => {
                forget(&mut committed, &spot.path());
                let Ok(dir) = spot.dir() else { continue };
                // What can not be seen any more is somebody else's by now.
                let met = each(&dir, &spot.name, &spot.path(), None, |part: &Part<'_>| {
                    if is_kept_apart(layers, spot, part) {
                        let version = part.seen.version();
                        committed.insert(part.path.clone(), Committed { version, whole: true });
                    }
                    Ok::<(), FileError>(())
                });
                met.unwrap_or_default();
            }
            (_, Some(spot)) => {
                if let Ok(Some(seen)) = spot.look() {
                    let whole = seen.kind() != FileType::Directory;
                    let version = seen.version();
                    committed.insert(spot.path(), Committed { version, whole });
                }
            }
            (_, None) => forget(&mut committed, &one.path()),
        }
    }
    for Unchanged { path, way, whole } in directories {
        if let Ok(stat) = directory_of(&layers.lower, &way).and_then(rustix::fs::fstat) {
            let version = Seen::from(&stat).version();
            committed.insert(path, Committed { version, whole });
        }
    }
    layers.committed = Some(committed);
}

/// The program goes on with its own directories: what is below them in the workspace by now is not to
/// show through. One for which that can not be had is not noted, so that the next commit is refused.
fn is_kept_apart(layers: &Layers, spot: &Spot, part: &Part<'_>) -> bool {
    if part.seen.kind() != FileType::Directory {
        return true;
    }
    let above = spot.base.real.len() + 1;
    let way = part.path.0.get(above..).unwrap_or_default();
    directory_of(&layers.upper, way).and_then(|upper| make_opaque(&upper)).is_ok()
}

/// What was taken away is nobody's, and so is what was in it.
fn forget(committed: &mut HashMap<Path, Committed>, gone: &Path) {
    let below = [&gone.0, b"/".as_slice()].concat();
    committed.retain(|path, _| path != gone && !path.0.starts_with(&below));
}
