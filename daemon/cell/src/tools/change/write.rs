//! `write_file` and the edits: a file's content becomes another. Room: the cell.

use super::{
    fresh::{Facts, Fresh, Like},
    incoming::Incoming,
    seen::Seen,
    spot::Spot,
    stage::{Node, Stage, twice},
    target::{self, Last, Readable, Use, open_old, read_all, too_large},
};
use crate::tools::{Stop, failure, refused, refused_io, shown};
use palisade_edits::{Edit, EditError, Every};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{EffectKind, FileEdits, Print, WriteMode},
};
use rustix::io::Errno;
use std::fs::File;

/// Plans to write a file, with the content that comes.
///
/// What is there must be a regular file that this process may write.
///
/// - A symbolic link stays; what it leads to is written, and may be new.
/// - Mode bits are kept, without set-uid, set-gid and sticky; owner and group where the kernel
///   lets them; extended attributes and access lists are not. A new file gets what the umask
///   leaves of 0666.
/// - The new content is a new inode. Other names (hard links) of the old one keep the old content,
///   so a name in the workspace for a file elsewhere does not change that file.
pub(super) fn write(
    stage: &mut Stage<'_>,
    incoming: &Incoming<'_>,
    path: &Path,
    mode: WriteMode,
) -> Result<(), Stop> {
    let last = match mode {
        WriteMode::Overwrite | WriteMode::Append => Last::Followed,
        WriteMode::Create => Last::Itself,
    };
    let (spot, node) = target::file(stage, path, last)?;
    let old = match (mode, node) {
        (WriteMode::Create, Node::There(_)) => return Err(exists(path).into()),
        (_, Node::There(seen)) => {
            let (file, readable) = open_old(path, &spot, &seen, access(mode))?;
            Some((seen, file, readable))
        }
        (_, Node::Absent) => None,
        (_, Node::Planned(_)) => return Err(twice(path).into()),
    };
    let like = old.as_ref().map_or(Like::New, |(seen, ..)| Like::Old(*seen));
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
        let error = refused("read, and so keep for undoing,", path, Errno::ACCESS);
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

const fn access(mode: WriteMode) -> Use {
    match mode {
        WriteMode::Append => Use::Content,
        WriteMode::Overwrite | WriteMode::Create => Use::Replace,
    }
}

/// The error of `Create` where something is.
fn exists(path: &Path) -> FileError {
    let message = format!("{} exists, and mode create does not replace it", shown(path));
    failure(FileErrorKind::AlreadyExists, Some(Errno::EXIST), message)
}

fn copy_old(
    path: &Path,
    file: &File,
    seen: &Seen,
    fresh: &mut Fresh,
    most: u64,
) -> Result<(), FileError> {
    if seen.size > most {
        return Err(too_large(path, seen.size, most));
    }
    let content = read_all(path, file, seen.size)?;
    fresh.write(&content).map_err(|e| refused_io("copy the content of", path, &e))
}

/// Adds the difference to the diff, if both are small enough to be read for that.
fn compare_fresh(
    stage: &mut Stage<'_>,
    path: &Path,
    old: Option<(&Seen, &File)>,
    fresh: &Fresh,
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

/// Plans the file, and says what happens.
pub(super) fn place(
    stage: &mut Stage<'_>,
    spot: &Spot,
    node: Node,
    fresh: Fresh,
    facts: Facts,
    kind: EffectKind,
) -> Result<(), FileError> {
    let seen = match &node {
        Node::There(seen) => Some(seen),
        Node::Absent | Node::Planned(_) => None,
    };
    let print = Print::File { mode: facts.mode, digest: facts.digest };
    let sizes = (seen.map_or(0, |seen| seen.size), facts.size);
    stage.put(spot, node, fresh, facts)?;
    stage.effect(spot.path(), kind, sizes, print, seen);
    Ok(())
}

/// Content that is in memory, written aside.
pub(super) fn written(
    stage: &mut Stage<'_>,
    spot: &Spot,
    like: Like,
    content: &[u8],
) -> Result<(Fresh, Facts), FileError> {
    let path = spot.path();
    if content.len() as u64 > stage.change.most {
        return Err(too_large(&path, content.len() as u64, stage.change.most));
    }
    let mut fresh = stage.fresh(spot, like)?;
    fresh.write(content).map_err(|e| refused_io("write", &path, &e))?;
    let facts = fresh.complete(like).map_err(|e| refused_io("write", &path, &e))?;
    Ok((fresh, facts))
}

/// A regular file that is there, and its content.
pub(super) fn present(
    stage: &Stage<'_>,
    path: &Path,
    spot: &Spot,
    node: Node,
) -> Result<(Seen, File, Vec<u8>), FileError> {
    let seen = match node {
        Node::There(seen) => seen,
        Node::Absent => return Err(refused("edit", path, Errno::NOENT)),
        Node::Planned(_) => return Err(twice(path)),
    };
    if seen.size > stage.change.most {
        return Err(too_large(path, seen.size, stage.change.most));
    }
    let (file, _) = open_old(path, spot, &seen, Use::Content)?;
    let content = read_all(path, &file, seen.size)?;
    Ok((seen, file, content))
}

/// Plans the edits of one file.
pub(super) fn edit(stage: &mut Stage<'_>, edits: &FileEdits) -> Result<(), FileError> {
    let path = &edits.path;
    let (spot, node) = target::file(stage, path, Last::Followed)?;
    let (seen, file, old) = present(stage, path, &spot, node)?;
    let list: Vec<Edit> = edits
        .edits
        .iter()
        .map(|edit| Edit {
            old: edit.old.clone(),
            new: edit.new.clone(),
            every: if edit.all { Every::All } else { Every::Once },
        })
        .collect();
    let new = palisade_edits::edit(&old, &list).map_err(|error| misfit(path, &error))?;
    let (fresh, facts) = written(stage, &spot, Like::Old(seen), &new)?;
    let real = spot.path();
    stage.compare(Some((&real, &old)), Some((&real, &new)));
    stage.keep_open(&spot.path(), file);
    place(stage, &spot, node, fresh, facts, EffectKind::Edited)
}

fn misfit(path: &Path, error: &EditError) -> FileError {
    let kind = match error {
        EditError::NoMatch { .. } | EditError::Ambiguous { .. } => FileErrorKind::NoMatch,
        EditError::Empty | EditError::EmptyOld { .. } | EditError::Same { .. } => {
            FileErrorKind::Invalid
        }
        EditError::TooLarge { .. } => FileErrorKind::TooLarge,
    };
    failure(kind, None, format!("can not edit {}: {error}", shown(path)))
}
