//! Opens files below a repository's directory. It follows no symbolic link, does not leave the
//! directory or its mount, and opens only regular files.

use crate::RepositoryError;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The number of times that a lookup is repeated if a rename elsewhere disturbed it.
const RETRIES: usize = 16;

/// A directory of the repository.
#[derive(Debug)]
pub(crate) struct GitDirectory {
    fd: OwnedFd,
}

/// The type of an entry in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryType {
    File,
    Directory,
    Other,
}

/// Identifies an unchanged file in two views of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    inode: u64,
    pub(crate) size: u64,
    modified: (i64, i128),
    changed: (i64, i128),
}

impl GitDirectory {
    pub(crate) fn open(path: &Path) -> Result<Self, RepositoryError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|error| RepositoryError::io(b".", error))?;
        Ok(GitDirectory { fd })
    }

    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        GitDirectory { fd }
    }

    fn lookup(&self, path: &[u8], flags: OFlags) -> Result<Option<OwnedFd>, RepositoryError> {
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let flags = flags | OFlags::CLOEXEC;
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(&self.fd, path, flags, Mode::empty(), resolve) {
                Ok(fd) => return Ok(Some(fd)),
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
                Err(Errno::AGAIN | Errno::INTR) if tries < RETRIES => tries += 1,
                Err(error) => return Err(RepositoryError::io(path, error)),
            }
        }
    }

    /// Opens a directory below this one.
    pub(crate) fn directory(&self, path: &[u8]) -> Result<Option<Self>, RepositoryError> {
        let fd = self.lookup(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(fd.map(|fd| GitDirectory { fd }))
    }

    /// Opens a regular file below this directory.
    pub(crate) fn file(&self, path: &[u8]) -> Result<Option<File>, RepositoryError> {
        let Some(fd) = self.lookup(path, OFlags::RDONLY | OFlags::NONBLOCK)? else {
            return Ok(None);
        };
        let file = File::from(fd);
        let metadata = file.metadata().map_err(|error| RepositoryError::io(path, error))?;
        if !metadata.is_file() {
            return Err(RepositoryError::malformed(path, "not a regular file"));
        }
        Ok(Some(file))
    }

    /// Reads a whole regular file of at most `limit` bytes.
    pub(crate) fn read(&self, path: &[u8], limit: u64) -> Result<Option<Vec<u8>>, RepositoryError> {
        let Some(file) = self.file(path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let most = limit.saturating_add(1);
        file.take(most)
            .read_to_end(&mut bytes)
            .map_err(|error| RepositoryError::io(path, error))?;
        if bytes.len() as u64 > limit {
            return Err(RepositoryError::bound("bytes of a file", limit));
        }
        Ok(Some(bytes))
    }

    /// Lists the names in a directory below this one, unsorted; empty if it does not exist.
    pub(crate) fn names(
        &self,
        path: &[u8],
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, EntryType)>, RepositoryError> {
        let failed = |error: Errno| RepositoryError::io(path, error);
        let Some(fd) = self.lookup(path, OFlags::RDONLY | OFlags::DIRECTORY)? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if name.to_bytes() == b"." || name.to_bytes() == b".." {
                continue;
            }
            let mut file_type = entry.file_type();
            if file_type == FileType::Unknown {
                let stat = rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW);
                file_type = FileType::from_raw_mode(stat.map_err(failed)?.st_mode);
            }
            if names.len() >= limit {
                return Err(RepositoryError::bound("names in a directory", limit));
            }
            names.push((name.to_bytes().to_vec(), entry_type(file_type)));
        }
        Ok(names)
    }

    /// Returns `true` if a path below this directory is a symbolic link, or leads through one.
    pub(crate) fn is_link(&self, path: &[u8]) -> Result<bool, RepositoryError> {
        match self.lookup(path, OFlags::PATH) {
            Ok(_) => Ok(false),
            Err(RepositoryError::Io { source, .. })
                if source.raw_os_error() == Some(Errno::LOOP.raw_os_error()) =>
            {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the identity of a regular file below this directory.
    pub(crate) fn identity(&self, path: &[u8]) -> Result<Option<FileIdentity>, RepositoryError> {
        let stat = if path.contains(&b'/') {
            match self.lookup(path, OFlags::PATH)? {
                Some(fd) => rustix::fs::fstat(fd),
                None => return Ok(None),
            }
        } else {
            rustix::fs::statat(&self.fd, path, AtFlags::SYMLINK_NOFOLLOW)
        };
        let stat = match stat {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(RepositoryError::io(path, error)),
        };
        Ok(FileType::from_raw_mode(stat.st_mode).is_file().then(|| FileIdentity {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(u64::MAX),
            modified: (stat.st_mtime, stat.st_mtime_nsec.into()),
            changed: (stat.st_ctime, stat.st_ctime_nsec.into()),
        }))
    }
}

fn entry_type(file_type: FileType) -> EntryType {
    if file_type.is_file() {
        EntryType::File
    } else if file_type.is_dir() {
        EntryType::Directory
    } else {
        EntryType::Other
    }
}

/// Returns `true` if two files have the same bytes. Reads both to their end.
pub(crate) fn same_bytes(mut one: File, mut other: File) -> io::Result<bool> {
    const CHUNK: usize = 64 << 10;
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let (read, also) = (fill(&mut one, &mut left)?, fill(&mut other, &mut right)?);
        if left.get(..read) != right.get(..also) {
            return Ok(false);
        }
        if read < CHUNK {
            return Ok(true);
        }
    }
}

fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
