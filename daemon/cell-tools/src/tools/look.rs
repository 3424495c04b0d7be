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

/// The number of links that are followed in one path, as in the kernel.
const MOST_LINKS: usize = 40;

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
            return Ok(FileReply::Looked { real: resolve_missing(bytes, link, view), found: None });
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

/// Resolves a path that leads to nothing. Links are followed even if their target is missing, and
/// missing names stay as they are. A hidden link is not followed: it is missing, too.
fn resolve_missing(path: &[u8], link: Link, view: &View) -> Path {
    let mut real: Vec<u8> = Vec::new();
    let mut rest = path.to_vec();
    let mut links = 0;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let name: Vec<u8> = rest.drain(..end).collect();
        let slashes = rest.iter().take_while(|byte| **byte == b'/').count();
        rest.drain(..slashes);
        match name.as_slice() {
            b"" | b"." => continue,
            b".." => {
                let above = real.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                real.truncate(above);
                continue;
            }
            _ => {}
        }
        let parent = real.len();
        real.push(b'/');
        real.extend_from_slice(&name);
        let is_meant = !rest.is_empty() || link == Link::Target;
        let entry = Path(real.clone());
        if !is_meant || links == MOST_LINKS || view.hides(&entry, kind_of(FileType::Symlink)) {
            continue;
        }
        let Ok(target) = rustix::fs::readlink(entry.0.as_slice(), Vec::new()) else { continue };
        let mut target = target.into_bytes();
        if real.len() + rest.len() + target.len() > LONGEST_PATH {
            continue;
        }
        links += 1;
        real.truncate(if target.first() == Some(&b'/') { 0 } else { parent });
        target.push(b'/');
        rest.splice(0..0, target);
    }
    Path(if real.is_empty() { b"/".to_vec() } else { real })
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
