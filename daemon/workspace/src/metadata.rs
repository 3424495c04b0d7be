//! The metadata of a directory entry, enough to tell later whether it is still the same. Runs in
//! the cell.

use crate::ChangeTime;
use palisade_plan::change::{InodeState, Print, State, Version};
use rustix::{
    fs::{AtFlags, FileType, Stat, Statx},
    io::Errno,
};
use std::os::fd::AsFd;

/// The metadata of an entry when it was examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryMetadata {
    /// The device of its file system.
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
    /// The file type and permission bits.
    raw_mode: u32,
    /// The user and the group that it belongs to.
    pub owner: (u32, u32),
    /// The size in bytes.
    pub size: u64,
    /// The time of the last modification.
    pub mtime: (i64, u32),
    ctime: ChangeTime,
}

impl From<&Stat> for EntryMetadata {
    fn from(stat: &Stat) -> Self {
        let version = version(stat);
        Self {
            dev: version.dev,
            ino: version.ino,
            raw_mode: stat.st_mode,
            owner: (stat.st_uid, stat.st_gid),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: modified(stat),
            ctime: version.ctime,
        }
    }
}

impl From<&Statx> for EntryMetadata {
    fn from(stat: &Statx) -> Self {
        Self {
            dev: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            ino: stat.stx_ino,
            raw_mode: u32::from(stat.stx_mode),
            owner: (stat.stx_uid, stat.stx_gid),
            size: stat.stx_size,
            mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        }
    }
}

impl EntryMetadata {
    /// Returns the file type.
    #[must_use]
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.raw_mode)
    }

    /// Returns the permission bits, without set-uid, set-gid and sticky, which no session sets.
    #[must_use]
    pub const fn mode(&self) -> u32 {
        self.raw_mode & 0o777
    }

    /// Returns a copy with other permission bits.
    #[must_use]
    pub const fn with_mode(self, mode: u32) -> Self {
        Self { raw_mode: (self.raw_mode & !0o7777) | mode, ..self }
    }

    /// Returns the device and inode number.
    #[must_use]
    pub const fn id(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }

    /// Returns the version of the file: device, inode and ctime.
    #[must_use]
    pub const fn version(&self) -> Version {
        Version { dev: self.dev, ino: self.ino, ctime: self.ctime }
    }

    /// Returns `true` if the entry may have changed since `time`.
    #[must_use]
    pub fn changed_since(&self, time: ChangeTime) -> bool {
        // A file system that stores whole seconds can not tell within one second.
        if self.ctime.1 == 0 { self.ctime.0 >= time.0 } else { self.ctime >= time }
    }

    /// Returns `true` if `now` is the same entry with the same content. Only the ctime may differ,
    /// because a rename changes it.
    #[must_use]
    pub fn is_moved(&self, now: &Self) -> bool {
        Self { ctime: now.ctime, ..*self } == *now
    }

    /// Returns the size of a regular file; 0 for anything else.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        if self.kind() == FileType::RegularFile { self.size } else { 0 }
    }

    /// Returns the state for an undo record. A file's content is sent separately.
    #[must_use]
    pub fn state(&self, target: impl FnOnce() -> Vec<u8>) -> State {
        match self.kind() {
            FileType::RegularFile => {
                State::File { mode: self.mode(), size: self.size, mtime: self.mtime }
            }
            FileType::Directory => State::Directory { mode: self.mode() },
            FileType::Symlink => State::Symlink { target: palisade_plan::Path(target()) },
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => State::Other,
        }
    }

    /// Returns what must be restored if the entry stays the same file.
    #[must_use]
    pub const fn inode_state(&self) -> InodeState {
        InodeState { mode: self.mode(), size: self.size, mtime: self.mtime }
    }

    /// Returns `true` if the entry's owner has no permission to read it.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.raw_mode & 0o400 == 0
    }

    /// Returns a print that does not depend on the content.
    #[must_use]
    pub const fn node(&self) -> Print {
        Print::Node { dev: self.dev, ino: self.ino, size: self.size, mtime: self.mtime }
    }

    /// Returns all of it as bytes, for a digest.
    #[must_use]
    pub fn bytes(&self) -> [u8; 56] {
        let mut bytes = [0; 56];
        let parts = [
            self.dev,
            self.ino,
            u64::from(self.raw_mode) << 32 | u64::from(self.mtime.1),
            u64::from(self.ctime.1),
            self.size,
            self.mtime.0.cast_unsigned(),
            self.ctime.0.cast_unsigned(),
        ];
        for (to, part) in bytes.chunks_exact_mut(8).zip(parts) {
            to.copy_from_slice(&part.to_le_bytes());
        }
        bytes
    }
}

/// Returns the metadata of a name in a directory, without following a link; `None` if it is
/// missing.
///
/// # Errors
/// The kernel's error.
pub fn look(dir: impl AsFd, name: &[u8]) -> Result<Option<EntryMetadata>, Errno> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(EntryMetadata::from(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the version of a file: device, inode and ctime.
#[must_use]
pub fn version(stat: &Stat) -> Version {
    let ctime = seconds_and_nanoseconds(stat.st_ctime, stat.st_ctime_nsec);
    Version { dev: stat.st_dev, ino: stat.st_ino, ctime }
}

/// Returns the modification time of a file.
#[must_use]
pub fn modified(stat: &Stat) -> (i64, u32) {
    seconds_and_nanoseconds(stat.st_mtime, stat.st_mtime_nsec)
}

fn seconds_and_nanoseconds<S: Into<i64>, N: TryInto<u32>>(
    seconds: S,
    nanoseconds: N,
) -> (i64, u32) {
    (seconds.into(), nanoseconds.try_into().unwrap_or(0))
}
