//! Examines what a path leads to, for the judge and the checkpoint: whether a file would be lost,
//! and whether it is still the one that an approver was asked about. Runs in the cell.

use super::{LONGEST_PATH, checked, open, refused, refused_io};
use palisade_plan::{
    Path,
    cell::{CHUNK, Contents, EntryDetails, EntryKind, FileError, FileReply, LOOK_BYTES, Link},
    names::Kind,
};
use palisade_workspace::{View, kind_of, modified, version};
use rustix::{
    fs::{CWD, FileType, OFlags, Stat},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::Read as _,
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
};

/// The number of bytes that are read at once.
const PIECE: usize = 64 * 1024;

/// Returns what is at a path. A missing entry is a valid answer; a path that can not be looked up
/// is an error.
pub(crate) fn look(
    path: &Path,
    link: Link,
    contents: Contents,
    view: &View,
) -> Result<FileReply, FileError> {
    let bytes = checked(path)?;
    let flags = match link {
        Link::Target => OFlags::PATH,
        Link::Itself => OFlags::PATH | OFlags::NOFOLLOW,
    };
    let found = match open(CWD, bytes, flags) {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR) => {
            return Ok(FileReply::Looked { real: real_above(bytes), found: None });
        }
        Err(error) => return Err(refused("look at", path, error)),
    };
    let real = real(&found).unwrap_or_else(|| path.clone());
    if is_hidden(&found, &real, view) {
        return Ok(FileReply::Looked { real, found: None });
    }
    let stat = rustix::fs::fstat(&found).map_err(|e| refused("look at", path, e))?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => EntryKind::Other,
    };
    let mut looked = EntryDetails {
        kind,
        dev: stat.st_dev,
        ino: stat.st_ino,
        mode: stat.st_mode & 0o7777,
        links: stat.st_nlink,
        owner: (stat.st_uid, stat.st_gid),
        target: match kind {
            // The empty name stands for the link that the descriptor is.
            EntryKind::Symlink => link_target(&found, b""),
            EntryKind::File | EntryKind::Directory | EntryKind::Other => None,
        },
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: modified(&stat),
        ctime: version(&stat).ctime,
        digest: None,
        head: Vec::new(),
    };
    if let Contents::Read { head } = contents
        && kind == EntryKind::File
        && let Some(file) = readable(bytes, link, &stat)
    {
        read(file, head, &mut looked).map_err(|e| refused_io("read", path, &e))?;
    }
    Ok(FileReply::Looked { real, found: Some(Box::new(looked)) })
}

/// Reads where a link leads; `None` if it is not there any more, or its text is too long.
pub(super) fn link_target(directory: impl AsFd, name: &[u8]) -> Option<Path> {
    let text = rustix::fs::readlinkat(directory, name, Vec::new()).ok()?.into_bytes();
    (text.len() <= LONGEST_PATH).then_some(Path(text))
}

/// Refuses hidden files as if they were missing. The real path counts, however the file was found.
pub(super) fn show(found: &OwnedFd, path: &Path, act: &str, view: &View) -> Result<(), FileError> {
    if view.matchers.hidden.is_empty() {
        return Ok(());
    }
    match real(found) {
        Some(real) if is_hidden(found, &real, view) => Err(refused(act, path, Errno::NOENT)),
        Some(_) => Ok(()),
        // Without a real path it can not be known whether the file is hidden.
        None => Err(refused(act, path, Errno::NOENT)),
    }
}

fn is_hidden(found: &OwnedFd, real: &Path, view: &View) -> bool {
    if view.matchers.hidden.is_empty() {
        return false;
    }
    let stat = rustix::fs::fstat(found);
    let kind = stat.map_or(Kind::Either, |s| kind_of(FileType::from_raw_mode(s.st_mode)));
    view.hides(real, kind)
}

/// Returns the path of a descriptor, as the kernel names it.
pub(super) fn real(found: &OwnedFd) -> Option<Path> {
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    let text = rustix::fs::readlink(link, Vec::new()).ok()?.into_bytes();
    text.starts_with(b"/").then_some(Path(text))
}

/// Resolves the existing part of a path that leads to nothing.
fn real_above(path: &[u8]) -> Path {
    let mut above = path;
    while let Some(slash) = above.iter().rposition(|byte| *byte == b'/') {
        above = &path[..slash];
        let directory = if above.is_empty() { b"/" } else { above };
        let there = open(CWD, directory, OFlags::PATH | OFlags::DIRECTORY);
        if let Some(Path(mut real)) = there.ok().and_then(|there| real(&there)) {
            if real == b"/" {
                real.clear();
            }
            real.extend_from_slice(&path[slash..]);
            return Path(real);
        }
    }
    Path(path.to_vec())
}

/// Opens the same regular file for reading; `None` if this session may not, or it was replaced.
/// Never waits for a writer if a FIFO took its place.
fn readable(path: &[u8], link: Link, stat: &Stat) -> Option<OwnedFd> {
    let nofollow = match link {
        Link::Target => OFlags::empty(),
        Link::Itself => OFlags::NOFOLLOW,
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | nofollow;
    let file = open(CWD, path, flags).ok()?;
    let now = rustix::fs::fstat(&file).ok()?;
    ((now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino)).then_some(file)
}

/// Reads the head, and the rest for the digest if it is not too large.
fn read(file: OwnedFd, head: u32, looked: &mut EntryDetails) -> Result<(), std::io::Error> {
    let most = usize::try_from(head).unwrap_or(CHUNK).min(CHUNK);
    let mut file = File::from(file).take(LOOK_BYTES + 1);
    let (mut hash, mut taken, mut piece) = (Sha256::new(), 0_u64, vec![0; PIECE]);
    loop {
        let read = match file.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let got = piece.get(..read).unwrap_or_default();
        let wanted = most.saturating_sub(looked.head.len()).min(got.len());
        looked.head.extend_from_slice(got.get(..wanted).unwrap_or_default());
        hash.update(got);
        taken += got.len() as u64;
        if looked.size > LOOK_BYTES && looked.head.len() == most {
            return Ok(());
        }
    }
    looked.digest = (taken <= LOOK_BYTES).then(|| hash.finalize().into());
    Ok(())
}
