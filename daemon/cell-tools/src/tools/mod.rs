//! The file tools, one file each, and what they share: path lookup, and the errors for what the
//! kernel denies. Runs in the cell.
//!
//! The kernel keeps a tool inside the session: the process that runs this sees only the session's
//! mounts, and Landlock limits it to the session's rights. A path is passed to the kernel whole,
//! once, and never through a magic link of `/proc`.

mod change;
mod choose;
mod glob;
mod grep;
mod hits;
mod list;
mod look;
mod noise;
mod notebook;
mod read;
mod rules;
mod smallest;
mod walk;
mod watch;

pub(crate) use change::{change, settle, with_free_name};
pub(crate) use glob::glob;
pub(crate) use grep::grep;
pub(crate) use list::{Listing, list};
pub(crate) use look::look;
pub(crate) use noise::noise;
pub(crate) use palisade_workspace::{open_with, shown};
pub(crate) use read::read;

use palisade_channel::{Channel, ChannelError};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
};
use rustix::{
    fs::{CWD, FileType, OFlags, PROC_SUPER_MAGIC, ResolveFlags},
    io::Errno,
};
use std::os::fd::{AsFd, OwnedFd};

/// The maximum length of a path that the kernel accepts, without its NUL.
const LONGEST_PATH: usize = 4095;

/// The maximum length of a name in a directory.
const LONGEST_NAME: usize = 255;

/// The reason why a tool stopped before its reply.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The call failed; the channel can still be used.
    Failed(FileError),
    /// The channel can not be used any more.
    Broken(ChannelError),
    /// A message came that is not allowed here; the channel can not be used any more.
    OutOfOrder(&'static str),
    /// The broker closed the channel.
    Closed,
    /// The broker abandoned the call; the channel can still be used.
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

/// The depth to which a tool goes down a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkDepth {
    /// The named entry or directory alone.
    One,
    /// Everything below it too.
    Tree,
}

impl WalkDepth {
    /// Converts the request's `recursive` field.
    pub(crate) const fn from_recursive(recursive: bool) -> Self {
        if recursive { Self::Tree } else { Self::One }
    }
}

/// Fails if the broker has sent something, which during a call can only be `Abandon`. That message
/// is received after the call.
fn go_on(channel: &Channel) -> Result<(), Stop> {
    if channel.has_pending_input() { Err(Stop::Abandoned) } else { Ok(()) }
}

/// Returns the path's bytes, if the path can be looked up.
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

/// Returns the directory part and the last name of a path. The directory of a bare name is `.`.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (b"/", &path[1..]),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b".", path),
    }
}

/// Opens a path. Symbolic links are followed, except the magic ones of `/proc`.
fn open(base: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    about_no_process(open_with(base, path, flags, ResolveFlags::NO_MAGICLINKS)?)
}

/// Refuses what `/proc` says about a process, with `ESRCH`. The only process that a tool could look
/// at is the one that runs it: where its memory is, and which programs of the host it is made of.
fn about_no_process(opened: OwnedFd) -> Result<OwnedFd, Errno> {
    if rustix::fs::fstatfs(&opened)?.f_type != PROC_SUPER_MAGIC {
        return Ok(opened);
    }
    let real = look::real(&opened).ok_or(Errno::SRCH)?;
    let name = real.0.strip_prefix(b"/proc/").and_then(|below| below.first());
    if name.is_some_and(u8::is_ascii_digit) { Err(Errno::SRCH) } else { Ok(opened) }
}

fn failure(kind: FileErrorKind, errno: Option<Errno>, message: String) -> FileError {
    FileError {
        kind,
        errno: errno.map_or(0, Errno::raw_os_error),
        message,
        about: None,
        diff: None,
    }
}

fn invalid(path: &Path, problem: &str) -> FileError {
    failure(
        FileErrorKind::Invalid,
        None,
        format!("the path {} can not be used: {problem}", shown(path)),
    )
}

/// Returns the error for an entry that is not a regular file.
fn not_regular(path: &Path, kind: FileType, hint: &str) -> FileError {
    let message = format!("{} is {}, not a regular file{hint}", shown(path), kind_name(kind));
    failure(FileErrorKind::NotRegular, None, message)
}

/// The bits of a mode's digit that a tool needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NeededMode {
    Read = 0o4,
    ReadAndWrite = 0o6,
}

/// Returns the error for a file or directory that could not be opened. A mode that forbids it is
/// told apart from the session's limits.
fn not_opened(act: &str, path: &Path, errno: Errno, needed: NeededMode) -> FileError {
    if errno != Errno::ACCESS || !is_forbidden_by_mode(path, needed) {
        return refused(act, path, errno);
    }
    let message = format!(
        "can not {act} {}: its mode does not let this session do that ({errno})",
        shown(path)
    );
    failure(FileErrorKind::Unreadable, Some(errno), message)
}

/// Returns `true` if a path can be reached, but its own mode does not let this process use it. An
/// access control list is not looked at.
fn is_forbidden_by_mode(path: &Path, needed: NeededMode) -> bool {
    let Ok(stat) = open(CWD, &path.0, OFlags::PATH).and_then(rustix::fs::fstat) else {
        return false;
    };
    let group = rustix::process::Gid::from_raw(stat.st_gid);
    let is_in_group = || {
        group == rustix::process::getegid()
            || rustix::process::getgroups().is_ok_and(|groups| groups.contains(&group))
    };
    let digit = if stat.st_uid == rustix::process::geteuid().as_raw() {
        stat.st_mode >> 6
    } else if is_in_group() {
        stat.st_mode >> 3
    } else {
        stat.st_mode
    };
    let needed = needed as u32;
    digit & needed != needed
}

/// Returns the error for a failed system call, with the likely reason.
fn refused(act: &str, path: &Path, errno: Errno) -> FileError {
    // Landlock's refusal to make a name in another directory has this number. To a program it is a
    // matter of rights, not of file systems.
    let told = if errno == Errno::XDEV { Errno::ACCESS } else { errno };
    let (kind, why) = match errno {
        Errno::NOENT => (FileErrorKind::NotFound, "it does not exist"),
        Errno::NOTDIR => (FileErrorKind::NotFound, "a part of the path is not a directory"),
        Errno::ACCESS | Errno::PERM => (
            FileErrorKind::OutsidePolicy,
            "the kernel refused it: the file's mode does not allow it, or it is outside what this \
             session may reach",
        ),
        Errno::XDEV => (
            FileErrorKind::OutsidePolicy,
            "the session may not make a file in its directory, which file tools do to replace one",
        ),
        Errno::LOOP => (
            FileErrorKind::OutsidePolicy,
            "the path has a magic link of /proc, or too many symbolic links",
        ),
        Errno::SRCH => (
            FileErrorKind::OutsidePolicy,
            "it describes a process, and file tools would only see their own: use bash",
        ),
        Errno::ROFS => (FileErrorKind::OutsidePolicy, "it is read-only in this session"),
        Errno::OVERFLOW => (
            FileErrorKind::OutsidePolicy,
            "it belongs to a user or group that does not exist in this session, which has its own \
             uid",
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
    let message = format!("can not {act} {}: {why} ({told})", shown(path));
    failure(kind, Some(told), message)
}

/// Returns the error for a failed operation of the standard library.
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

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
