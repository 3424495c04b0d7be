//! From a path to the spot that a tool means by it. Room: the cell.

use super::{
    keep::{changed, unread_link},
    names::is_ours,
    seen::Seen,
    spot::{Dir, Spot, Way},
    stage::{Node, Stage},
};
use crate::tools::{checked, failure, invalid, not_regular, open, refused, shown, split};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
};
use rustix::{
    fs::{Access, AtFlags, FileType, OFlags},
    io::Errno,
};
use std::{fs::File, io::Read as _};

/// How many links may stand in for a file, one behind the other.
const MOST_LINKS: usize = 8;

/// What a link at the end of a path stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// What it leads to.
    Followed,
    /// Itself.
    Itself,
}

/// The path without slashes at its end, and whether it had any.
pub(super) fn trimmed(path: &Path) -> Result<(Path, Slash), FileError> {
    let bytes = checked(path)?;
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let slash = if end == bytes.len() { Slash::None } else { Slash::AtEnd };
    Ok((Path(bytes.get(..end).unwrap_or_default().to_vec()), slash))
}

/// Whether a path ends in a slash, and so means a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slash {
    None,
    AtEnd,
}

/// Finds an entry of a directory.
pub(super) fn entry(stage: &mut Stage<'_>, path: &Path) -> Result<(Spot, Node), FileError> {
    if matches!(split(&path.0).1, b"" | b"." | b"..") {
        return Err(invalid(path, "its last part does not name an entry of a directory"));
    }
    let spot = stage.spot(path, Way::ThroughLinks)?;
    let node = stage.look(&spot)?;
    Ok((spot, node))
}

/// Finds where a file is, or is to be. What is there is a regular file or nothing; without
/// [`Last::Followed`] it may be anything.
pub(super) fn file(
    stage: &mut Stage<'_>,
    path: &Path,
    last: Last,
) -> Result<(Spot, Node), FileError> {
    if matches!(split(checked(path)?).1, b"" | b"." | b"..") {
        return Err(invalid(path, "it names a directory"));
    }
    let mut spot = stage.spot(path, Way::ThroughLinks)?;
    for _link in 0..=MOST_LINKS {
        let node = stage.look(&spot)?;
        let seen = match (node, last) {
            (Node::There(seen), Last::Followed) => seen,
            (Node::There(_) | Node::Absent | Node::Planned(_), _) => {
                refuse_ours(path, &spot)?;
                return Ok((spot, node));
            }
        };
        match seen.kind() {
            FileType::RegularFile => return Ok((spot, node)),
            FileType::Symlink => spot = behind(stage, path, &spot)?,
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

/// Names like our own are for what is put aside while a change is made.
pub(super) fn refuse_ours(path: &Path, spot: &Spot) -> Result<(), FileError> {
    if is_ours(&spot.name) {
        return Err(invalid(path, "names of this form are for files that are being written"));
    }
    Ok(())
}

/// Where the link at a spot points.
fn behind(stage: &mut Stage<'_>, path: &Path, spot: &Spot) -> Result<Spot, FileError> {
    let refuse = |error| refused("follow the link", path, error);
    let dir = spot.dir().map_err(refuse)?;
    // The text of a magic link is not where it leads, so the kernel has to say that it is none.
    match open(&dir, &spot.name, OFlags::PATH) {
        Ok(_) | Err(Errno::NOENT) => {}
        Err(error) => return Err(refuse(error)),
    }
    let text = spot.link().map_err(|e| unread_link(path, e))?;
    let (parent, name) = split(&text);
    if matches!(name, b"" | b"." | b"..") {
        return Err(not_regular(path, FileType::Directory, ": it is a link to one"));
    }
    let parent = Dir::at(&dir, parent, Way::ThroughLinks).map_err(refuse)?;
    Ok(Spot { base: stage.adopt(parent), way: Vec::new(), name: name.to_vec() })
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// To be read, and then replaced.
    Content,
    /// To be replaced.
    Replace,
}

/// Opens a file as if to write it: the kernel then says whether this process may. To replace a
/// file by a rename, it asks only about the directory.
pub(super) fn open_old(
    path: &Path,
    spot: &Spot,
    seen: &Seen,
    how: Use,
) -> Result<(File, Readable), FileError> {
    let (mut readable, mut old) = (Readable::Yes, spot.open(OFlags::RDWR));
    if old.as_ref().is_err_and(|error| *error == Errno::ACCESS) && how == Use::Replace {
        (readable, old) = (Readable::No, spot.open(OFlags::WRONLY));
    }
    let old = match old {
        // A program that runs: replacing it is no harm, its process keeps the old inode.
        Err(Errno::TXTBSY) => spot.open(OFlags::RDONLY),
        done => done,
    };
    let old = old.map_err(|e| refused("write", path, e))?;
    let stat = rustix::fs::fstat(&old).map_err(|e| refused("look at", path, e))?;
    if Seen::from(&stat) != *seen {
        return Err(changed(path));
    }
    Ok((old.into(), readable))
}

/// Whether a file can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readable {
    Yes,
    No,
}

/// All of a file of this size.
pub(super) fn read_all(path: &Path, mut file: &File, size: u64) -> Result<Vec<u8>, FileError> {
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.by_ref()
        .take(size + 1)
        .read_to_end(&mut content)
        .map_err(|e| crate::tools::refused_io("read", path, &e))?;
    if content.len() as u64 == size { Ok(content) } else { Err(changed(path)) }
}

/// The error for a file that would be larger than allowed.
pub(super) fn too_large(path: &Path, size: u64, most: u64) -> FileError {
    let message = format!(
        "{} would have {size} bytes or more, and {most} at most can be written: nothing was",
        shown(path)
    );
    failure(FileErrorKind::TooLarge, None, message)
}

/// Refuses now what the kernel would refuse then: who asks for approval should not ask in vain.
pub(super) fn may_change(path: &Path, act: &str, spot: &Spot) -> Result<(), FileError> {
    if !spot.way.is_empty() {
        return Ok(());
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(&spot.base, ".", access, AtFlags::EACCESS)
        .map_err(|e| refused(act, path, e))
}
