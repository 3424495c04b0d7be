//! Looks at what a path leads to, for the judge and the checkpoint: whether a file would be lost,
//! and whether it is still the one that was asked about. Room: the cell.

use super::{checked, open, refused, refused_io};
use crate::{hidden::kind_of, view::View};
use palisade_plan::{
    Path,
    cell::{CHUNK, Contents, EntryKind, FileError, FileReply, LOOK_BYTES, Link, Looked},
    change::Version,
    names::Kind,
};
use rustix::{
    fs::{CWD, FileType, OFlags, Stat},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::Read as _,
    os::fd::{AsRawFd as _, OwnedFd},
};

/// How much is read at once.
const PIECE: usize = 64 * 1024;

/// Says what is there. Nothing is an answer too; a path that can not be looked up is an error.
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
    let mut looked = Looked {
        kind,
        dev: stat.st_dev,
        ino: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
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

/// Refuses what is hidden as what is not there: by where it really is, however it was found.
pub(super) fn show(found: &OwnedFd, path: &Path, act: &str, view: &View) -> Result<(), FileError> {
    if view.veil.hidden.is_empty() {
        return Ok(());
    }
    match real(found) {
        Some(real) if is_hidden(found, &real, view) => Err(refused(act, path, Errno::NOENT)),
        Some(_) => Ok(()),
        // Where it is can not be known, so whether it is hidden can not.
        None => Err(refused(act, path, Errno::NOENT)),
    }
}

fn is_hidden(found: &OwnedFd, real: &Path, view: &View) -> bool {
    if view.veil.hidden.is_empty() {
        return false;
    }
    let stat = rustix::fs::fstat(found);
    let kind = stat.map_or(Kind::Either, |s| kind_of(FileType::from_raw_mode(s.st_mode)));
    view.hides(real, kind)
}

/// Where a descriptor leads, as the kernel names it.
pub(super) fn real(found: &OwnedFd) -> Option<Path> {
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    let text = rustix::fs::readlink(link, Vec::new()).ok()?.into_bytes();
    text.starts_with(b"/").then_some(Path(text))
}

/// A path that leads to nothing, with what exists of it resolved.
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

/// The state that a file is in.
pub(crate) fn version(stat: &Stat) -> Version {
    let ctime = time(stat.st_ctime, stat.st_ctime_nsec);
    Version { dev: stat.st_dev, ino: stat.st_ino, ctime }
}

/// When a file's contents changed last.
pub(super) fn modified(stat: &Stat) -> (i64, u32) {
    time(stat.st_mtime, stat.st_mtime_nsec)
}

fn time<S: Into<i64>, N: TryInto<u32>>(seconds: S, nanoseconds: N) -> (i64, u32) {
    (seconds.into(), nanoseconds.try_into().unwrap_or(0))
}

/// The same regular file, to read; none if this session may not, or it is another by now. Not a
/// FIFO that took its place: opening that would wait for a writer.
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

/// Reads the head, and the rest for the digest as long as there is not too much of it.
fn read(file: OwnedFd, head: u32, looked: &mut Looked) -> Result<(), std::io::Error> {
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
