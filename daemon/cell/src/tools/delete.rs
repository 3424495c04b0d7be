//! `delete_file` in the cell: removes an entry, or a tree without following a link, leaving its
//! mount, or holding more than a few descriptors however deep it is.

use super::{Reach, checked, failure, invalid, kind_name, open, open_with, refused, shown, split};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind, FileReply},
};
use rustix::{
    fs::{AtFlags, CWD, FileType, OFlags, RawDir, ResolveFlags, SeekFrom, Stat},
    io::Errno,
};
use std::os::fd::OwnedFd;

/// The deepest tree, which bounds memory.
const DEEPEST: usize = 65_536;

/// The most bytes of names that wait for their turn; then they are read again, one at a time.
const MOST_WAITING: usize = 4 * 1024 * 1024;

/// How often directories may turn out to have been filled again.
const MOST_REFILLS: u32 = 1000;

/// The most entries, so that somebody who keeps making them does not keep this busy for ever.
const MOST_ENTRIES: u64 = 10_000_000;

const BUFFER: usize = 32 * 1024;

/// Removes what the path names; a link itself, not its target. The workspace, and what it is in,
/// is never removed.
///
/// A tree is removed from below. If that fails half-way, the message says how much is gone.
pub(crate) fn delete(
    path: &Path,
    reach: Reach,
    workspace: &std::path::Path,
) -> Result<FileReply, FileError> {
    let bytes = checked(path)?;
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let (parent, name) = split(&bytes[..end]);
    if matches!(name, b"" | b"." | b"..") {
        return Err(invalid(path, "its last part does not name an entry of a directory"));
    }
    if workspace.starts_with(path.as_path()) {
        return Err(holds_workspace(path));
    }
    let parent = open(CWD, parent, OFlags::PATH | OFlags::DIRECTORY)
        .map_err(|e| refused("open the directory of", path, e))?;
    let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|e| refused("delete", path, e))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::Directory {
        if end != bytes.len() {
            let problem = format!("it ends in a slash, and is {}", kind_name(kind));
            return Err(invalid(path, &problem));
        }
        rustix::fs::unlinkat(&parent, name, AtFlags::empty())
            .map_err(|e| refused("delete", path, e))?;
        return Ok(FileReply::Deleted { entries: 1 });
    }
    // By inode: another way to the same directory has another text.
    if workspace.ancestors().any(|above| is_at(above, &stat)) {
        return Err(holds_workspace(path));
    }
    match reach {
        Reach::One => {
            let message =
                format!("{} is a directory: set recursive to delete it whole", shown(path));
            Err(failure(FileErrorKind::NotRegular, Some(Errno::ISDIR), message))
        }
        Reach::Tree => {
            Tree::new(path, parent, name)?.remove().map(|entries| FileReply::Deleted { entries })
        }
    }
}

fn is_at(above: &std::path::Path, stat: &Stat) -> bool {
    rustix::fs::stat(above).is_ok_and(|above| id(&above) == id(stat))
}

const fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn holds_workspace(path: &Path) -> FileError {
    invalid(path, "it is the workspace, or holds it, and that is never deleted")
}

/// A directory on the way from the top of the tree to where the work is.
struct Level {
    name: Vec<u8>,
    id: (u64, u64),
    /// Directories in it that are still to be removed.
    waiting: Vec<Vec<u8>>,
}

struct Tree<'a> {
    path: &'a Path,
    /// The directory that the tree is in.
    above: OwnedFd,
    /// The directory of the last level.
    here: OwnedFd,
    levels: Vec<Level>,
    waiting: usize,
    refills: u32,
    gone: u64,
}

/// What came of looking at a directory's entries.
enum Swept {
    /// Directories are waiting.
    Waiting,
    /// There is nothing left in it.
    Empty,
}

impl<'a> Tree<'a> {
    fn new(path: &'a Path, above: OwnedFd, name: &[u8]) -> Result<Self, FileError> {
        let (here, id) = enter(&above, name).map_err(|e| refused("delete", path, e))?;
        let levels = vec![Level { name: name.to_vec(), id, waiting: Vec::new() }];
        Ok(Self { path, above, here, levels, waiting: 0, refills: 0, gone: 0 })
    }

    fn remove(mut self) -> Result<u64, FileError> {
        let mut buffer = Vec::with_capacity(BUFFER);
        while let Some(level) = self.levels.last_mut() {
            if let Some(name) = level.waiting.pop() {
                self.waiting -= name.len();
                self.descend(name)?;
                continue;
            }
            match self.sweep(&mut buffer)? {
                Swept::Waiting => {}
                Swept::Empty => self.ascend()?,
            }
        }
        Ok(self.gone)
    }

    /// Removes entries that are no directories, up to a batch of directories that then wait.
    fn sweep(&mut self, buffer: &mut Vec<u8>) -> Result<Swept, FileError> {
        let mut batch = Vec::new();
        let mut bytes = self.waiting;
        let mut entries = RawDir::new(&self.here, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|e| self.half_way("read a directory of", e))?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let directory = entry.file_type() == FileType::Directory
                || match rustix::fs::unlinkat(&self.here, name, AtFlags::empty()) {
                    Ok(()) => {
                        self.gone += 1;
                        false
                    }
                    Err(Errno::NOENT) => false,
                    Err(Errno::ISDIR) => true,
                    Err(error) => return Err(self.half_way("delete all of", error)),
                };
            if directory {
                bytes += name.len();
                batch.push(name.to_vec());
            }
            if self.gone > MOST_ENTRIES {
                return Err(self.given_up(FileErrorKind::TooLarge, "it has too many entries"));
            }
            // The rest is read again when these are gone.
            if !batch.is_empty() && (entries.is_buffer_empty() || bytes > MOST_WAITING) {
                break;
            }
        }
        let Some(level) = self.levels.last_mut().filter(|_| !batch.is_empty()) else {
            return Ok(Swept::Empty);
        };
        level.waiting = batch;
        self.waiting = bytes;
        Ok(Swept::Waiting)
    }

    fn descend(&mut self, name: Vec<u8>) -> Result<(), FileError> {
        if self.levels.len() == DEEPEST {
            return Err(self.given_up(FileErrorKind::TooLarge, "it is too deep"));
        }
        match enter(&self.here, &name) {
            Ok((here, id)) => {
                self.here = here;
                self.levels.push(Level { name, id, waiting: Vec::new() });
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            // It was a directory, and is a link or a file now.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                match rustix::fs::unlinkat(&self.here, &name, AtFlags::empty()) {
                    Ok(()) => self.gone += 1,
                    Err(Errno::NOENT) => {}
                    Err(error) => return Err(self.half_way("delete all of", error)),
                }
                Ok(())
            }
            Err(error) => Err(self.half_way("enter a directory of", error)),
        }
    }

    /// Goes up, and removes the directory that was left.
    fn ascend(&mut self) -> Result<(), FileError> {
        let Some(level) = self.levels.pop() else { return Ok(()) };
        if let Some(upper) = self.levels.last() {
            let (here, id) = enter(&self.here, b"..").map_err(|e| self.half_way("leave", e))?;
            if id != upper.id {
                let why = "a directory of it was moved meanwhile";
                return Err(self.given_up(FileErrorKind::FileSystem, why));
            }
            self.here = here;
        }
        let upper = if self.levels.is_empty() { &self.above } else { &self.here };
        match rustix::fs::unlinkat(upper, &level.name, AtFlags::REMOVEDIR) {
            Ok(()) => self.gone += 1,
            Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) if self.refills < MOST_REFILLS => {
                self.refills += 1;
                self.again(level)?;
            }
            Err(error) => return Err(self.half_way("delete a directory of", error)),
        }
        Ok(())
    }

    /// The directory has entries again.
    fn again(&mut self, level: Level) -> Result<(), FileError> {
        if let Some(upper) = self.levels.last_mut() {
            self.waiting += level.name.len();
            upper.waiting.push(level.name);
            return Ok(());
        }
        rustix::fs::seek(&self.here, SeekFrom::Start(0))
            .map_err(|e| self.half_way("read a directory of", e))?;
        self.levels.push(level);
        Ok(())
    }

    fn half_way(&self, act: &str, errno: Errno) -> FileError {
        self.with_account(refused(act, self.path, errno))
    }

    fn given_up(&self, kind: FileErrorKind, why: &str) -> FileError {
        let message = format!("can not delete all of {}: {why}", shown(self.path));
        self.with_account(failure(kind, None, message))
    }

    /// What a failure usually means, that nothing was changed, may not be so here.
    fn with_account(&self, mut error: FileError) -> FileError {
        error.message += &match self.gone {
            0 => ". Nothing was deleted".to_owned(),
            gone => format!(". It was changed: {gone} entries of it are gone already"),
        };
        error
    }
}

/// Opens a directory of a directory, or the one above: never through a link, never to another
/// mount.
fn enter(from: &OwnedFd, name: &[u8]) -> Result<(OwnedFd, (u64, u64)), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let dir = open_with(from, name, flags, ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS)?;
    let stat = rustix::fs::fstat(&dir)?;
    Ok((dir, id(&stat)))
}
