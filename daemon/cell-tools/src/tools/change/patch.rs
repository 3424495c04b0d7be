//! `apply_patch`: applies every part to the files as they were, completely or not at all. Runs in
//! the cell.

use super::{
    act::DeletedContents,
    fresh::{ContentFacts, FileAttributes, TemporaryFile},
    plan::ModeTarget,
    spot::{Dir, EntryLocation, LinkHandling},
    stage::{PlannedState, Stage},
    target::{FilePurpose, open_old, read_all, refuse_ours},
    write::{place, present, written},
};
use crate::tools::{Stop, checked, failure, go_on, not_regular, refused, refused_io, shown};
use palisade_channel::Channel;
use palisade_edits::{Destination, FilePatch, Mode, PatchError, Problem};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{EffectKind, Print},
};
use palisade_workspace::EntryMetadata;
use rustix::{fs::FileType, io::Errno};
use sha2::{Digest as _, Sha256};
use std::fs::File;

/// One planned part of a patch.
struct PatchPart {
    spot: EntryLocation,
    node: PlannedState,
    /// The existing file, from which the undo record is read.
    file: Option<File>,
    does: PatchAction,
}

enum PatchAction {
    Add(TemporaryFile, ContentFacts),
    Delete(EntryMetadata),
    Edit(TemporaryFile, ContentFacts),
    Mode(EntryMetadata, u32, [u8; 32]),
    Move(EntryMetadata, EntryLocation, Option<(TemporaryFile, ContentFacts)>, [u8; 32]),
    Copy(EntryLocation, TemporaryFile, ContentFacts),
}

/// Plans all parts of a patch to files below `base`.
pub(super) fn patch(
    stage: &mut Stage<'_>,
    channel: &Channel,
    base: &Path,
    text: &[u8],
) -> Result<(), Stop> {
    let patch = palisade_edits::parse(text).map_err(|error| patch_failure(None, &error))?;
    let base = Dir::open(checked(base)?, LinkHandling::ThroughLinks)
        .map_err(|e| refused("open the directory", base, e))?;
    let mut parts = Vec::with_capacity(patch.files.len());
    for file in &patch.files {
        go_on(channel)?;
        parts.push(plan_part(stage, &base, file)?);
    }
    // Deletions and moves go first, because other parts may use the names that they free.
    let (gone, rest): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|part| matches!(part.does, PatchAction::Delete(_)));
    let (moved, rest): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|part| matches!(part.does, PatchAction::Move(..)));
    for part in gone.into_iter().chain(moved).chain(rest) {
        plan(stage, part)?;
    }
    Ok(())
}

/// Returns the spot of a path in the patch. It must be below `base`, and no link may be on the way.
fn spot(stage: &mut Stage<'_>, base: &Dir, below: &[u8]) -> Result<EntryLocation, FileError> {
    let path = Path([base.real.as_slice(), b"/", below].concat());
    checked(&path)?;
    let spot = stage.spot(&path, LinkHandling::Straight).map_err(|error| {
        if error.errno != Errno::LOOP.raw_os_error() {
            return error;
        }
        let message = format!("{}: a patch does not go through symbolic links", shown(&path));
        failure(FileErrorKind::OutsidePolicy, Some(Errno::LOOP), message)
    })?;
    refuse_ours(&path, &spot)?;
    Ok(spot)
}

/// Returns what is at a path of the patch: a regular file, or nothing. Refuses anything else.
fn node(stage: &mut Stage<'_>, spot: &EntryLocation) -> Result<PlannedState, FileError> {
    let node = stage.look(spot)?;
    if let PlannedState::There(seen) = &node
        && seen.kind() != FileType::RegularFile
    {
        return Err(not_regular(&spot.path(), seen.kind(), ", and a patch changes only those"));
    }
    Ok(node)
}

fn plan_part(stage: &mut Stage<'_>, base: &Dir, part: &FilePatch) -> Result<PatchPart, FileError> {
    let spot = spot(stage, base, part.path())?;
    let node = node(stage, &spot)?;
    let path = spot.path();
    let fits = |old: &[u8]| part.apply(old).map_err(|error| patch_failure(Some(&path), &error));
    match part {
        FilePatch::Add { executable, .. } => {
            let (old, like) = match &node {
                PlannedState::There(seen) => {
                    let (file, _) = open_old(&path, &spot, seen, FilePurpose::Content)?;
                    (read_all(&path, &file, seen.size)?, FileAttributes::Old(*seen))
                }
                PlannedState::Absent | PlannedState::Planned(_) => {
                    (Vec::new(), FileAttributes::New)
                }
            };
            let new = fits(&old)?;
            let (fresh, facts) = made(stage, &spot, like, &new, *executable)?;
            stage.compare(None, Some((&path, &new)));
            Ok(PatchPart { spot, node, file: None, does: PatchAction::Add(fresh, facts) })
        }
        FilePatch::Delete { .. } => {
            let (seen, file, old) = present(stage, &path, &spot, node)?;
            fits(&old)?;
            stage.compare(Some((&path, &old)), None);
            Ok(PatchPart { spot, node, file: Some(file), does: PatchAction::Delete(seen) })
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
                Some((to, Destination::Copy(_))) => {
                    let (fresh, facts) =
                        made(stage, &to, FileAttributes::New, &new, copied(*mode, &seen))?;
                    PatchAction::Copy(to, fresh, facts)
                }
                Some((to, Destination::Move(_))) => {
                    let content = if hunks.is_empty() && wanted == seen.mode() {
                        None
                    } else {
                        Some(made(stage, &to, FileAttributes::Old(seen), &new, *mode)?)
                    };
                    PatchAction::Move(seen, to, content, digest)
                }
                None if hunks.is_empty() => PatchAction::Mode(seen, wanted, digest),
                None => {
                    let (fresh, facts) =
                        made(stage, &spot, FileAttributes::Old(seen), &new, *mode)?;
                    PatchAction::Edit(fresh, facts)
                }
            };
            Ok(PatchPart { spot, node, file: Some(file), does })
        }
    }
}

/// Returns the mode for a copy: executable if the original is.
const fn copied(mode: Option<Mode>, seen: &EntryMetadata) -> Option<Mode> {
    match mode {
        Some(mode) => Some(mode),
        None if seen.mode() & 0o111 != 0 => Some(Mode::Executable),
        None => None,
    }
}

/// Adds or removes the execute permission, for everybody who may read.
const fn with_mode(has: u32, mode: Mode) -> u32 {
    match mode {
        Mode::Executable => has | (has & 0o444) >> 2,
        Mode::Regular => has & !0o111,
    }
}

fn made(
    stage: &mut Stage<'_>,
    spot: &EntryLocation,
    like: FileAttributes,
    content: &[u8],
    mode: Option<Mode>,
) -> Result<(TemporaryFile, ContentFacts), FileError> {
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

fn plan(stage: &mut Stage<'_>, part: PatchPart) -> Result<(), FileError> {
    let PatchPart { spot, node, file, does } = part;
    let path = spot.path();
    if let Some(file) = file {
        stage.keep_open(&path, file);
    }
    match does {
        PatchAction::Add(fresh, facts) => {
            let node = free(stage, &spot, node)?;
            stage.parents(&spot)?;
            place(stage, &spot, node, fresh, facts, EffectKind::Created)
        }
        PatchAction::Edit(fresh, facts) => {
            place(stage, &spot, node, fresh, facts, EffectKind::Edited)
        }
        PatchAction::Copy(to, fresh, facts) => {
            let node = absent(stage, &to)?;
            stage.parents(&to)?;
            place(stage, &to, node, fresh, facts, EffectKind::Created)
        }
        PatchAction::Delete(seen) => {
            stage.remove(&spot, node, DeletedContents::Nothing)?;
            let kind = EffectKind::Deleted { entries: 1 };
            stage.effect(path, kind, (seen.size, 0), Print::Absent, Some(&seen));
            Ok(())
        }
        PatchAction::Mode(seen, mode, digest) => {
            if seen.mode() == mode {
                return Ok(());
            }
            stage.mode(&spot, seen, mode, ModeTarget::Content(Some(digest)))?;
            let print = Print::File { mode, digest };
            stage.effect(path, EffectKind::Mode, (seen.size, seen.size), print, Some(&seen));
            Ok(())
        }
        PatchAction::Move(seen, to, content, digest) => {
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

/// Returns what a new file will find at its place. An entry that another part deletes counts as
/// absent.
fn free(
    stage: &mut Stage<'_>,
    spot: &EntryLocation,
    node: PlannedState,
) -> Result<PlannedState, FileError> {
    if stage.is_removed(&spot.path()) { Ok(PlannedState::Absent) } else { Ok(node) }
}

/// Refuses a name that exists. A patch that is to replace a file must delete it.
fn absent(stage: &mut Stage<'_>, spot: &EntryLocation) -> Result<PlannedState, FileError> {
    match stage.look(spot)? {
        PlannedState::Absent => Ok(PlannedState::Absent),
        PlannedState::There(_) | PlannedState::Planned(_) => {
            let path = shown(&spot.path());
            let message =
                format!("{path} exists, and a patch renames and copies to new names only");
            Err(failure(FileErrorKind::AlreadyExists, Some(Errno::EXIST), message))
        }
    }
}

fn patch_failure(path: Option<&Path>, error: &PatchError) -> FileError {
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
        | Problem::Counts { .. } => FileErrorKind::Invalid,
    };
    let of = path.map_or_else(String::new, |path| format!(" to {}", shown(path)));
    failure(kind, None, format!("can not apply the patch{of}: {error}. Nothing was changed"))
}
