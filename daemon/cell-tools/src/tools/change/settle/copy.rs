//! Copies what the program left into the staging directory, before anything in the workspace is
//! replaced. Runs in the cell.

use super::{
    super::{act::modified, keep::changed},
    content,
    staging::Staging,
    upper::UpperLayer,
    whole::{Contents, TreeEntry, TreeMeter, each},
};
use crate::tools::{refused, refused_io};
use palisade_plan::{Path, cell::FileError, change::Print};
use palisade_workspace::EntryMetadata;
use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Uid},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::FileExt as _},
    rc::Rc,
};

/// The number of bytes that are copied at once.
const PIECE: usize = 256 * 1024;

/// The mode bits that the owner of a directory needs to fill, read or move it.
const USABLE: u32 = 0o700;

/// An entry that the program left, to be put in place.
#[derive(Debug)]
pub(in super::super) struct CommitSource {
    /// The layer that it is in.
    pub(super) layer: Rc<UpperLayer>,
    /// The path to its directory there. The directory is opened only when needed, because there may
    /// be very many.
    pub(super) way: Vec<u8>,
    /// Its name.
    pub(super) name: Vec<u8>,
    /// The path that it will have.
    pub(super) path: Path,
    /// The print that was shown to the approver.
    pub(super) shown: Print,
    /// Its name in the staging directory.
    pub(in super::super) aside: Vec<u8>,
    /// The owner of the file that it replaces.
    pub(super) owner: Option<(u32, u32)>,
    /// The directories whose mode is set when everything is in place, relative to this entry, and
    /// the mode.
    pub(in super::super) late: Vec<(Vec<u8>, u32)>,
}

impl CommitSource {
    /// Copies the entry into the staging directory. Refuses one that is not what was shown: a
    /// process that has one of its files open may have written to it since.
    pub(in super::super) fn copy(&mut self, staging: &Staging) -> Result<(), FileError> {
        let aside = staging.dir().map_err(|e| refused("write beside", &self.path, e))?;
        let (top, owner) = (self.aside.clone(), self.owner);
        let (mut late, mut measuring, mut first) = (Vec::new(), TreeMeter::default(), None);
        let mut times = Vec::new();
        let dir = self.layer.directory(&self.way).map_err(|e| refused("read", &self.path, e))?;
        each(&dir, &self.name, &self.path, Some(&self.layer), |part: &TreeEntry<'_>| {
            let mut name = top.clone();
            if !part.way.is_empty() {
                name.push(b'/');
                name.extend_from_slice(part.way);
            }
            let fail = |e| refused("write", part.path, e);
            let contents = match part.seen.kind() {
                FileType::Directory => {
                    let mode = part.seen.mode();
                    directory(part, aside, &name, owner).map_err(fail)?;
                    times.push((name, part.seen.mtime));
                    if mode & USABLE != USABLE {
                        late.push((part.way.to_vec(), mode));
                    }
                    Contents::Directory
                }
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(part.dir, part.name, Vec::new());
                    let target = target.map_err(|e| refused("read the link", part.path, e))?;
                    rustix::fs::symlinkat(target.as_c_str(), aside, name.as_slice())
                        .and_then(|()| set_time(aside, &name, part.seen.mtime))
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
                // Reported, but not copied.
                | FileType::Unknown => return Ok(()),
            };
            measuring.take(part, &contents);
            first.get_or_insert((part.seen.mode(), contents));
            Ok(())
        })?;
        // Filling a directory changes its time, so it is set afterwards, the innermost first.
        for (name, mtime) in times.iter().rev() {
            set_time(aside, name, *mtime).map_err(|e| refused("write", &self.path, e))?;
        }
        self.late = late;
        let copied = match first {
            Some((mode, Contents::File(digest))) => Some(Print::File { mode, digest }),
            Some((_, Contents::Link(target))) => Some(Print::Symlink { target: Path(target) }),
            Some((_, Contents::Directory)) => Some(measuring.done().print()),
            None => None,
        };
        if copied.as_ref() == Some(&self.shown) { Ok(()) } else { Err(changed(&self.path)) }
    }

    /// Copies the content from an offset on into the staging directory, if it is what was shown.
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

/// Makes a directory with the owner, mode and attributes of its original, and the bits needed to
/// fill it.
fn directory(
    part: &TreeEntry<'_>,
    aside: impl AsFd,
    name: &[u8],
    owner: Option<(u32, u32)>,
) -> Result<(), Errno> {
    let mode = part.seen.mode() | USABLE;
    rustix::fs::mkdirat(&aside, name, Mode::from_raw_mode(mode))?;
    let from = content::open_directory(part.dir, part.name, part.seen)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let to = rustix::fs::openat(&aside, name, flags, Mode::empty())?;
    give_attributes(&from, &to, owner)?;
    if EntryMetadata::from(&rustix::fs::fstat(&to)?).mode() == mode {
        // It may have the set-gid bit of the directory it is in, which a change would remove.
        return Ok(());
    }
    rustix::fs::fchmod(&to, Mode::from_raw_mode(mode))
}

/// Sets the modification time of an entry in the staging directory.
fn set_time(aside: impl AsFd, name: &[u8], mtime: (i64, u32)) -> Result<(), Errno> {
    rustix::fs::utimensat(aside, name, &modified(mtime), AtFlags::SYMLINK_NOFOLLOW)
}

/// A copied file that has several names: one of them, and the digest of its content.
pub(super) type CopiedFile = (Vec<u8>, [u8; 32]);

/// Copies a file, and returns the digest of the copy. Hard links stay hard links.
fn regular(
    part: &TreeEntry<'_>,
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
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let made = rustix::fs::openat(&aside, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|e| refused("write", part.path, e))?;
    let made = File::from(made);
    let digest = fill(&from, &made, part.seen.size);
    let digest = digest.map_err(|e| refused_io("write", part.path, &e))?;
    copy_metadata(&from, &made, part.seen, owner).map_err(|e| refused("write", part.path, e))?;
    let stat = rustix::fs::fstat(&from).map_err(|e| refused("look at", part.path, e))?;
    if stat.st_nlink > 1 {
        staging.links.borrow_mut().insert(part.seen.id(), (name.to_vec(), digest));
    }
    Ok(digest)
}

/// Copies the content, and returns the digest of the copy. Holes stay holes.
fn fill(from: &File, to: &File, size: u64) -> io::Result<[u8; 32]> {
    let (mut piece, mut hash, mut at) = (vec![0; PIECE], Sha256::new(), 0);
    while at < size {
        let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) => start.min(size),
            // There is only a hole from here on.
            Err(Errno::NXIO) => size,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(start)).unwrap_or(size).min(size);
        add_hole(&mut hash, start - at);
        at = start;
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let piece = piece.get_mut(..wanted).unwrap_or_default();
            from.read_exact_at(piece, at)?;
            to.write_all_at(piece, at)?;
            hash.update(&*piece);
            at += wanted as u64;
        }
    }
    to.set_len(size)?;
    Ok(hash.finalize().into())
}

/// Adds a hole to a digest. It reads as zeros.
fn add_hole(hash: &mut Sha256, mut bytes: u64) {
    const ZEROS: [u8; 4096] = [0; 4096];
    while bytes > 0 {
        let some = usize::try_from(bytes).unwrap_or(ZEROS.len()).min(ZEROS.len());
        hash.update(ZEROS.get(..some).unwrap_or_default());
        bytes -= some as u64;
    }
}

/// Gives a copy the owner, mode, attributes and time of its original.
fn copy_metadata(
    from: &File,
    to: &File,
    seen: &EntryMetadata,
    owner: Option<(u32, u32)>,
) -> Result<(), Errno> {
    give_attributes(from, to, owner)?;
    rustix::fs::fchmod(to, Mode::from_raw_mode(seen.mode()))?;
    rustix::fs::futimens(to, &modified(seen.mtime))
}

/// Gives a copy the owner of the entry that it replaces, and the attributes of its original.
fn give_attributes(from: impl AsFd, to: impl AsFd, owner: Option<(u32, u32)>) -> Result<(), Errno> {
    let own = EntryMetadata::from(&rustix::fs::fstat(&to)?);
    if let Some((uid, gid)) = owner.filter(|owner| *owner != own.owner) {
        match rustix::fs::fchown(&to, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))) {
            // Only a privileged process can give files away. Otherwise the file stays the session's
            // own.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    content::set_attributes(to, &content::attributes(from)?)
}
