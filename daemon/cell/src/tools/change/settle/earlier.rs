//! What of a transaction was committed while its program went on: the next time that is not taken for
//! somebody else's. Room: the cell.

use super::{
    super::{done::Done, seen::Seen, spot::Spot},
    found::directory_of,
    whole::{Part, each},
};
use crate::overlay::{Layers, make_opaque};
use palisade_plan::{Path, cell::FileError, change::Version};
use rustix::fs::FileType;
use std::collections::HashMap;

/// Whether somebody else may have changed something since the program was started.
pub(super) fn changed_outside(layers: &Layers, path: &Path, seen: &Seen) -> bool {
    let committed = layers.committed.as_ref().and_then(|committed| committed.get(path));
    seen.changed_since(layers.since) && committed != Some(&seen.version())
}

/// Whether something of the program's was committed at a path.
pub(super) fn has_committed(layers: &Layers, path: &Path) -> bool {
    layers.committed.as_ref().is_some_and(|committed| committed.contains_key(path))
}

/// A directory of the workspace that nobody else has changed: its path, and its way from the top.
pub(super) type Unchanged = (Path, Vec<u8>);

/// Notes what was done, if the program goes on.
pub(in super::super) fn note(layers: &mut Layers, done: &[Done], directories: Vec<Unchanged>) {
    let Some(mut committed) = layers.committed.take() else { return };
    for one in done {
        match (one, one.left()) {
            (Done::Placed { .. }, Some(spot)) => {
                let Ok(dir) = spot.dir() else { continue };
                // What can not be seen any more is somebody else's by now.
                let met = each(&dir, &spot.name, &spot.path(), None, |part: &Part<'_>| {
                    if is_kept_apart(layers, spot, part) {
                        committed.insert(part.path.clone(), part.seen.version());
                    }
                    Ok::<(), FileError>(())
                });
                met.unwrap_or_default();
            }
            (_, Some(spot)) => {
                if let Ok(Some(seen)) = spot.look() {
                    committed.insert(spot.path(), seen.version());
                }
            }
            (_, None) => forget(&mut committed, &one.path()),
        }
    }
    for (path, way) in directories {
        let seen = directory_of(&layers.lower, &way).and_then(rustix::fs::fstat);
        if let Ok(stat) = seen {
            committed.insert(path, Seen::from(&stat).version());
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

/// What was taken away is nobody's.
fn forget(committed: &mut HashMap<Path, Version>, gone: &Path) {
    let below = [&gone.0, b"/".as_slice()].concat();
    committed.retain(|path, _| path != gone && !path.0.starts_with(&below));
}
