//! `write_file` in the cell: a file is written aside and put in place whole, or not at all.

use super::{
    Stop, failure, open_with,
    place::{Place, exists},
    refused, refused_io, shown,
    temp::Temp,
};
use crate::channel::Channel;
use palisade_channel::ChannelError;
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind, FileReply, FileRequest, WriteMode},
};
use rustix::{
    fs::{AtFlags, FileType, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
};

/// Takes the content that follows, and writes the file.
///
/// The file is seen with its old content or with its new one, never with a part, and if anything
/// fails it is as it was; so are the directories. What is there must be a regular file that this
/// process may write.
///
/// - A symbolic link stays; what it leads to is written, and may be new.
/// - Mode bits are kept, without set-uid, set-gid and sticky; owner and group where the kernel
///   lets them; extended attributes and access lists are not. A new file gets what the umask leaves of 0666.
/// - The new content is a new inode. Other names (hard links) of the old one keep the old content,
///   so a name in the workspace for a file elsewhere does not change that file.
/// - Append copies what is there; if that changes meanwhile, nothing is written.
pub(crate) fn write(
    channel: &Channel,
    path: &Path,
    mode: WriteMode,
    most: u64,
) -> Result<FileReply, Stop> {
    let mut place = Place::find(path, mode)?;
    let old = match place.existing {
        Some(_) => Some(open_old(path, &place, mode)?),
        None => None,
    };
    let like = old.as_ref().map(|(_, stat)| *stat);
    let mut temp = Temp::new(place.dir.as_fd(), like).map_err(|e| refused("write", path, e))?;
    let mut size = 0;
    if let (WriteMode::Append, Some((old, stat))) = (mode, &old) {
        size = copy_old(path, old, stat, &temp, most)?;
    }
    loop {
        let (data, end) = match next(channel)? {
            Next::Content { data, end } => (data, end),
            Next::Abandon => return Ok(FileReply::Abandoned),
        };
        size += data.len() as u64;
        if size > most {
            return Err(too_large(path, size, most).into());
        }
        temp.file().write_all(&data).map_err(|e| refused_io("write", path, &e))?;
        if end {
            break;
        }
    }
    if let (WriteMode::Append, Some((_, stat))) = (mode, &old) {
        unchanged(path, &place, stat)?;
    }
    let created = put(path, &place, &mut temp, mode)?;
    // Afterwards: putting it in place is a change too.
    let version = rustix::fs::fstat(temp.file()).ok().map(|stat| super::look::version(&stat));
    drop(temp);
    place.made.keep();
    Ok(FileReply::Written { size, created, version })
}

/// Puts the file in place, and says whether nothing was there.
fn put(
    path: &Path,
    place: &Place,
    temp: &mut Temp<'_>,
    mode: WriteMode,
) -> Result<bool, FileError> {
    if place.existing.is_none() {
        match temp.place_new(&place.name) {
            Ok(()) => return Ok(true),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::EXIST) => match mode {
                WriteMode::Create => return Err(exists(path)),
                // It was made meanwhile: what it has was not part of this.
                WriteMode::Append => return Err(changed(path)),
                WriteMode::Overwrite => {}
            },
            Err(error) => return Err(refused_io("write", path, &error)),
        }
    }
    temp.place_over(&place.name).map_err(|e| refused_io("write", path, &e))?;
    Ok(false)
}

enum Next {
    Content { data: Vec<u8>, end: bool },
    Abandon,
}

fn next(channel: &Channel) -> Result<Next, Stop> {
    let Some((request, fds)) = channel.receive::<FileRequest>()? else {
        return Err(Stop::Closed);
    };
    if !fds.is_empty() {
        return Err(ChannelError::Descriptors { expected: 0, received: fds.len() }.into());
    }
    match request {
        FileRequest::Content { data, end } => Ok(Next::Content { data, end }),
        FileRequest::Abandon => Ok(Next::Abandon),
        FileRequest::Read { .. }
        | FileRequest::Write { .. }
        | FileRequest::Delete { .. }
        | FileRequest::Change(_)
        | FileRequest::Commit
        | FileRequest::List { .. }
        | FileRequest::Glob(_)
        | FileRequest::Grep(_)
        | FileRequest::Look { .. } => {
            Err(Stop::OutOfOrder("another request came before the end of a write"))
        }
    }
}

/// Opens what is there as if to write it: the kernel then says whether this process may. To
/// replace a file by a rename, it asks only about the directory.
fn open_old(path: &Path, place: &Place, mode: WriteMode) -> Result<(File, Stat), FileError> {
    let access = match mode {
        WriteMode::Append => OFlags::RDWR,
        WriteMode::Overwrite | WriteMode::Create => OFlags::WRONLY,
    };
    let old = match open_name(place, access) {
        // A program that runs: replacing it is no harm, its process keeps the old inode.
        Err(Errno::TXTBSY) => open_name(place, OFlags::RDONLY),
        done => done,
    };
    let old = old.map_err(|e| refused("write", path, e))?;
    let stat = rustix::fs::fstat(&old).map_err(|e| refused("look at", path, e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(changed(path));
    }
    Ok((old.into(), stat))
}

fn open_name(place: &Place, access: OFlags) -> Result<OwnedFd, Errno> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    open_with(&place.dir, &place.name, flags, ResolveFlags::BENEATH)
}

fn copy_old(
    path: &Path,
    old: &File,
    stat: &Stat,
    temp: &Temp<'_>,
    most: u64,
) -> Result<u64, FileError> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > most {
        return Err(too_large(path, size, most));
    }
    let copied = io::copy(&mut old.take(size), &mut temp.file())
        .map_err(|e| refused_io("copy the content of", path, &e))?;
    if copied == size { Ok(size) } else { Err(changed(path)) }
}

/// Refuses if the file is not what was copied.
fn unchanged(path: &Path, place: &Place, then: &Stat) -> Result<(), FileError> {
    let seen =
        |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    match rustix::fs::statat(&place.dir, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(now) if seen(&now) == seen(then) => Ok(()),
        Ok(_) | Err(Errno::NOENT) => Err(changed(path)),
        Err(error) => Err(refused("look at", path, error)),
    }
}

fn changed(path: &Path) -> FileError {
    let message = format!(
        "{} was changed by somebody else meanwhile, so nothing was written: try again",
        shown(path)
    );
    failure(FileErrorKind::FileSystem, Some(Errno::STALE), message)
}

fn too_large(path: &Path, size: u64, most: u64) -> FileError {
    let message = format!(
        "{} would have {size} bytes or more, and {most} at most can be written: nothing was",
        shown(path)
    );
    failure(FileErrorKind::TooLarge, None, message)
}
