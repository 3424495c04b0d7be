//! `apply_patch`: every part against the files as they were, and all of it or nothing. Room: the
//! cell.

use super::{
    act::Below,
    fresh::{Facts, Fresh, Like},
    plan::Known,
    seen::Seen,
    spot::{Dir, Spot, Way},
    stage::{Node, Stage},
    target::{Use, open_old, read_all, refuse_ours},
    write::{place, present, written},
};
use crate::{
    channel::Channel,
    tools::{Stop, checked, failure, go_on, not_regular, refused, refused_io, shown},
};
use palisade_edits::{FilePatch, Mode, PatchError, Problem, To};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{EffectKind, Print},
};
use rustix::{fs::FileType, io::Errno};
use sha2::{Digest as _, Sha256};
use std::fs::File;

/// One part, worked out.
struct Part {
    spot: Spot,
    node: Node,
    /// The file that was there, to be read when what is lost is sent.
    file: Option<File>,
    does: Does,
}

enum Does {
    Add(Fresh, Facts),
    Delete(Seen),
    Edit(Fresh, Facts),
    Mode(Seen, u32, [u8; 32]),
    Move(Seen, Spot, Option<(Fresh, Facts)>, [u8; 32]),
    Copy(Spot, Fresh, Facts),
}

/// Plans all parts of a patch below a directory.
pub(super) fn patch(
    stage: &mut Stage<'_>,
    channel: &Channel,
    base: &Path,
    text: &[u8],
) -> Result<(), Stop> {
    let patch = palisade_edits::parse(text).map_err(|error| misfit(None, &error))?;
    let base = Dir::open(checked(base)?, Way::ThroughLinks)
        .map_err(|e| refused("open the directory", base, e))?;
    let mut parts = Vec::with_capacity(patch.files.len());
    for file in &patch.files {
        go_on(channel)?;
        parts.push(work_out(stage, &base, file)?);
    }
    // What is taken away first makes room for what gets its name.
    let (gone, rest): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|part| matches!(part.does, Does::Delete(_)));
    let (moved, rest): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|part| matches!(part.does, Does::Move(..)));
    for part in gone.into_iter().chain(moved).chain(rest) {
        plan(stage, part)?;
    }
    Ok(())
}

/// The spot of a path of the patch: below the directory, and not through a link.
fn spot(stage: &mut Stage<'_>, base: &Dir, below: &[u8]) -> Result<Spot, FileError> {
    let path = Path([base.real.as_slice(), b"/", below].concat());
    checked(&path)?;
    let spot = stage.spot(&path, Way::Straight).map_err(|error| {
        if error.errno != Errno::LOOP.raw_os_error() {
            return error;
        }
        let message = format!("{}: a patch does not go through symbolic links", shown(&path));
        failure(FileErrorKind::OutsidePolicy, Some(Errno::LOOP), message)
    })?;
    refuse_ours(&path, &spot)?;
    Ok(spot)
}

/// What there is of a path of the patch: a regular file, or nothing.
fn node(stage: &mut Stage<'_>, spot: &Spot) -> Result<Node, FileError> {
    let node = stage.look(spot)?;
    if let Node::There(seen) = &node
        && seen.kind() != FileType::RegularFile
    {
        return Err(not_regular(&spot.path(), seen.kind(), ", and a patch changes only those"));
    }
    Ok(node)
}

fn work_out(stage: &mut Stage<'_>, base: &Dir, part: &FilePatch) -> Result<Part, FileError> {
    let spot = spot(stage, base, part.path())?;
    let node = node(stage, &spot)?;
    let path = spot.path();
    let fits = |old: &[u8]| part.apply(old).map_err(|error| misfit(Some(&path), &error));
    match part {
        FilePatch::Add { executable, .. } => {
            let (old, like) = match &node {
                Node::There(seen) => {
                    let (file, _) = open_old(&path, &spot, seen, Use::Content)?;
                    (read_all(&path, &file, seen.size)?, Like::Old(*seen))
                }
                Node::Absent | Node::Planned(_) => (Vec::new(), Like::New),
            };
            let new = fits(&old)?;
            let (fresh, facts) = made(stage, &spot, like, &new, *executable)?;
            stage.compare(None, Some((&path, &new)));
            Ok(Part { spot, node, file: None, does: Does::Add(fresh, facts) })
        }
        FilePatch::Delete { .. } => {
            let (seen, file, old) = present(stage, &path, &spot, node)?;
            fits(&old)?;
            stage.compare(Some((&path, &old)), None);
            Ok(Part { spot, node, file: Some(file), does: Does::Delete(seen) })
        }
        FilePatch::Update { to, mode, hunks, .. } => {
            let (seen, file, old) = present(stage, &path, &spot, node)?;
            let new = fits(&old)?;
            let to = match to {
                Some(to) => Some((self::spot(stage, base, to.path())?, to)),
                None => None,
            };
            let new_path = to.as_ref().map_or_else(|| path.clone(), |(to, _)| to.path());
            stage.compare(Some((&path, &old)), Some((&new_path, &new)));
            let digest: [u8; 32] = Sha256::digest(&old).into();
            let wanted = mode.map_or(seen.mode(), |mode| with_mode(seen.mode(), mode));
            let does = match to {
                Some((to, To::Copy(_))) => {
                    let (fresh, facts) = made(stage, &to, Like::New, &new, copied(*mode, &seen))?;
                    Does::Copy(to, fresh, facts)
                }
                Some((to, To::Move(_))) => {
                    let content = if hunks.is_empty() && wanted == seen.mode() {
                        None
                    } else {
                        Some(made(stage, &to, Like::Old(seen), &new, *mode)?)
                    };
                    Does::Move(seen, to, content, digest)
                }
                None if hunks.is_empty() => Does::Mode(seen, wanted, digest),
                None => {
                    let (fresh, facts) = made(stage, &spot, Like::Old(seen), &new, *mode)?;
                    Does::Edit(fresh, facts)
                }
            };
            Ok(Part { spot, node, file: Some(file), does })
        }
    }
}

/// A copy can be executed if what it is a copy of can.
const fn copied(mode: Option<Mode>, seen: &Seen) -> Option<Mode> {
    match mode {
        Some(mode) => Some(mode),
        None if seen.mode() & 0o111 != 0 => Some(Mode::Executable),
        None => None,
    }
}

/// The mode with or without the right to execute, for whoever may read.
const fn with_mode(has: u32, mode: Mode) -> u32 {
    match mode {
        Mode::Executable => has | (has & 0o444) >> 2,
        Mode::Regular => has & !0o111,
    }
}

fn made(
    stage: &mut Stage<'_>,
    spot: &Spot,
    like: Like,
    content: &[u8],
    mode: Option<Mode>,
) -> Result<(Fresh, Facts), FileError> {
    let (fresh, mut facts) = written(stage, spot, like, content)?;
    if let Some(mode) = mode {
        let wanted = with_mode(facts.mode, mode);
        fresh
            .set_mode(facts.mode, wanted)
            .map_err(|e| refused_io("set the mode of", &spot.path(), &e))?;
        facts.mode = wanted;
    }
    Ok((fresh, facts))
}

fn plan(stage: &mut Stage<'_>, part: Part) -> Result<(), FileError> {
    let Part { spot, node, file, does } = part;
    let path = spot.path();
    if let Some(file) = file {
        stage.keep_open(&path, file);
    }
    match does {
        Does::Add(fresh, facts) => {
            let node = free(stage, &spot, node)?;
            stage.parents(&spot)?;
            place(stage, &spot, node, fresh, facts, EffectKind::Created)
        }
        Does::Edit(fresh, facts) => place(stage, &spot, node, fresh, facts, EffectKind::Edited),
        Does::Copy(to, fresh, facts) => {
            let node = absent(stage, &to)?;
            stage.parents(&to)?;
            place(stage, &to, node, fresh, facts, EffectKind::Created)
        }
        Does::Delete(seen) => {
            stage.remove(&spot, node, Below::Nothing)?;
            let kind = EffectKind::Deleted { entries: 1 };
            stage.effect(path, kind, (seen.size, 0), Print::Absent, Some(&seen));
            Ok(())
        }
        Does::Mode(seen, mode, digest) => {
            if seen.mode() == mode {
                return Ok(());
            }
            stage.mode(&spot, seen, mode, Known::Content(Some(digest)))?;
            let print = Print::File { mode, digest };
            stage.effect(path, EffectKind::Mode, (seen.size, seen.size), print, Some(&seen));
            Ok(())
        }
        Does::Move(seen, to, content, digest) => {
            let over = absent(stage, &to)?;
            stage.parents(&to)?;
            stage.rename(&spot, node, &to, over)?;
            let (print, size) = match content {
                Some((fresh, facts)) => {
                    stage.replace_moved(&spot, &to, seen, fresh, facts)?;
                    (Print::File { mode: facts.mode, digest: facts.digest }, facts.size)
                }
                None => (Print::File { mode: seen.mode(), digest }, seen.size),
            };
            let kind = EffectKind::Moved { from: path };
            stage.effect(to.path(), kind, (seen.size, size), print, Some(&seen));
            Ok(())
        }
    }
}

/// What is at the place of a new file by now: what another part took away is not.
fn free(stage: &mut Stage<'_>, spot: &Spot, node: Node) -> Result<Node, FileError> {
    if stage.is_removed(&spot.path()) { Ok(Node::Absent) } else { Ok(node) }
}

/// Refuses what exists: a patch that is to replace it deletes it.
fn absent(stage: &mut Stage<'_>, spot: &Spot) -> Result<Node, FileError> {
    match stage.look(spot)? {
        Node::Absent => Ok(Node::Absent),
        Node::There(_) | Node::Planned(_) => {
            let path = shown(&spot.path());
            let message =
                format!("{path} exists, and a patch renames and copies to new names only");
            Err(failure(FileErrorKind::AlreadyExists, Some(Errno::EXIST), message))
        }
    }
}

fn misfit(path: Option<&Path>, error: &PatchError) -> FileError {
    let kind = match &error.problem {
        Problem::NoMatch { .. }
        | Problem::Ambiguous { .. }
        | Problem::Order { .. }
        | Problem::NoAnchor { .. }
        | Problem::AnchorAmbiguous { .. }
        | Problem::Beyond { .. }
        | Problem::Leaves { .. }
        | Problem::Work => FileErrorKind::NoMatch,
        Problem::Exists { .. } => FileErrorKind::AlreadyExists,
        Problem::TooMuch { .. } => FileErrorKind::TooLarge,
        Problem::Path { .. } => FileErrorKind::OutsidePolicy,
        Problem::NoPatch
        | Problem::Expected { .. }
        | Problem::Mode { .. }
        | Problem::Binary
        | Problem::Twice { .. }
        | Problem::Names { .. }
        | Problem::NoChange { .. }
        | Problem::Counts { .. }
        | Problem::Nowhere => FileErrorKind::Invalid,
    };
    let of = path.map_or_else(String::new, |path| format!(" to {}", shown(path)));
    failure(kind, None, format!("can not apply the patch{of}: {error}. Nothing was changed"))
}
