//! The file tools, one file each, and what they share: how a path is looked up, and what a
//! kernel's refusal is called. Room: the cell.
//!
//! The kernel is what keeps a tool inside the session: the process that runs this sees only the
//! session's mounts, and Landlock holds it to the session's rights. Here a path is handed to the
//! kernel whole, once, and never through a magic link of `/proc`.

mod change;
mod choose;
mod glob;
mod grep;
mod hits;
mod list;
mod look;
mod notebook;
mod read;
mod rules;
mod smallest;
mod walk;
mod watch;

pub(crate) use change::{change, remove_tree, settle, with_free_name};
pub(crate) use glob::glob;
pub(crate) use grep::grep;
pub(crate) use list::{Listing, list};
pub(crate) use look::{look, version};
pub(crate) use read::read;

use crate::channel::Channel;
use palisade_channel::ChannelError;
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    text,
};
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::os::fd::{AsFd, OwnedFd};

/// The longest path the kernel takes, without its NUL.
const LONGEST_PATH: usize = 4095;

/// The longest name in a directory.
const LONGEST_NAME: usize = 255;

/// Why a tool stopped before its answer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It could not be done; the channel is well.
    Failed(FileError),
    /// The channel is not to be used again.
    Broken(ChannelError),
    /// A message that has no place here; the channel is not to be used again.
    OutOfOrder(&'static str),
    /// The broker closed the channel.
    Closed,
    /// The broker does not want it any more; the channel is well.
    Abandoned,
}

impl From<FileError> for Stop {
    fn from(error: FileError) -> Self {
        Self::Failed(error)
    }
}

impl From<ChannelError> for Stop {
    fn from(error: ChannelError) -> Self {
        Self::Broken(error)
    }
}

/// How far down a tool goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The named entry or directory alone.
    One,
    /// All that is below it too.
    Tree,
}

impl Reach {
    /// From the request's field.
    pub(crate) const fn from_recursive(recursive: bool) -> Self {
        if recursive { Self::Tree } else { Self::One }
    }
}

/// Looks whether the broker gave a call up, while it has nothing else to say. That word is taken
/// when the call is over.
fn go_on(channel: &Channel) -> Result<(), Stop> {
    if channel.is_spoken_to() { Err(Stop::Abandoned) } else { Ok(()) }
}

/// The path's bytes, if it is one that can be looked up.
fn checked(path: &Path) -> Result<&[u8], FileError> {
    let bytes = path.0.as_slice();
    let problem = if bytes.is_empty() {
        "it is empty"
    } else if bytes.contains(&0) {
        "it has a NUL byte"
    } else if bytes[0] != b'/' {
        "it is not absolute"
    } else if bytes.len() > LONGEST_PATH {
        "it is longer than 4095 bytes"
    } else if bytes.split(|byte| *byte == b'/').any(|name| name.len() > LONGEST_NAME) {
        "a name in it is longer than 255 bytes"
    } else {
        return Ok(bytes);
    };
    Err(invalid(path, problem))
}

/// The directory part and the last name of a path. The directory of a bare name is `.`.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (b"/", &path[1..]),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b".", path),
    }
}

/// Opens what the path leads to, following symbolic links but none of `/proc`'s magic ones.
fn open(base: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    open_with(base, path, flags, ResolveFlags::NO_MAGICLINKS)
}

/// Opens as [`open`], with further rules for the way there.
pub(crate) fn open_with(
    base: impl AsFd,
    path: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let resolve = resolve | ResolveFlags::NO_MAGICLINKS;
    rustix::io::retry_on_intr(|| {
        rustix::fs::openat2(&base, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    })
}

fn failure(kind: FileErrorKind, errno: Option<Errno>, message: String) -> FileError {
    FileError { kind, errno: errno.map_or(0, Errno::raw_os_error), message, about: None }
}

fn invalid(path: &Path, problem: &str) -> FileError {
    failure(
        FileErrorKind::Invalid,
        None,
        format!("the path {} can not be used: {problem}", shown(path)),
    )
}

/// The error for something that is not a regular file.
fn not_regular(path: &Path, kind: FileType, hint: &str) -> FileError {
    let message = format!("{} is {}, not a regular file{hint}", shown(path), kind_name(kind));
    failure(FileErrorKind::NotRegular, None, message)
}

/// What a refusal of the kernel is called, and why it may have come.
fn refused(act: &str, path: &Path, errno: Errno) -> FileError {
    let (kind, why) = match errno {
        Errno::NOENT => (FileErrorKind::NotFound, "there is nothing of that name"),
        Errno::NOTDIR => (FileErrorKind::NotFound, "a part of the path is not a directory"),
        Errno::ACCESS | Errno::PERM => (
            FileErrorKind::OutsidePolicy,
            "the kernel refused it: the file's mode does not allow it, or it is outside what this \
             session may reach",
        ),
        Errno::XDEV => (
            FileErrorKind::OutsidePolicy,
            "the way there leaves what it may reach, or it is granted by itself: file tools put a new \
             file in place of the old one, which takes a grant of the directory",
        ),
        Errno::LOOP => (
            FileErrorKind::OutsidePolicy,
            "the way there has a magic link of /proc, or too many symbolic links",
        ),
        Errno::ROFS => (FileErrorKind::OutsidePolicy, "it is read-only in this session"),
        Errno::OVERFLOW => (
            FileErrorKind::OutsidePolicy,
            "it belongs to a user or group that this session, which has a uid of its own, has \
             nothing of",
        ),
        Errno::BUSY => (FileErrorKind::OutsidePolicy, "it is a mount point"),
        Errno::EXIST => (FileErrorKind::AlreadyExists, "it exists"),
        Errno::NAMETOOLONG => (FileErrorKind::Invalid, "a name or the path is too long"),
        Errno::ISDIR => (FileErrorKind::NotRegular, "it is a directory, not a regular file"),
        Errno::NXIO | Errno::NODEV => {
            (FileErrorKind::NotRegular, "it is a socket or a device, not a regular file")
        }
        Errno::FBIG => (FileErrorKind::TooLarge, "it would be larger than this session may write"),
        Errno::NOSPC | Errno::DQUOT => (FileErrorKind::FileSystem, "there is no space left"),
        _ => (FileErrorKind::FileSystem, "the file system answered with an error"),
    };
    let message = format!("can not {act} {}: {why} ({errno})", shown(path));
    failure(kind, Some(errno), message)
}

/// The same for an error of the standard library.
fn refused_io(act: &str, path: &Path, error: &std::io::Error) -> FileError {
    match Errno::from_io_error(error) {
        Some(errno) => refused(act, path, errno),
        None => {
            let message = format!("can not {act} {}: {error}", shown(path));
            failure(FileErrorKind::FileSystem, None, message)
        }
    }
}

const fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "of an unknown kind",
    }
}

/// A path for a message: whatever could move a terminal's cursor or turn text around is written out.
pub(crate) fn shown(path: &Path) -> String {
    let text = String::from_utf8_lossy(&path.0);
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if text::steers(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
