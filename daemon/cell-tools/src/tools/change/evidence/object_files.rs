//! The files of git's object database that a change affects. Runs in the cell.

use super::{
    super::tree::entries,
    lost::LostEntry,
    trees::{self, Trees},
};
use palisade_plan::change::{Effect, EffectKind, Print};
use std::collections::BTreeMap;

/// The maximum number of new files in one directory that are listed.
const MOST_FILES: usize = 100_000;

/// The files below `objects` of one repository that a change affects.
#[derive(Debug, Default)]
pub(super) struct ChangedObjects {
    /// True if files that existed before may be changed or deleted.
    pub(super) has_changed: bool,
    /// The new files, relative to `objects`.
    pub(super) added: Vec<Vec<u8>>,
}

/// Returns the affected object files, by the repository's directory.
pub(super) fn changed_objects(
    trees: &Trees,
    lost: &[LostEntry],
    effects: &[Effect],
) -> BTreeMap<Vec<u8>, ChangedObjects> {
    let mut changed = BTreeMap::<Vec<u8>, ChangedObjects>::new();
    for one in lost {
        if let Some((git_dir, _)) = trees.way(&one.spot.path().0).and_then(|way| parts(trees, way))
        {
            changed.entry(git_dir.to_vec()).or_default().has_changed = true;
        }
    }
    for effect in effects {
        let Some(way) = trees.way(&effect.path.0) else { continue };
        let Some((git_dir, file)) = parts(trees, way) else { continue };
        match &effect.kind {
            EffectKind::Created => {
                changed.entry(git_dir.to_vec()).or_default().add(trees, way, file, &effect.print);
            }
            EffectKind::Replaced
            | EffectKind::Appended
            | EffectKind::Edited
            | EffectKind::Mode
            | EffectKind::Moved { .. }
            | EffectKind::Deleted { .. } => {
                changed.entry(git_dir.to_vec()).or_default().has_changed = true;
            }
            EffectKind::Touched | EffectKind::Special => {}
        }
    }
    changed
}

impl ChangedObjects {
    /// Adds a new file, or the files of a new directory.
    fn add(&mut self, trees: &Trees, way: &[u8], file: &[u8], print: &Print) {
        match print {
            Print::File { .. } | Print::Symlink { .. } | Print::Node { .. } | Print::Absent => {
                self.added.push(file.to_vec());
            }
            Print::Directory | Print::Tree { .. } => {
                let names = trees::directory(trees.after(), way)
                    .and_then(|directory| entries(&directory, MOST_FILES));
                match names {
                    Ok(names) if !file.is_empty() && names.len() < MOST_FILES => {
                        self.added.extend(names.iter().map(|name| [file, b"/", name].concat()));
                    }
                    Ok(_) | Err(_) => self.has_changed = true,
                }
            }
        }
    }
}

/// Splits a path into the repository's directory and the path below its `objects`.
fn parts<'w>(trees: &Trees, way: &'w [u8]) -> Option<(&'w [u8], &'w [u8])> {
    let git_dir = trees.git_directory(way)?;
    let rest = way.get(git_dir.len() + 1..)?.strip_prefix(b"objects")?;
    let file = if rest.is_empty() { rest } else { rest.strip_prefix(b"/")? };
    Some((git_dir, file))
}
