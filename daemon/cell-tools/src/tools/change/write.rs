//! `write_file` and the edit tools, which replace the content of a file. Runs in the cell.

use super::{
    fresh::{ContentFacts, FileAttributes, TemporaryFile},
    incoming::MessageReceiver,
    spot::EntryLocation,
    stage::{PlannedState, Stage, changed_twice},
    target::{self, FilePurpose, FinalLink, Readable, open_old, read_all, too_large},
};
use crate::tools::{NeededMode, Stop, failure, not_opened, refused, refused_io, shown};
use palisade_edits::{Edit, EditError, EditedText, ReplaceCount};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{EffectKind, FileEdits, Print, WriteMode},
};
use palisade_workspace::EntryMetadata;
use rustix::io::Errno;
use std::fs::File;

/// Plans to write a file with the content that the broker sends.
///
/// An existing entry must be a regular file that this process may write.
///
/// - A symbolic link stays; its target is written, and may be new.
/// - Mode bits are kept, without set-uid, set-gid and sticky. Owner and group are kept where the
///   kernel permits it, and so are `user.` attributes and access control lists. A new file gets
///   0666 as the umask permits.
/// - The new content is a new inode. Other names (hard links) of the old one keep the old content.
///   A name in the workspace for a file elsewhere therefore does not change that file.
pub(super) fn write(
    stage: &mut Stage<'_>,
    incoming: &MessageReceiver<'_>,
    path: &Path,
    mode: WriteMode,
) -> Result<(), Stop> {
    let last = match mode {
        WriteMode::Overwrite | WriteMode::Append => FinalLink::Followed,
        WriteMode::Create => FinalLink::Itself,
    };
    let (spot, node) = target::file(stage, path, last)?;
    let old = match (mode, node) {
        (WriteMode::Create, PlannedState::There(_)) => return Err(exists(path).into()),
        (_, PlannedState::There(seen)) => {
            let (file, readable) = open_old(path, &spot, &seen, access(mode))?;
            Some((seen, file, readable))
        }
        (_, PlannedState::Absent) => None,
        (_, PlannedState::Planned(_)) => return Err(changed_twice(path).into()),
    };
    let like = old.as_ref().map_or(FileAttributes::New, |(seen, ..)| FileAttributes::Old(*seen));
    let mut fresh = stage.fresh(&spot, like)?;
    let most = stage.change.most;
    if let (WriteMode::Append, Some((seen, file, _))) = (mode, &old) {
        copy_old(path, file, seen, &mut fresh, most)?;
    }
    incoming.content(|data| {
        if fresh.size() + data.len() as u64 > most {
            return Err(too_large(path, fresh.size() + data.len() as u64, most));
        }
        fresh.write(data).map_err(|e| refused_io("write", path, &e))
    })?;
    let facts = fresh.complete(like).map_err(|e| refused_io("write", path, &e))?;
    let Some((seen, file, readable)) = old else {
        stage.parents(&spot)?;
        compare_fresh(stage, &spot.path(), None, &fresh)?;
        return Ok(place(stage, &spot, node, fresh, facts, EffectKind::Created)?);
    };
    if stage.keeps() && readable == Readable::No {
        let error =
            not_opened("read, and so keep for undoing,", path, Errno::ACCESS, NeededMode::Read);
        return Err(error.into());
    }
    if readable == Readable::Yes {
        compare_fresh(stage, &spot.path(), Some((&seen, &file)), &fresh)?;
        stage.keep_open(&spot.path(), file);
    }
    let kind = match mode {
        WriteMode::Append => EffectKind::Appended,
        WriteMode::Overwrite | WriteMode::Create => EffectKind::Replaced,
    };
    Ok(place(stage, &spot, node, fresh, facts, kind)?)
}

const fn access(mode: WriteMode) -> FilePurpose {
    match mode {
        WriteMode::Append => FilePurpose::Content,
        WriteMode::Overwrite | WriteMode::Create => FilePurpose::Replace,
    }
}

/// Returns the error for `Create` if the path exists.
fn exists(path: &Path) -> FileError {
    let message = format!("{} exists, and mode create does not replace it", shown(path));
    failure(FileErrorKind::AlreadyExists, Some(Errno::EXIST), message)
}

fn copy_old(
    path: &Path,
    file: &File,
    seen: &EntryMetadata,
    fresh: &mut TemporaryFile,
    most: u64,
) -> Result<(), FileError> {
    if seen.size > most {
        return Err(too_large(path, seen.size, most));
    }
    let content = read_all(path, file, seen.size)?;
    fresh.write(&content).map_err(|e| refused_io("copy the content of", path, &e))
}

/// Adds the difference to the diff, if both contents are small enough to be read for that.
fn compare_fresh(
    stage: &mut Stage<'_>,
    path: &Path,
    old: Option<(&EntryMetadata, &File)>,
    fresh: &TemporaryFile,
) -> Result<(), FileError> {
    use std::io::Seek as _;
    let Some(most) = stage.comparable() else { return Ok(()) };
    let new = fresh.content(most).map_err(|e| refused_io("read", path, &e))?;
    let old = match old {
        Some((seen, _)) if seen.size > most => {
            stage.diff_complete = false;
            return Ok(());
        }
        Some((seen, mut file)) => {
            file.rewind().map_err(|e| refused_io("read", path, &e))?;
            Some(read_all(path, file, seen.size)?)
        }
        None => None,
    };
    match new {
        Some(new) => stage.compare(old.as_deref().map(|old| (path, old)), Some((path, &new))),
        None => stage.diff_complete = false,
    }
    Ok(())
}

/// Plans the file, and adds the effect.
pub(super) fn place(
    stage: &mut Stage<'_>,
    spot: &EntryLocation,
    node: PlannedState,
    fresh: TemporaryFile,
    facts: ContentFacts,
    kind: EffectKind,
) -> Result<(), FileError> {
    let seen = match &node {
        PlannedState::There(seen) => Some(seen),
        PlannedState::Absent | PlannedState::Planned(_) => None,
    };
    let print = Print::File { mode: facts.mode, digest: facts.digest };
    let sizes = (seen.map_or(0, |seen| seen.size), facts.size);
    stage.put(spot, node, fresh, facts)?;
    stage.effect(spot.path(), kind, sizes, print, seen);
    Ok(())
}

/// Writes content to a temporary file.
pub(super) fn written(
    stage: &mut Stage<'_>,
    spot: &EntryLocation,
    like: FileAttributes,
    content: &[u8],
) -> Result<(TemporaryFile, ContentFacts), FileError> {
    let path = spot.path();
    if content.len() as u64 > stage.change.most {
        return Err(too_large(&path, content.len() as u64, stage.change.most));
    }
    let mut fresh = stage.fresh(spot, like)?;
    fresh.write(content).map_err(|e| refused_io("write", &path, &e))?;
    let facts = fresh.complete(like).map_err(|e| refused_io("write", &path, &e))?;
    Ok((fresh, facts))
}

/// Opens and reads an existing regular file.
pub(super) fn present(
    stage: &Stage<'_>,
    path: &Path,
    spot: &EntryLocation,
    node: PlannedState,
) -> Result<(EntryMetadata, File, Vec<u8>), FileError> {
    let seen = match node {
        PlannedState::There(seen) => seen,
        PlannedState::Absent => return Err(refused("edit", path, Errno::NOENT)),
        PlannedState::Planned(_) => return Err(changed_twice(path)),
    };
    if seen.size > stage.change.most {
        return Err(too_large(path, seen.size, stage.change.most));
    }
    let (file, _) = open_old(path, spot, &seen, FilePurpose::Content)?;
    let content = read_all(path, &file, seen.size)?;
    Ok((seen, file, content))
}

/// Plans the edits of one file.
pub(super) fn edit(stage: &mut Stage<'_>, edits: &FileEdits) -> Result<(), FileError> {
    let path = &edits.path;
    let (spot, node) = target::file(stage, path, FinalLink::Followed)?;
    let (seen, file, old) = present(stage, path, &spot, node)?;
    let list: Vec<Edit> = edits
        .edits
        .iter()
        .map(|edit| Edit {
            old: edit.old.clone(),
            new: edit.new.clone(),
            every: if edit.all { ReplaceCount::All } else { ReplaceCount::Once },
        })
        .collect();
    let EditedText { text: new, replacements } =
        palisade_edits::edit(&old, &list).map_err(|error| edit_failure(path, &error))?;
    stage.replacements += replacements as u64;
    let (fresh, facts) = written(stage, &spot, FileAttributes::Old(seen), &new)?;
    let real = spot.path();
    stage.compare(Some((&real, &old)), Some((&real, &new)));
    stage.keep_open(&spot.path(), file);
    place(stage, &spot, node, fresh, facts, EffectKind::Edited)
}

fn edit_failure(path: &Path, error: &EditError) -> FileError {
    let kind = match error {
        EditError::NoMatch { .. } | EditError::Ambiguous { .. } => FileErrorKind::NoMatch,
        EditError::Empty | EditError::EmptyOld { .. } | EditError::Same { .. } => {
            FileErrorKind::Invalid
        }
        EditError::TooLarge { .. } => FileErrorKind::TooLarge,
    };
    failure(kind, None, format!("can not edit {}: {error}", shown(path)))
}
