//! `undo`: restores what an earlier change replaced. Runs in the cell.

use super::{
    act::DeletedContents,
    delete::tree,
    fresh::{ContentFacts, FileAttributes, TemporaryFile},
    incoming::MessageReceiver,
    keep::changed,
    omitted::Obstacle,
    plan::ModeTarget,
    print::{is, print},
    revert,
    spot::{EntryLocation, LinkHandling},
    stage::{PlannedState, Stage, changed_twice},
    target::{read_all, trimmed},
    write::place,
};
use crate::tools::{Stop, failure, invalid, kind_name, refused, refused_io, shown};
use palisade_channel::Channel;
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{EffectKind, Print, Restoration, State},
};
use palisade_workspace::EntryMetadata;
use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use std::fs::File;

/// The number of bytes of a file that are compared for the message about a conflict.
const COMPARED: u64 = 1024 * 1024;

/// The maximum length of the diff in that message.
const DIFF: usize = 2048;

/// The number of names of a directory that are read to see whether it will be empty.
const NAMES: usize = 100_000;

/// The choice to restore entries even if they changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    No,
    Yes,
}

/// Plans to restore the entries of an undo record.
pub(super) fn restore(
    stage: &mut Stage<'_>,
    incoming: &MessageReceiver<'_>,
    entries: &[Restoration],
    force: Force,
) -> Result<(), Stop> {
    let channel = incoming.channel;
    for entry in entries {
        match entry {
            // The record has nothing to make it from, whatever is there now.
            Restoration::Put { path, state: State::Other, .. } => {
                stage.not_restored.add(path, Obstacle::NoContent);
            }
            Restoration::Put { path, expect, state, attributes } => {
                let spot = spot(stage, path)?;
                let now = present(&spot)?;
                let content = match state {
                    State::File { mode, size, mtime } => {
                        let like = FileAttributes::Past { mode: *mode, mtime: *mtime };
                        let content = receive(stage, incoming, &spot, like, *size)?;
                        let fail = |error| refused_io("write", path, &error);
                        content.0.set_attributes(attributes).map_err(fail)?;
                        Some(content)
                    }
                    State::Absent
                    | State::Directory { .. }
                    | State::Symlink { .. }
                    | State::Other => None,
                };
                if force == Force::No && !is(expect, &spot, now.as_ref()) {
                    let was = content.as_ref().map(|(fresh, _)| fresh);
                    return Err(conflict(&spot, now.as_ref(), was).into());
                }
                // A tree that is exactly as the change left it is deleted whole.
                let force = match expect {
                    Print::Tree { .. } => Force::Yes,
                    Print::Absent
                    | Print::File { .. }
                    | Print::Directory
                    | Print::Symlink { .. }
                    | Print::Node { .. } => force,
                };
                put(stage, channel, &spot, state, content, force)?;
            }
            Restoration::Rename { from, to, expect } => {
                let Some(old) = changed_spot(stage, from, force)? else {
                    stage.not_restored.add(from, Obstacle::NotThere);
                    continue;
                };
                let new = spot(stage, to)?;
                let now = present(&old)?;
                if force == Force::No && !is(expect, &old, now.as_ref()) {
                    return Err(conflict(&old, now.as_ref(), None).into());
                }
                rename(stage, channel, &old, &new, force)?;
            }
            Restoration::Revert { path, expect, was } => {
                let Some(spot) = changed_spot(stage, path, force)? else {
                    stage.not_restored.add(path, Obstacle::Gone);
                    continue;
                };
                let now = present(&spot)?;
                if force == Force::No && !is(expect, &spot, now.as_ref()) {
                    return Err(conflict(&spot, now.as_ref(), None).into());
                }
                revert::revert(stage, &spot, *was, force)?;
            }
        }
    }
    Ok(())
}

/// Returns the spot of a path that must contain no links.
fn spot(stage: &mut Stage<'_>, path: &Path) -> Result<EntryLocation, FileError> {
    let (path, _) = trimmed(path)?;
    if matches!(crate::tools::split(&path.0).1, b"" | b"." | b"..") {
        return Err(invalid(&path, "its last part does not name an entry of a directory"));
    }
    stage.spot(&path, LinkHandling::Straight)
}

/// Returns the spot of an entry that undo changes where it is. With force it may be that its
/// directory is something else now: then the entry is gone, and there is no spot.
fn changed_spot(
    stage: &mut Stage<'_>,
    path: &Path,
    force: Force,
) -> Result<Option<EntryLocation>, FileError> {
    let has_other_directory = |error: &FileError| {
        matches!(Errno::from_raw_os_error(error.errno), Errno::NOTDIR | Errno::LOOP)
    };
    match spot(stage, path) {
        Err(error) if force == Force::Yes && has_other_directory(&error) => Ok(None),
        found => found.map(Some),
    }
}

/// Returns what is at a spot before any step is taken.
fn present(spot: &EntryLocation) -> Result<Option<EntryMetadata>, FileError> {
    match spot.look() {
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(None),
        found => found.map_err(|e| refused("look at", &spot.path(), e)),
    }
}

fn receive(
    stage: &mut Stage<'_>,
    incoming: &MessageReceiver<'_>,
    spot: &EntryLocation,
    like: FileAttributes,
    size: u64,
) -> Result<(TemporaryFile, ContentFacts), Stop> {
    let path = spot.path();
    let mut fresh = stage.fresh(spot, like)?;
    incoming.content(|data| {
        if fresh.size() + data.len() as u64 > size {
            return Err(invalid(&path, "its content is more than its size"));
        }
        fresh.write(data).map_err(|e| refused_io("write", &path, &e))
    })?;
    if fresh.size() != size {
        return Err(invalid(&path, "its content is less than its size").into());
    }
    let facts = fresh.complete(like).map_err(|e| refused_io("write", &path, &e))?;
    Ok((fresh, facts))
}

/// Returns the error for an entry that is not as the change left it, with a diff of what undoing
/// would do to it.
pub(super) fn conflict(
    spot: &EntryLocation,
    now: Option<&EntryMetadata>,
    was: Option<&TemporaryFile>,
) -> FileError {
    let path = spot.path();
    let there = now.map_or("nothing is there", |now| kind_name(now.kind()));
    let mut message = format!(
        "{} has changed since, so nothing was undone: it is no longer what the call left ({there})",
        shown(&path)
    );
    let now_is = now.filter(|now| now.kind() == FileType::RegularFile && now.size <= COMPARED);
    let sides = now_is.zip(was).and_then(|(now, was)| {
        let file = File::from(spot.open(OFlags::RDONLY).ok()?);
        let now = read_all(&path, &file, now.size).ok()?;
        Some((now, was.content(COMPARED).ok()??))
    });
    let diff = sides.map(|(now, was)| {
        let diff = palisade_edits::unified(&now, &was, "now", "undone", DIFF);
        if diff.complete { diff.text } else { diff.text + "\n…" }
    });
    if let Some(diff) = &diff {
        message += ". Forcing the undo would do this:\n";
        message += diff;
    }
    FileError { diff, ..failure(FileErrorKind::Conflict, None, message) }
}

/// Plans to restore the earlier state of a spot.
fn put(
    stage: &mut Stage<'_>,
    channel: &Channel,
    spot: &EntryLocation,
    state: &State,
    content: Option<(TemporaryFile, ContentFacts)>,
    force: Force,
) -> Result<(), Stop> {
    let node = stage.look(spot)?;
    let path = spot.path();
    if let (PlannedState::Planned(FileType::RegularFile), Some((from, seen))) =
        (node, stage.moved.remove(&path.0))
        && let Some((fresh, facts)) = content
    {
        let print = Print::File { mode: facts.mode, digest: facts.digest };
        stage.replace_moved(&from, spot, seen, fresh, facts)?;
        let sizes = (seen.size, facts.size);
        stage.effect(path, EffectKind::Replaced, sizes, print, Some(&seen));
        return Ok(());
    }
    match (state, node) {
        // Such an entry is left out before.
        (State::Other, _) => Ok(()),
        (_, PlannedState::Planned(_)) => Err(changed_twice(&spot.path()).into()),
        (State::Absent, PlannedState::Absent) => Ok(()),
        (State::Absent, PlannedState::There(_)) => clear(stage, channel, spot, node, force),
        (State::File { .. }, _) => {
            let Some((fresh, facts)) = content else {
                return Err(invalid(&spot.path(), "its content did not come").into());
            };
            put_file(stage, channel, spot, node, fresh, facts, force)
        }
        (State::Directory { mode }, PlannedState::There(now))
            if now.kind() == FileType::Directory =>
        {
            if now.mode() != *mode {
                stage.mode(spot, now, *mode, ModeTarget::Directory)?;
                stage.effect(spot.path(), EffectKind::Mode, (0, 0), Print::Directory, None);
            }
            Ok(())
        }
        (State::Directory { mode }, PlannedState::There(_) | PlannedState::Absent) => {
            clear(stage, channel, spot, node, force)?;
            stage.parents(spot)?;
            Ok(stage.make_dir(spot, Some(mode & 0o777))?)
        }
        (State::Symlink { target }, PlannedState::There(_) | PlannedState::Absent) => {
            clear(stage, channel, spot, node, force)?;
            stage.parents(spot)?;
            stage.link(spot, target)?;
            let print = Print::Symlink { target: target.clone() };
            stage.effect(spot.path(), EffectKind::Created, (0, 0), print, None);
            Ok(())
        }
    }
}

fn put_file(
    stage: &mut Stage<'_>,
    channel: &Channel,
    spot: &EntryLocation,
    node: PlannedState,
    fresh: TemporaryFile,
    facts: ContentFacts,
    force: Force,
) -> Result<(), Stop> {
    let regular = matches!(&node, PlannedState::There(now) if now.kind() == FileType::RegularFile);
    if regular {
        return Ok(place(stage, spot, node, fresh, facts, EffectKind::Replaced)?);
    }
    clear(stage, channel, spot, node, force)?;
    stage.parents(spot)?;
    Ok(place(stage, spot, PlannedState::Absent, fresh, facts, EffectKind::Created)?)
}

/// Plans to delete what is at a spot.
fn clear(
    stage: &mut Stage<'_>,
    channel: &Channel,
    spot: &EntryLocation,
    node: PlannedState,
    force: Force,
) -> Result<(), Stop> {
    let seen = match node {
        PlannedState::Absent => return Ok(()),
        PlannedState::Planned(_) => return Err(changed_twice(&spot.path()).into()),
        PlannedState::There(seen) => seen,
    };
    if seen.kind() != FileType::Directory {
        stage.remove(spot, node, DeletedContents::Nothing)?;
    } else if will_be_empty(stage, spot)? {
        stage.remove(spot, node, DeletedContents::Empty)?;
    } else if force == Force::Yes {
        return tree(stage, channel, spot, node);
    } else {
        let message = format!(
            "{} has something in it that the call did not put there, so nothing was undone",
            shown(&spot.path())
        );
        return Err(failure(FileErrorKind::Conflict, Some(Errno::NOTEMPTY), message).into());
    }
    let kind = EffectKind::Deleted { entries: 1 };
    stage.effect(spot.path(), kind, (seen.file_size(), 0), Print::Absent, Some(&seen));
    Ok(())
}

/// Returns `true` if the steps so far delete everything in a directory.
fn will_be_empty(stage: &Stage<'_>, spot: &EntryLocation) -> Result<bool, FileError> {
    let path = spot.path();
    let refuse = |error| refused("read the directory", &path, error);
    let dir = spot.dir().map_err(refuse)?;
    let names = super::tree::list(&dir, &spot.name, NAMES).map_err(refuse)?;
    let goes = |name: &Vec<u8>| {
        stage.is_removed(&Path([path.0.as_slice(), b"/", name.as_slice()].concat()))
    };
    Ok(names.len() < NAMES && names.iter().all(goes))
}

/// Plans to rename an entry back to its old name.
fn rename(
    stage: &mut Stage<'_>,
    channel: &Channel,
    old: &EntryLocation,
    new: &EntryLocation,
    force: Force,
) -> Result<(), Stop> {
    let node = stage.look(old)?;
    let old_path = old.path();
    let (print, size) = match node {
        // The rename was never made, or is undone already.
        PlannedState::Absent if force == Force::Yes && present(new)?.is_some() => return Ok(()),
        PlannedState::Absent if force == Force::Yes => {
            stage.not_restored.add(&old_path, Obstacle::NotThere);
            return Ok(());
        }
        PlannedState::Absent => return Err(conflict(old, None, None).into()),
        PlannedState::There(seen) => (print(old, &seen), seen.size),
        PlannedState::Planned(_) => {
            let last = stage.effects.iter().rev().find(|effect| effect.path == old_path);
            last.map(|effect| (effect.print.clone(), effect.size_after))
                .ok_or_else(|| changed(&old_path))?
        }
    };
    let there = stage.look(new)?;
    match (there, force) {
        (PlannedState::Absent, _) => {}
        (PlannedState::There(_), Force::Yes) => clear(stage, channel, new, there, force)?,
        (PlannedState::There(seen), Force::No) => {
            return Err(conflict(new, Some(&seen), None).into());
        }
        (PlannedState::Planned(_), _) => return Err(changed_twice(&new.path()).into()),
    }
    stage.parents(new)?;
    stage.rename(old, node, new, PlannedState::Absent)?;
    let size = if matches!(print, Print::File { .. }) { size } else { 0 };
    stage.effect(new.path(), EffectKind::Moved { from: old_path }, (size, size), print, None);
    Ok(())
}
