//! Putting back what an earlier change replaced: `undo`. Room: the cell.

use super::{
    act::Below,
    delete::tree,
    fresh::{Facts, Fresh, Like},
    incoming::Incoming,
    keep::changed,
    plan::Known,
    print::{is, print},
    revert,
    seen::Seen,
    spot::{Spot, Way},
    stage::{Node, Stage, twice},
    target::{read_all, trimmed},
    write::place,
};
use crate::{
    channel::Channel,
    tools::{Stop, failure, invalid, kind_name, refused, refused_io, shown},
};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{EffectKind, Print, Restoration, State},
};
use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use std::fs::File;

/// How much of a file is compared for the message of a conflict.
const COMPARED: u64 = 1024 * 1024;

/// How long the diff in that message may be.
const DIFF: usize = 2048;

/// How many names of a directory are looked at to see whether it will be empty.
const NAMES: usize = 100_000;

/// Whether what changed since is put back all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    No,
    Yes,
}

/// Plans to put back what was there.
pub(super) fn restore(
    stage: &mut Stage<'_>,
    incoming: &Incoming<'_>,
    entries: &[Restoration],
    force: Force,
) -> Result<(), Stop> {
    let channel = incoming.channel;
    for entry in entries {
        match entry {
            Restoration::Put { path, expect, state } => {
                let spot = spot(stage, path)?;
                let now = present(&spot)?;
                let content = match state {
                    State::File { mode, size, mtime } => {
                        let like = Like::Past { mode: *mode, mtime: *mtime };
                        Some(receive(stage, incoming, &spot, like, *size)?)
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
                // A tree that is whole as the change left it goes whole.
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
                let (old, new) = (spot(stage, from)?, spot(stage, to)?);
                let now = present(&old)?;
                if force == Force::No && !is(expect, &old, now.as_ref()) {
                    return Err(conflict(&old, now.as_ref(), None).into());
                }
                rename(stage, channel, &old, &new, force)?;
            }
            Restoration::Revert { path, expect, was } => {
                let spot = spot(stage, path)?;
                let now = present(&spot)?;
                if force == Force::No && !is(expect, &spot, now.as_ref()) {
                    return Err(conflict(&spot, now.as_ref(), None).into());
                }
                revert::revert(stage, &spot, *was)?;
            }
        }
    }
    Ok(())
}

/// The spot of a path that had no links on its way.
fn spot(stage: &mut Stage<'_>, path: &Path) -> Result<Spot, FileError> {
    let (path, _) = trimmed(path)?;
    if matches!(crate::tools::split(&path.0).1, b"" | b"." | b"..") {
        return Err(invalid(&path, "its last part does not name an entry of a directory"));
    }
    stage.spot(&path, Way::Straight)
}

/// What is there before any of it is done.
fn present(spot: &Spot) -> Result<Option<Seen>, FileError> {
    match spot.look() {
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(None),
        found => found.map_err(|e| refused("look at", &spot.path(), e)),
    }
}

fn receive(
    stage: &mut Stage<'_>,
    incoming: &Incoming<'_>,
    spot: &Spot,
    like: Like,
    size: u64,
) -> Result<(Fresh, Facts), Stop> {
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

/// The error for what is not what the change left, with a diff of what undoing would do to it.
pub(super) fn conflict(spot: &Spot, now: Option<&Seen>, was: Option<&Fresh>) -> FileError {
    let path = spot.path();
    let there = now.map_or("nothing is there", |now| kind_name(now.kind()));
    let mut message = format!(
        "{} has changed since, so nothing was undone: now it is not what the call left ({there})",
        shown(&path)
    );
    let now_is = now.filter(|now| now.kind() == FileType::RegularFile && now.size <= COMPARED);
    let sides = now_is.zip(was).and_then(|(now, was)| {
        let file = File::from(spot.open(OFlags::RDONLY).ok()?);
        let now = read_all(&path, &file, now.size).ok()?;
        Some((now, was.content(COMPARED).ok()??))
    });
    if let Some((now, was)) = sides {
        let diff = palisade_edits::unified(&now, &was, "now", "undone", DIFF);
        message += ". Undoing it all the same would do this:\n";
        message += &diff.text;
        if !diff.complete {
            message += "\n…";
        }
    }
    failure(FileErrorKind::Conflict, None, message)
}

/// Plans to make a spot what it was.
fn put(
    stage: &mut Stage<'_>,
    channel: &Channel,
    spot: &Spot,
    state: &State,
    content: Option<(Fresh, Facts)>,
    force: Force,
) -> Result<(), Stop> {
    let node = stage.look(spot)?;
    let path = spot.path();
    if let (Node::Planned(FileType::RegularFile), Some((from, seen))) =
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
        (State::Other, _) => {
            let why = "it was a FIFO, socket or device, which can not be made again";
            Err(invalid(&spot.path(), why).into())
        }
        (_, Node::Planned(_)) => Err(twice(&spot.path()).into()),
        (State::Absent, Node::Absent) => Ok(()),
        (State::Absent, Node::There(_)) => clear(stage, channel, spot, node, force),
        (State::File { .. }, _) => {
            let Some((fresh, facts)) = content else {
                return Err(invalid(&spot.path(), "its content did not come").into());
            };
            put_file(stage, channel, spot, node, fresh, facts, force)
        }
        (State::Directory { mode }, Node::There(now)) if now.kind() == FileType::Directory => {
            if now.mode() != *mode {
                stage.mode(spot, now, *mode, Known::Directory)?;
                stage.effect(spot.path(), EffectKind::Mode, (0, 0), Print::Directory, None);
            }
            Ok(())
        }
        (State::Directory { mode }, Node::There(_) | Node::Absent) => {
            clear(stage, channel, spot, node, force)?;
            stage.parents(spot)?;
            Ok(stage.make_dir(spot, Some(mode & 0o777))?)
        }
        (State::Symlink { target }, Node::There(_) | Node::Absent) => {
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
    spot: &Spot,
    node: Node,
    fresh: Fresh,
    facts: Facts,
    force: Force,
) -> Result<(), Stop> {
    let regular = matches!(&node, Node::There(now) if now.kind() == FileType::RegularFile);
    if regular {
        return Ok(place(stage, spot, node, fresh, facts, EffectKind::Replaced)?);
    }
    clear(stage, channel, spot, node, force)?;
    stage.parents(spot)?;
    Ok(place(stage, spot, Node::Absent, fresh, facts, EffectKind::Created)?)
}

/// Plans to take away what is at a spot.
fn clear(
    stage: &mut Stage<'_>,
    channel: &Channel,
    spot: &Spot,
    node: Node,
    force: Force,
) -> Result<(), Stop> {
    let seen = match node {
        Node::Absent => return Ok(()),
        Node::Planned(_) => return Err(twice(&spot.path()).into()),
        Node::There(seen) => seen,
    };
    if seen.kind() != FileType::Directory {
        stage.remove(spot, node, Below::Nothing)?;
    } else if will_be_empty(stage, spot)? {
        stage.remove(spot, node, Below::Empty)?;
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

/// Whether all that is in a directory is taken away by the steps so far.
fn will_be_empty(stage: &Stage<'_>, spot: &Spot) -> Result<bool, FileError> {
    let path = spot.path();
    let refuse = |error| refused("read the directory", &path, error);
    let dir = spot.dir().map_err(refuse)?;
    let names = super::tree::list(&dir, &spot.name, NAMES).map_err(refuse)?;
    let goes = |name: &Vec<u8>| {
        stage.is_removed(&Path([path.0.as_slice(), b"/", name.as_slice()].concat()))
    };
    Ok(names.len() < NAMES && names.iter().all(goes))
}

/// Plans to give something its old name back.
fn rename(
    stage: &mut Stage<'_>,
    channel: &Channel,
    old: &Spot,
    new: &Spot,
    force: Force,
) -> Result<(), Stop> {
    let node = stage.look(old)?;
    let old_path = old.path();
    let (print, size) = match node {
        // It was not done, or is undone already.
        Node::Absent if force == Force::Yes && present(new)?.is_some() => return Ok(()),
        Node::Absent => return Err(conflict(old, None, None).into()),
        Node::There(seen) => (print(old, &seen), seen.size),
        Node::Planned(_) => {
            let last = stage.effects.iter().rev().find(|effect| effect.path == old_path);
            last.map(|effect| (effect.print.clone(), effect.size_after))
                .ok_or_else(|| changed(&old_path))?
        }
    };
    let there = stage.look(new)?;
    match (there, force) {
        (Node::Absent, _) => {}
        (Node::There(_), Force::Yes) => clear(stage, channel, new, there, force)?,
        (Node::There(seen), Force::No) => {
            return Err(conflict(new, Some(&seen), None).into());
        }
        (Node::Planned(_), _) => return Err(twice(&new.path()).into()),
    }
    stage.parents(new)?;
    stage.rename(old, node, new, Node::Absent)?;
    let size = if matches!(print, Print::File { .. }) { size } else { 0 };
    stage.effect(new.path(), EffectKind::Moved { from: old_path }, (size, size), print, None);
    Ok(())
}
