//! Plans the commit of a transaction: the changes in the upper layer, as a change of the workspace.
//! Runs in the cell, when the program and everything that it started have ended or are frozen.
//!
//! Both layers are read relative to their descriptors, never through a link and never on another
//! mount. Nobody writes the upper layer any more. Anybody may write the lower one. So what is found
//! there is compared with its state when the program was started, and again when the change is
//! made.

mod compare;
pub(super) mod content;
mod emit;
mod found;
mod grow;
mod leave;
mod moves;
mod place;
mod sizes;
mod sync;
mod tracked;

pub(super) mod append;
pub(super) mod back;
pub(super) mod copy;
pub(super) mod earlier;
pub(super) mod journal;
pub(super) mod resolve;
pub(super) mod staging;
pub(super) mod swap;
pub(super) mod upper;
pub(super) mod whole;

use self::{
    compare::contested,
    earlier::UnchangedDirectory,
    emit::CommitPlanner,
    found::{LayerDiff, LayerSearch},
    leave::ExcludedPaths,
    upper::UpperLayer,
};
use super::{spot::Dir, stage::Stage};
use crate::{
    tools::{Stop, failure, refused},
    usage::is_over,
};
use palisade_channel::Channel;
use palisade_plan::{
    Path, Upper,
    cell::{FileError, FileErrorKind},
    change::{Effect, EffectKind},
};
use palisade_workspace::{LayerAccess, Layers};
use rustix::io::Errno;
use std::rc::Rc;

/// Plans everything that the program did, except the paths in `leave`. Returns the directories with
/// changes that were not changed from outside.
pub(super) fn settle(
    stage: &mut Stage<'_>,
    channel: &Channel,
    layers: &Layers,
    leave: &[Path],
) -> Result<Vec<UnchangedDirectory>, Stop> {
    refuse_writable(layers)?;
    let mut left = ExcludedPaths::new(leave);
    let mut unchanged = Vec::new();
    for root in layers.roots() {
        unchanged.extend(settle_root(stage, channel, (layers, root), &mut left)?);
    }
    left.all_known()?;
    Ok(unchanged)
}

/// Plans everything that the program did in one directory: the workspace, or the main repository of
/// a linked worktree.
fn settle_root(
    stage: &mut Stage<'_>,
    channel: &Channel,
    (all, layers): (&Layers, &Layers),
    left: &mut ExcludedPaths<'_>,
) -> Result<Vec<UnchangedDirectory>, Stop> {
    let workspace = layers.path.clone();
    refuse_full(layers, &workspace)?;
    let lower = rustix::io::fcntl_dupfd_cloexec(&layers.lower, 4)
        .map_err(|e| refused("open", &workspace, e))?;
    let base = Rc::new(Dir::of(lower, &workspace.0));
    let upper = rustix::io::fcntl_dupfd_cloexec(&layers.upper, 4)
        .map_err(|e| refused("open", &workspace, e))?;
    let upper = UpperLayer::new(upper, &workspace.0).map_err(|e| refused("open", &workspace, e))?;
    let upper = Rc::new(upper);
    let LayerDiff { items, vanished, unchanged } =
        LayerSearch::new(channel, layers, &upper, &base).all()?;
    for (path, new) in vanished {
        if !left.has(&path) {
            contested(stage, &path, None, Some(&new))?;
        }
    }
    for item in &items {
        tracked::refuse_loss(stage.view, (all, layers), item)?;
    }
    let mut emission = CommitPlanner::new(stage, channel, (layers, &upper), &base);
    emission.all(items, left)?;
    if upper.was_closed() {
        // The contents of closed directories were not counted before.
        refuse_full(layers, &workspace)?;
    }
    let special = |effect: &&Effect| effect.kind == EffectKind::Special;
    for effect in stage.effects.iter().filter(special) {
        left.has(&effect.path);
    }
    Ok(unchanged)
}

/// Refuses a transaction whose layers can still change: what is committed might not be what was
/// judged.
fn refuse_writable(layers: &Layers) -> Result<(), FileError> {
    let (kind, errno, message) = match layers.access {
        LayerAccess::ReadOnly | LayerAccess::Held => return Ok(()),
        LayerAccess::Writable => (
            FileErrorKind::FileSystem,
            None,
            "its changes were not made read-only before they were judged".to_owned(),
        ),
        LayerAccess::Refused(Errno::BUSY) => (
            FileErrorKind::StillOpen,
            Some(Errno::BUSY),
            "a process outside of this call still has a file open for writing that the call \
             passed to it"
                .to_owned(),
        ),
        LayerAccess::Refused(errno) => (
            FileErrorKind::FileSystem,
            Some(errno),
            format!("its changes could not be made read-only before they were judged: {errno}"),
        ),
    };
    Err(failure(kind, errno, format!("{message}. Nothing was changed")))
}

/// Refuses a transaction whose layer is full, because the program could not finish its work.
fn refuse_full(layers: &Layers, workspace: &Path) -> Result<(), FileError> {
    let fail = |errno| refused("look at", workspace, errno);
    let space = rustix::fs::fstatfs(&layers.upper).map_err(fail)?;
    let is_full = space.f_bavail == 0 || space.f_ffree == 0;
    let hint = match layers.kept.upper {
        Upper::Memory if is_full => ", or transactions.upper = \"disk\" to keep it on disk",
        Upper::Disk if is_full || holds_too_much(layers).map_err(fail)? => "",
        Upper::Memory | Upper::Disk => return Ok(()),
    };
    let message = format!(
        "the transaction is full: the program wrote more than it may hold, and may have stopped \
         half-way. Nothing was changed; to allow more, change the profile \
         (limits.transaction{hint})"
    );
    Err(failure(FileErrorKind::TooLarge, Some(Errno::NOSPC), message))
}

/// Returns `true` if a layer on the disk is over its limit. One that is too deep to be measured is
/// refused elsewhere.
fn holds_too_much(layers: &Layers) -> Result<bool, Errno> {
    match is_over(&layers.upper, layers.bytes) {
        Err(Errno::NAMETOOLONG) => Ok(false),
        over => over,
    }
}

#[cfg(test)]
mod tests;
