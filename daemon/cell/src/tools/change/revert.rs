//! Makes a file what it was before a call that left it the same file. Room: the cell.

use super::{
    plan::Known,
    restore::conflict,
    spot::Spot,
    stage::{Node, Stage},
    step::Step,
};
use palisade_plan::{
    cell::FileError,
    change::{EffectKind, Past, Print},
};
use rustix::fs::FileType;

/// Plans to make a file what it was.
pub(super) fn revert(stage: &mut Stage<'_>, spot: &Spot, was: Past) -> Result<(), FileError> {
    let now = match stage.look(spot)? {
        Node::There(now) if now.kind() == FileType::RegularFile && now.size == was.size => now,
        Node::There(now) => return Err(conflict(spot, Some(&now), None)),
        Node::Absent | Node::Planned(_) => return Err(conflict(spot, None, None)),
    };
    let path = spot.path();
    if now.mode() != was.mode {
        let digest = super::print::digest(spot, &now, u64::MAX);
        stage.mode(spot, now, was.mode, Known::Content(digest))?;
        let print = match digest {
            Some(digest) => Print::File { mode: was.mode, digest },
            None => now.node(),
        };
        let sizes = (now.size, now.size);
        stage.effect(path.clone(), EffectKind::Mode, sizes, print, Some(&now));
    }
    if now.mtime != was.mtime {
        let step = Step::Touch { spot: spot.clone(), old: now, mtime: was.mtime };
        stage.plan(path, Some(FileType::RegularFile), step)?;
    }
    Ok(())
}
