//! Finds where a file is to be put: the real directory and name, through symbolic links, with
//! missing directories made, and unmade again if nothing comes of it. Room: the cell.

use super::{checked, failure, invalid, not_regular, open, open_with, refused, shown, split};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind, WriteMode},
};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use std::os::fd::OwnedFd;

/// How many links may stand in for a file, one behind the other.
const MOST_LINKS: usize = 8;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// Where a file is to be put.
#[derive(Debug)]
pub(super) struct Place {
    /// The directory.
    pub(super) dir: OwnedFd,
    /// The name in it.
    pub(super) name: Vec<u8>,
    /// The regular file that is there now.
    pub(super) existing: Option<Stat>,
    /// The directories that were missing.
    pub(super) made: Made,
}

impl Place {
    /// Looks for the place. A link at the end of the path is followed, so that it stays a link
    /// and its target is what is written; not with `Create`, which refuses whatever is there.
    pub(super) fn find(path: &Path, mode: WriteMode) -> Result<Self, FileError> {
        let (parent, name) = split(checked(path)?);
        if matches!(name, b"" | b"." | b"..") {
            return Err(invalid(path, "it names a directory"));
        }
        let (mut dir, made) = make_parents(path, parent)?;
        let mut name = name.to_vec();
        for _link in 0..=MOST_LINKS {
            let stat = match rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => return Ok(Self { dir, name, existing: None, made }),
                Err(error) => return Err(refused("look at", path, error)),
            };
            if mode == WriteMode::Create {
                return Err(exists(path));
            }
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    return Ok(Self { dir, name, existing: Some(stat), made });
                }
                FileType::Symlink => (dir, name) = behind(path, &dir, &name)?,
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
}

/// The error of `Create` where something is.
pub(super) fn exists(path: &Path) -> FileError {
    let message = format!("{} exists, and mode create does not replace it", shown(path));
    failure(FileErrorKind::AlreadyExists, Some(Errno::EXIST), message)
}

/// Where the link `name` in `dir` points.
fn behind(path: &Path, dir: &OwnedFd, name: &[u8]) -> Result<(OwnedFd, Vec<u8>), FileError> {
    // The text of a magic link is not where it leads, so the kernel has to say that it is none.
    match open(dir, name, OFlags::PATH) {
        Ok(_) | Err(Errno::NOENT) => {}
        Err(error) => return Err(refused("follow the link", path, error)),
    }
    let text = rustix::fs::readlinkat(dir, name, Vec::new())
        .map_err(|e| refused("read the link", path, e))?;
    let (parent, name) = split(text.as_bytes());
    if matches!(name, b"" | b"." | b"..") {
        return Err(not_regular(path, FileType::Directory, ": it is a link to one"));
    }
    let parent = open(dir, parent, DIRECTORY).map_err(|e| refused("follow the link", path, e))?;
    Ok((parent, name.to_vec()))
}

/// Opens the directory `parent` of `path`, making what is missing of it.
fn make_parents(path: &Path, parent: &[u8]) -> Result<(OwnedFd, Made), FileError> {
    let refuse = |error| refused("open the directory of", path, error);
    match open(CWD, parent, DIRECTORY) {
        Ok(dir) => return Ok((dir, Made::none())),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(refuse(error)),
    }
    let mut there = parent;
    let mut missing = Vec::new();
    let base = loop {
        let (upper, name) = split(there);
        if matches!(name, b"." | b"..") {
            return Err(refuse(Errno::NOENT));
        }
        if !name.is_empty() {
            missing.push(name);
        }
        there = upper;
        match open(CWD, there, DIRECTORY) {
            Ok(dir) => break dir,
            Err(Errno::NOENT) if there != b"/" => {}
            Err(error) => return Err(refuse(error)),
        }
    };
    let mut dir = open(&base, b".", DIRECTORY).map_err(refuse)?;
    let mut made = Made { base: Some(base), names: Vec::new(), first_made: missing.len() };
    for name in missing.into_iter().rev() {
        let refuse = |error| refused("make the directory of", path, error);
        match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => made.first_made = made.first_made.min(made.names.len()),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(refuse(error)),
        }
        made.names.push(name.to_vec());
        // Not through a link that came in between: what is made is beneath what was there.
        dir = open(&dir, name, DIRECTORY | OFlags::NOFOLLOW).map_err(refuse)?;
    }
    Ok((dir, made))
}

/// Directories that were made for a file. They go again, as far as they are empty, if it is not
/// put there.
#[derive(Debug)]
pub(super) struct Made {
    base: Option<OwnedFd>,
    names: Vec<Vec<u8>>,
    first_made: usize,
}

impl Made {
    const fn none() -> Self {
        Self { base: None, names: Vec::new(), first_made: 0 }
    }

    /// The file is there: the directories stay.
    pub(super) fn keep(&mut self) {
        self.base = None;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let Some(base) = &self.base else { return };
        while self.names.len() > self.first_made {
            let Some(name) = self.names.pop() else { return };
            let mut upper = b"./".to_vec();
            upper.extend(self.names.join(&b'/'));
            let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let gone = open_with(base, &upper, DIRECTORY, way)
                .and_then(|upper| rustix::fs::unlinkat(upper, &name, AtFlags::REMOVEDIR));
            // Somebody else uses it already, or moved it: then it is theirs.
            if gone.is_err() {
                return;
            }
        }
    }
}
