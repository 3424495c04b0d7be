//! Compares a file before and after a transaction, and detects changes from outside meanwhile. Runs
//! in the cell.

use super::{
    super::{keep::changed, spot::EntryLocation, stage::Stage},
    content::{self, ContentComparison, Digests},
};
use crate::tools::{failure, kind_name, refused, refused_io, shown};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    change::{Act, Conflict, Conflicts},
};
use palisade_workspace::EntryMetadata;
use rustix::{fs::FileType, io::Errno};
use std::{fs::File, os::fd::AsFd, os::unix::fs::FileExt as _};

/// A file of the upper layer, compared with the one that it replaces.
#[derive(Debug)]
pub(super) struct FileComparison {
    pub(super) digest: [u8; 32],
    /// The digest of the common beginning, if the file only got longer.
    pub(super) first: Option<[u8; 32]>,
    /// The digest of the appended bytes.
    pub(super) rest: Option<[u8; 32]>,
    pub(super) likeness: ContentComparison,
    /// The change of the extended attributes.
    pub(super) attributes: Attributes,
    /// True if the file has an access control list that only the same inode can keep.
    pub(super) bound_list: bool,
}

/// The difference between the extended attributes of two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attributes {
    Same,
    /// Some are new.
    Other,
    /// Some are missing, or have another value.
    Lost,
}

/// Reads a file of the upper layer and the one that it replaces, and adds the difference to the
/// diff.
pub(super) fn compare(
    stage: &mut Stage<'_>,
    spot: &EntryLocation,
    upper: (impl AsFd, &EntryMetadata),
    lower: Option<&EntryMetadata>,
) -> Result<FileComparison, FileError> {
    let path = spot.path();
    let (dir, seen) = upper;
    let new = content::open_file(dir, &spot.name, seen).map_err(|e| refused("read", &path, e))?;
    let old = match lower {
        Some(old) => {
            let open = spot.dir().and_then(|dir| content::open_file(&dir, &spot.name, old));
            match open {
                Ok(file) => Some(file),
                // It can be replaced all the same, if its content is not needed for the undo
                // record.
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
    let (attributes, bound_list) = match &old {
        Some(old) => same_attributes(&new, old).map_err(|e| refused("read", &path, e))?,
        None => (Attributes::Same, false),
    };
    // For a file that can not be read, equal size and time must do. Its content then stays as it
    // is.
    let untouched = lower.is_some_and(|old| (old.size, old.mtime) == (seen.size, seen.mtime));
    let likeness = if old.is_none() && untouched { ContentComparison::Same } else { likeness };
    if likeness != ContentComparison::Same {
        show(stage, &path, (&new, seen.size), other)?;
    }
    Ok(FileComparison { digest, first, rest, likeness, attributes, bound_list })
}

/// Returns the error for a file that can not be read to its end, because somebody has truncated it.
fn unreadable(path: &Path, error: &std::io::Error) -> FileError {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return changed(path);
    }
    refused_io("read", path, error)
}

/// Compares the attributes of two files. The second value is true if the second file has an access
/// control list that only the same inode can keep.
fn same_attributes(one: &File, other: &File) -> Result<(Attributes, bool), Errno> {
    let (new, old) = (content::attributes(one)?, content::attributes(other)?);
    let bound_list = old.iter().any(content::names_others);
    let [new, old] = [new, old].map(|all| all.into_iter().map(content::beside_mode));
    let (new, old): (Vec<_>, Vec<_>) = (new.collect(), old.collect());
    let is_kept = old.iter().all(|attribute| new.contains(attribute));
    let attributes = match (new == old, is_kept) {
        (true, _) => Attributes::Same,
        (false, true) => Attributes::Other,
        (false, false) => Attributes::Lost,
    };
    Ok((attributes, bound_list))
}

/// Adds the difference to the diff, if both files are small enough to be read for that.
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

/// Refuses a path that was changed from outside while the program ran, or reports it as a conflict.
pub(super) fn contested(
    stage: &mut Stage<'_>,
    path: &Path,
    old: Option<&EntryMetadata>,
    new: Option<&EntryMetadata>,
) -> Result<(), FileError> {
    let what = |seen: &EntryMetadata| match seen.kind() {
        FileType::RegularFile => format!("a file of {} bytes", seen.size),
        kind @ (FileType::Directory
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown) => kind_name(kind).to_owned(),
    };
    let words = |seen: Option<&EntryMetadata>| seen.map_or_else(|| "nothing".to_owned(), what);
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
