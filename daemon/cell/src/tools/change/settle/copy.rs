//! Copies of what the program left, made beside the workspace's files before any of them is
//! replaced. Room: the cell.

use super::{
    super::{act::modified, keep::changed, seen::Seen},
    content,
    staging::Staging,
    upper::UpperLayer,
    whole::{Contents, Measuring, Part, each},
};
use crate::tools::{refused, refused_io};
use palisade_plan::{Path, cell::FileError, change::Print};
use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Uid, XattrFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::FileExt as _},
    rc::Rc,
};

/// How much is copied at once.
const PIECE: usize = 256 * 1024;

/// The bits without which the owner of a directory can not fill it, look at it or move it.
const USABLE: u32 = 0o700;

/// What is to be put in place: where the program left it.
#[derive(Debug)]
pub(in super::super) struct Source {
    /// Where it is.
    pub(super) layer: Rc<UpperLayer>,
    /// The way to its directory there, which is opened when it is its turn: there may be very many.
    pub(super) way: Vec<u8>,
    /// Its name.
    pub(super) name: Vec<u8>,
    /// Where it goes.
    pub(super) path: Path,
    /// What was shown of it.
    pub(super) shown: Print,
    /// Its name in the staging directory.
    pub(in super::super) aside: Vec<u8>,
    /// Whose file it replaces.
    pub(super) owner: Option<(u32, u32)>,
    /// Directories that get their mode when all is in place: from the top, and the mode.
    pub(in super::super) late: Vec<(Vec<u8>, u32)>,
}

impl Source {
    /// Copies it into the staging directory. What is not what was shown is refused: whoever has one of
    /// its files open may have written to it since.
    pub(in super::super) fn copy(&mut self, staging: &Staging) -> Result<(), FileError> {
        let aside = staging.dir().map_err(|e| refused("write beside", &self.path, e))?;
        let (top, owner) = (self.aside.clone(), self.owner);
        let (mut late, mut measuring, mut first) = (Vec::new(), Measuring::default(), None);
        let dir = self.layer.directory(&self.way).map_err(|e| refused("read", &self.path, e))?;
        each(&dir, &self.name, &self.path, Some(&self.layer), |part: &Part<'_>| {
            let mut name = top.clone();
            if !part.way.is_empty() {
                name.push(b'/');
                name.extend_from_slice(part.way);
            }
            let fail = |e| refused("write", part.path, e);
            let contents = match part.seen.kind() {
                FileType::Directory => {
                    let mode = part.seen.mode();
                    directory(aside, &name, mode).map_err(fail)?;
                    if mode & USABLE != USABLE {
                        late.push((part.way.to_vec(), mode));
                    }
                    Contents::Directory
                }
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(part.dir, part.name, Vec::new());
                    let target = target.map_err(|e| refused("read the link", part.path, e))?;
                    rustix::fs::symlinkat(target.as_c_str(), aside, name.as_slice())
                        .map_err(fail)?;
                    Contents::Link(target.into_bytes())
                }
                FileType::RegularFile => {
                    Contents::File(regular(part, staging, aside, &name, owner)?)
                }
                FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                // It is told of, and left out.
                | FileType::Unknown => return Ok(()),
            };
            measuring.take(part, &contents);
            first.get_or_insert((part.seen.mode(), contents));
            Ok(())
        })?;
        self.late = late;
        let copied = match first {
            Some((mode, Contents::File(digest))) => Some(Print::File { mode, digest }),
            Some((_, Contents::Link(target))) => Some(Print::Symlink { target: Path(target) }),
            Some((_, Contents::Directory)) => Some(measuring.done().print()),
            None => None,
        };
        if copied.as_ref() == Some(&self.shown) { Ok(()) } else { Err(changed(&self.path)) }
    }

    /// Copies what it has from a length on into the staging directory, if that is what was shown.
    pub(super) fn copy_tail(
        &self,
        staging: &Staging,
        from: u64,
        shown: [u8; 32],
    ) -> Result<(), FileError> {
        let fail = |errno| refused("write beside", &self.path, errno);
        let dir = self.layer.directory(&self.way).map_err(fail)?;
        let stat = rustix::fs::statat(&dir, self.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
        let seen = stat.and_then(|stat| self.layer.seen(&dir, &self.name, &self.path, &stat));
        let seen = seen.map_err(fail)?;
        let file = content::open_file(&dir, &self.name, &seen).map_err(fail)?;
        let aside = staging.dir().map_err(fail)?;
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
        let made = rustix::fs::openat(aside, self.aside.as_slice(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(fail)?;
        let (mut piece, mut at, made) = (vec![0; PIECE], from, File::from(made));
        let mut hash = Sha256::new();
        while at < seen.size {
            let wanted = usize::try_from(seen.size - at).unwrap_or(PIECE).min(PIECE);
            let piece = piece.get_mut(..wanted).unwrap_or_default();
            let copied = file.read_exact_at(piece, at);
            let copied = copied.and_then(|()| made.write_all_at(piece, at - from));
            copied.map_err(|e| refused_io("write beside", &self.path, &e))?;
            hash.update(&*piece);
            at += wanted as u64;
        }
        if hash.finalize()[..] == shown { Ok(()) } else { Err(changed(&self.path)) }
    }
}

/// A directory with its mode, or with one in which it can be filled.
fn directory(aside: impl AsFd, name: &[u8], mode: u32) -> Result<(), Errno> {
    rustix::fs::mkdirat(&aside, name, Mode::RWXU)?;
    let mode = Mode::from_raw_mode(mode | USABLE);
    rustix::fs::chmodat(&aside, name, mode, AtFlags::empty())
}

/// A copy of a file that has several names: one of them, and the digest of what is in it.
pub(super) type Copied = (Vec<u8>, [u8; 32]);

/// A file; one that has several names here has several names there. Gives the digest of the copy.
fn regular(
    part: &Part<'_>,
    staging: &Staging,
    aside: impl AsFd,
    name: &[u8],
    owner: Option<(u32, u32)>,
) -> Result<[u8; 32], FileError> {
    if let Some((first, digest)) = staging.links.borrow().get(&part.seen.id()) {
        let linked = rustix::fs::linkat(&aside, first.as_slice(), &aside, name, AtFlags::empty());
        if linked.is_ok() {
            return Ok(*digest);
        }
    }
    let from = content::open_file(part.dir, part.name, part.seen)
        .map_err(|e| refused("read", part.path, e))?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let made = rustix::fs::openat(&aside, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|e| refused("write", part.path, e))?;
    let made = File::from(made);
    fill(&from, &made, part.seen.size).map_err(|e| refused_io("write", part.path, &e))?;
    let (digest, _) = content::digest(&made, part.seen.size, None)
        .map_err(|e| refused_io("read", part.path, &e))?;
    dress(&from, &made, part.seen, owner).map_err(|e| refused("write", part.path, e))?;
    let stat = rustix::fs::fstat(&from).map_err(|e| refused("look at", part.path, e))?;
    if stat.st_nlink > 1 {
        staging.links.borrow_mut().insert(part.seen.id(), (name.to_vec(), digest.whole));
    }
    Ok(digest.whole)
}

/// Copies the content; where there is none there is none in the copy.
fn fill(from: &File, to: &File, size: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            // There is nothing but a hole from here on.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(start)).unwrap_or(size).min(size);
        at = start;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let piece = piece.get_mut(..wanted).unwrap_or_default();
            from.read_exact_at(piece, at)?;
            to.write_all_at(piece, at)?;
            at += wanted as u64;
        }
    }
    to.set_len(size)?;
    Ok(())
}

/// Gives a copy the owner, mode, attributes and time of what it is a copy of.
fn dress(from: &File, to: &File, seen: &Seen, owner: Option<(u32, u32)>) -> Result<(), Errno> {
    let own = Seen::from(&rustix::fs::fstat(to)?);
    if let Some((uid, gid)) = owner.filter(|owner| *owner != own.owner) {
        match rustix::fs::fchown(to, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))) {
            // Only a privileged process gives files away: it is then the session's own.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    for (name, value) in content::attributes(from)? {
        match rustix::fs::fsetxattr(to, name.as_slice(), &value, XattrFlags::empty()) {
            // The workspace's file system has none.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    rustix::fs::fchmod(to, Mode::from_raw_mode(seen.mode()))?;
    rustix::fs::futimens(to, &modified(seen.mtime))
}
