//! `move_file` and `make_dir`. Runs in the cell.

use super::{
    print::print,
    spot::EntryLocation,
    stage::{PlannedState, Stage, changed_twice},
    target::{self, Slash, may_change, refuse_ours, trimmed},
};
use crate::tools::{failure, invalid, kind_name, look, open, refused, shown};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::EffectKind,
};
use palisade_workspace::{EntryMetadata, View, kind_of};
use rustix::{
    fs::{CWD, FileType, OFlags},
    io::Errno,
};
use std::os::fd::AsFd;

/// Plans to rename an entry.
pub(super) fn rename(
    stage: &mut Stage<'_>,
    from: &Path,
    to: &Path,
    over: Overwrite,
) -> Result<(), FileError> {
    let ((from, slash), (to, to_slash)) = (trimmed(from)?, trimmed(to)?);
    let (old, node) = target::entry(stage, &from)?;
    let seen = match node {
        PlannedState::There(seen) => seen,
        PlannedState::Absent | PlannedState::Planned(_) => {
            return Err(refused("move", &from, Errno::NOENT));
        }
    };
    let is_directory = seen.kind() == FileType::Directory;
    if (slash, to_slash) != (Slash::None, Slash::None) && !is_directory {
        let what = kind_name(seen.kind());
        return Err(invalid(&from, &format!("one of the names ends in a slash, and it is {what}")));
    }
    stage.refuse_workspace(&from, &seen)?;
    let (new, there) = target::entry(stage, &to)?;
    refuse_ours(&to, &new)?;
    let (old_path, path) = (old.path(), new.path());
    if old_path == path {
        return Err(invalid(&to, "it already has that name"));
    }
    if is_directory && path.0.starts_with(&[old_path.0.as_slice(), b"/"].concat()) {
        return Err(invalid(&to, "it is below the directory to be moved"));
    }
    if let PlannedState::There(taken) = &there {
        free(&to, &seen, taken, over)?;
    }
    let base = rustix::fs::fstat(&new.base).map_err(|e| refused("look at", &to, e))?;
    if base.st_dev != seen.dev {
        return Err(cross_device(&from, &to));
    }
    may_change(&from, "move", &old)?;
    may_change(&to, "move to", &new)?;
    if is_directory {
        let dir = old.dir().map_err(|e| refused("move", &from, e))?;
        refuse_names(stage.view, &dir, &old.name, (&old_path, &path))?;
    }
    let print = print(&old, &seen);
    stage.parents(&new)?;
    stage.rename(&old, node, &new, there)?;
    let replaced = match &there {
        PlannedState::There(taken) => Some(taken),
        PlannedState::Absent | PlannedState::Planned(_) => None,
    };
    let size = seen.file_size();
    stage.effect(path, EffectKind::Moved { from: old_path }, (size, size), print, replaced);
    Ok(())
}

/// Refuses to move a directory that contains a hidden or protected name, under its old or its new
/// path.
fn refuse_names(
    view: &View,
    above: impl AsFd,
    name: &[u8],
    (from, to): (&Path, &Path),
) -> Result<(), FileError> {
    if view.names.is_empty() {
        return Ok(());
    }
    super::settle::whole::each(above, name, from, None, |part| {
        let kind = kind_of(part.seen.kind());
        view.refuse(part.path, kind)?;
        let slash: &[u8] = if part.way.is_empty() { b"" } else { b"/" };
        view.refuse(&Path([&to.0, slash, part.way].concat()), kind)
    })
}

/// The kinds of entries that a move may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overwrite {
    Nothing,
    Files,
}

fn free(
    to: &Path,
    seen: &EntryMetadata,
    taken: &EntryMetadata,
    over: Overwrite,
) -> Result<(), FileError> {
    let directory = FileType::Directory;
    let why = if over == Overwrite::Nothing {
        "exists, and is not replaced without `overwrite`"
    } else if taken.kind() == directory {
        "is a directory, and directories are never replaced"
    } else if seen.kind() == directory {
        "exists, and a directory can not replace it"
    } else {
        return Ok(());
    };
    let message = format!("{} {why}", shown(to));
    Err(failure(FileErrorKind::AlreadyExists, Some(Errno::EXIST), message))
}

/// Returns the error for a move to another file system.
pub(super) fn cross_device(from: &Path, to: &Path) -> FileError {
    let message = format!(
        "{} can not be moved to {}: it is on another file system. Copy it, then delete the old one",
        shown(from),
        shown(to)
    );
    failure(FileErrorKind::FileSystem, Some(Errno::XDEV), message)
}

/// Plans a directory, and those above it that are missing. An existing directory is neither an
/// error nor an effect.
pub(super) fn make_dir(stage: &mut Stage<'_>, path: &Path) -> Result<(), FileError> {
    let (trimmed, _) = trimmed(path)?;
    if let Ok(there) = open(CWD, &path.0, OFlags::PATH | OFlags::DIRECTORY)
        && look::show(&there, path, "make", stage.view).is_ok()
    {
        return Ok(());
    }
    let (spot, node) = target::entry(stage, &trimmed)?;
    match node {
        PlannedState::Absent => {}
        PlannedState::There(seen) => {
            let message = format!("{} exists, and is {}", shown(path), kind_name(seen.kind()));
            return Err(failure(FileErrorKind::AlreadyExists, Some(Errno::EXIST), message));
        }
        PlannedState::Planned(_) => return Err(changed_twice(path)),
    }
    refuse_ours(path, &spot)?;
    let base = EntryLocation { way: Vec::new(), ..spot.clone() };
    may_change(path, "make", &base)?;
    stage.parents(&spot)?;
    stage.make_dir(&spot, None)
}
