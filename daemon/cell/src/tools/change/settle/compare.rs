//! What a file became: the same, longer, another; and what somebody else made of it meanwhile.
//! Room: the cell.

use super::{
    super::{keep::changed, seen::Seen, spot::Spot, stage::Stage},
    content::{self, Digests, Likeness},
};
use crate::tools::{failure, kind_name, refused, refused_io, shown};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{Act, Conflict, Conflicts},
};
use rustix::{fs::FileType, io::Errno};
use std::{fs::File, os::fd::AsFd, os::unix::fs::FileExt as _};

/// A file of the upper layer, and how it is to the one that it replaces.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) digest: [u8; 32],
    /// That of what it has in common with one that it only adds to.
    pub(super) first: Option<[u8; 32]>,
    /// That of what it adds.
    pub(super) rest: Option<[u8; 32]>,
    pub(super) likeness: Likeness,
    /// Extended attributes are others.
    pub(super) attributes: Attributes,
}

/// Whether a file's extended attributes are those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attributes {
    Same,
    Other,
}

/// Reads a file of the upper layer, beside the one that it replaces, and adds the difference to
/// the diff.
pub(super) fn compare(
    stage: &mut Stage<'_>,
    spot: &Spot,
    upper: (impl AsFd, &Seen),
    lower: Option<&Seen>,
) -> Result<Compared, FileError> {
    let path = spot.path();
    let (dir, seen) = upper;
    let new = content::open_file(dir, &spot.name, seen).map_err(|e| refused("read", &path, e))?;
    let old = match lower {
        Some(old) => {
            let open = spot.dir().and_then(|dir| content::open_file(&dir, &spot.name, old));
            match open {
                Ok(file) => Some(file),
                // It can be replaced all the same, if what it has is not to be kept.
                Err(Errno::ACCESS) => None,
                Err(Errno::STALE | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                    return Err(changed(&path));
                }
                Err(error) => return Err(refused("read", &path, error)),
            }
        }
        None => None,
    };
    let other = old.as_ref().zip(lower).map(|(file, old)| (file, old.size));
    let (Digests { whole: digest, first, rest }, likeness) =
        content::digest(&new, seen.size, other).map_err(|e| unreadable(&path, &e))?;
    let attributes = match &old {
        Some(old) => same_attributes(&new, old).map_err(|e| refused("read", &path, e))?,
        None => Attributes::Same,
    };
    // Of a file that can not be read, so much has to do; what it really has stays as it is.
    let untouched = lower.is_some_and(|old| (old.size, old.mtime) == (seen.size, seen.mtime));
    let likeness = if old.is_none() && untouched { Likeness::Same } else { likeness };
    if likeness != Likeness::Same {
        show(stage, &path, (&new, seen.size), other)?;
    }
    Ok(Compared { digest, first, rest, likeness, attributes })
}

/// The error for a file that can not be read to its end: somebody has made it shorter.
fn unreadable(path: &Path, error: &std::io::Error) -> FileError {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return changed(path);
    }
    refused_io("read", path, error)
}

fn same_attributes(one: &File, other: &File) -> Result<Attributes, Errno> {
    let same = content::attributes(one)? == content::attributes(other)?;
    Ok(if same { Attributes::Same } else { Attributes::Other })
}

/// Adds the difference, if both are small enough to be read for that.
fn show(
    stage: &mut Stage<'_>,
    path: &Path,
    new: (&File, u64),
    old: Option<(&File, u64)>,
) -> Result<(), FileError> {
    let Some(most) = stage.comparable() else { return Ok(()) };
    if new.1 > most || old.is_some_and(|(_, size)| size > most) {
        stage.diff_complete = false;
        return Ok(());
    }
    let read = |(file, size): (&File, u64)| {
        let mut content = vec![0; usize::try_from(size).unwrap_or(0)];
        file.read_exact_at(&mut content, 0).map_err(|e| unreadable(path, &e))?;
        Ok::<_, FileError>(content)
    };
    let old = old.map(read).transpose()?;
    let new = read(new)?;
    stage.compare(old.as_deref().map(|old| (path, old)), Some((path, &new)));
    Ok(())
}

/// Refuses what somebody else changed while the program ran, or tells of it.
pub(super) fn contested(
    stage: &mut Stage<'_>,
    path: &Path,
    old: Option<&Seen>,
    new: Option<&Seen>,
) -> Result<(), FileError> {
    let what = |seen: &Seen| match seen.kind() {
        FileType::RegularFile => format!("a file of {} bytes", seen.size),
        kind @ (FileType::Directory
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown) => kind_name(kind).to_owned(),
    };
    let words = |seen: Option<&Seen>| seen.map_or_else(|| "nothing".to_owned(), what);
    let (theirs, ours) = (words(old), words(new));
    if let Act::Settle { conflicts: Conflicts::Told, .. } = stage.change.act {
        if stage.conflicts.last().is_none_or(|last| last.path != *path) {
            stage.conflicts.push(Conflict { path: path.clone(), theirs, ours });
        }
        return Ok(());
    }
    let deed = if old.is_some() { "changed" } else { "removed" };
    let message = format!(
        "{} was {deed} by somebody else while the program ran: there is {theirs} now, and the \
         program left {ours}. Nothing was done",
        shown(path),
    );
    Err(failure(FileErrorKind::Conflict, Some(Errno::STALE), message))
}
