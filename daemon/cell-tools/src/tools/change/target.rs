//! Finds the spot that a tool means by a path. Runs in the cell.

use super::{
    keep::{changed, unread_link},
    names::is_ours,
    spot::{Dir, EntryLocation, LinkHandling},
    stage::{PlannedState, Stage},
};
use crate::tools::{checked, failure, invalid, not_regular, open, refused, shown, split};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
};
use palisade_workspace::EntryMetadata;
use rustix::{
    fs::{Access, AtFlags, FileType, OFlags},
    io::Errno,
};
use std::{fs::File, io::Read as _};

/// The maximum number of links that are followed at the end of a path.
const MOST_LINKS: usize = 8;

/// The meaning of a symbolic link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalLink {
    /// Its target.
    Followed,
    /// The link itself.
    Itself,
}

/// Returns the path without trailing slashes, and whether it had any.
pub(super) fn trimmed(path: &Path) -> Result<(Path, Slash), FileError> {
    let bytes = checked(path)?;
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let slash = if end == bytes.len() { Slash::None } else { Slash::AtEnd };
    Ok((Path(bytes.get(..end).unwrap_or_default().to_vec()), slash))
}

/// The slash at the end of a path, which makes it mean a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slash {
    None,
    AtEnd,
}

/// Finds a directory entry, without following a link at the end of the path.
pub(super) fn entry(
    stage: &mut Stage<'_>,
    path: &Path,
) -> Result<(EntryLocation, PlannedState), FileError> {
    if matches!(split(&path.0).1, b"" | b"." | b"..") {
        return Err(invalid(path, "its last part does not name an entry of a directory"));
    }
    let spot = stage.spot(path, LinkHandling::ThroughLinks)?;
    let node = stage.look(&spot)?;
    Ok((spot, node))
}

/// Finds where a file is, or is to be. With [`FinalLink::Followed`] the entry is a regular file or
/// missing; otherwise it may be anything.
pub(super) fn file(
    stage: &mut Stage<'_>,
    path: &Path,
    last: FinalLink,
) -> Result<(EntryLocation, PlannedState), FileError> {
    if matches!(split(checked(path)?).1, b"" | b"." | b"..") {
        return Err(invalid(path, "it names a directory"));
    }
    let mut spot = stage.spot(path, LinkHandling::ThroughLinks)?;
    for _link in 0..=MOST_LINKS {
        let node = stage.look(&spot)?;
        let seen = match (node, last) {
            (PlannedState::There(seen), FinalLink::Followed) => seen,
            (PlannedState::There(_) | PlannedState::Absent | PlannedState::Planned(_), _) => {
                refuse_ours(path, &spot)?;
                return Ok((spot, node));
            }
        };
        match seen.kind() {
            FileType::RegularFile => return Ok((spot, node)),
            FileType::Symlink => spot = follow_link(stage, path, &spot)?,
            kind @ (FileType::Directory
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown) => return Err(not_regular(path, kind, "")),
        }
    }
    Err(refused("follow the links of", path, Errno::LOOP))
}

/// Refuses names of the form that temporary files have during a change.
pub(super) fn refuse_ours(path: &Path, spot: &EntryLocation) -> Result<(), FileError> {
    if is_ours(&spot.name) {
        return Err(invalid(
            path,
            "names of this form are reserved for files that are being written",
        ));
    }
    Ok(())
}

/// Returns the spot that the link at a spot points to.
fn follow_link(
    stage: &mut Stage<'_>,
    path: &Path,
    spot: &EntryLocation,
) -> Result<EntryLocation, FileError> {
    let refuse = |error| refused("follow the link", path, error);
    let dir = spot.dir().map_err(refuse)?;
    // The text of a magic link is not where it leads, so the kernel must first say that this is
    // none.
    match open(&dir, &spot.name, OFlags::PATH) {
        Ok(_) | Err(Errno::NOENT) => {}
        Err(error) => return Err(refuse(error)),
    }
    let text = spot.link().map_err(|e| unread_link(path, e))?;
    let (parent, name) = split(&text);
    if matches!(name, b"" | b"." | b"..") {
        return Err(not_regular(path, FileType::Directory, ": it is a link to one"));
    }
    let parent = Dir::at(&dir, parent, LinkHandling::ThroughLinks).map_err(refuse)?;
    Ok(EntryLocation { base: stage.adopt(parent), way: Vec::new(), name: name.to_vec() })
}

/// The purpose for which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilePurpose {
    /// It is read, and then replaced.
    Content,
    /// It is replaced.
    Replace,
}

/// Opens a file for writing, so that the kernel checks whether this process may write it. A rename
/// over it would check only the directory.
pub(super) fn open_old(
    path: &Path,
    spot: &EntryLocation,
    seen: &EntryMetadata,
    how: FilePurpose,
) -> Result<(File, Readable), FileError> {
    let (mut readable, mut old) = (Readable::Yes, spot.open(OFlags::RDWR));
    if old.as_ref().is_err_and(|error| *error == Errno::ACCESS) && how == FilePurpose::Replace {
        (readable, old) = (Readable::No, spot.open(OFlags::WRONLY));
    }
    let old = match old {
        // The file is a running program. Replacing it does no harm, since its process keeps the old
        // inode.
        Err(Errno::TXTBSY) => spot.open(OFlags::RDONLY),
        done => done,
    };
    let old = old.map_err(|e| {
        crate::tools::not_opened("write", path, e, crate::tools::NeededMode::ReadAndWrite)
    })?;
    let stat = rustix::fs::fstat(&old).map_err(|e| refused("look at", path, e))?;
    if EntryMetadata::from(&stat) != *seen {
        return Err(changed(path));
    }
    Ok((old.into(), readable))
}

/// The readability of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readable {
    Yes,
    No,
}

/// Reads a whole file, which must have this size.
pub(super) fn read_all(path: &Path, mut file: &File, size: u64) -> Result<Vec<u8>, FileError> {
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.by_ref()
        .take(size + 1)
        .read_to_end(&mut content)
        .map_err(|e| crate::tools::refused_io("read", path, &e))?;
    if content.len() as u64 == size { Ok(content) } else { Err(changed(path)) }
}

/// Returns the error for a file that would be larger than allowed.
pub(super) fn too_large(path: &Path, size: u64, most: u64) -> FileError {
    let message = format!(
        "{} would have {size} bytes or more, and at most {most} can be written: nothing was \
         changed",
        shown(path)
    );
    failure(FileErrorKind::TooLarge, None, message)
}

/// Refuses now what the kernel would deny later, so that nobody is asked to approve a change that
/// must fail.
pub(super) fn may_change(path: &Path, act: &str, spot: &EntryLocation) -> Result<(), FileError> {
    if !spot.way.is_empty() {
        return Ok(());
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(&spot.base, ".", access, AtFlags::EACCESS)
        .map_err(|e| refused(act, path, e))
}
