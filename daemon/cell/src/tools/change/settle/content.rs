//! Contents of the two layers: read once, for the digest and for what is the same. Room: the cell.

use super::super::seen::Seen;
use crate::tools::open_with;
use rustix::{
    fs::{OFlags, ResolveFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::FileExt as _},
};

/// How much is read at once.
const PIECE: usize = 128 * 1024;

/// What overlayfs keeps its own marks as.
const MARKS: &[u8] = b"user.overlay.";

/// The most bytes of names, or of one value, of extended attributes.
const MOST_ATTRIBUTE: usize = 64 * 1024;

/// How a file's content is to another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// The same.
    Same,
    /// It begins with all of the other, and has more.
    Longer,
    /// Neither.
    Other,
}

/// Opens a regular file of a layer for reading, and nothing else.
pub(super) fn open_file(dir: impl AsFd, name: &[u8], seen: &Seen) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
    let file = open_with(dir, name, flags, resolve)?;
    if Seen::from(&rustix::fs::fstat(&file)?).id() != seen.id() {
        return Err(Errno::STALE);
    }
    Ok(file.into())
}

/// A file's digest, and how it is to another.
pub(super) fn digest(
    file: &File,
    size: u64,
    other: Option<(&File, u64)>,
) -> io::Result<([u8; 32], Likeness)> {
    let mut hash = Sha256::new();
    let (mut piece, mut beside) = (vec![0; PIECE], Vec::new());
    let mut alike = other.is_some_and(|(_, length)| length <= size);
    let mut at = 0;
    while at < size {
        let wanted = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
        let piece = piece.get_mut(..wanted).unwrap_or_default();
        file.read_exact_at(piece, at)?;
        hash.update(&*piece);
        if let Some((other, length)) = other.filter(|_| alike) {
            let common = usize::try_from(length.saturating_sub(at)).unwrap_or(PIECE).min(wanted);
            beside.resize(common, 0);
            other.read_exact_at(&mut beside, at)?;
            alike = piece.get(..common) == Some(beside.as_slice());
        }
        at += wanted as u64;
    }
    let likeness = match other {
        Some((_, length)) if alike && length == size => Likeness::Same,
        Some(_) if alike => Likeness::Longer,
        Some(_) | None => Likeness::Other,
    };
    Ok((hash.finalize().into(), likeness))
}

/// Name and value.
pub(super) type Attribute = (Vec<u8>, Vec<u8>);

/// The extended attributes that a program gave a file, sorted.
pub(super) fn attributes(file: impl AsFd) -> Result<Vec<Attribute>, Errno> {
    let mut names = Vec::with_capacity(MOST_ATTRIBUTE);
    match rustix::fs::flistxattr(&file, rustix::buffer::spare_capacity(&mut names)) {
        Ok(_) => {}
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0) {
        if !name.starts_with(b"user.") || name.starts_with(MARKS) {
            continue;
        }
        let mut value = Vec::with_capacity(MOST_ATTRIBUTE);
        rustix::fs::fgetxattr(&file, name, rustix::buffer::spare_capacity(&mut value))?;
        found.push((name.to_vec(), value));
    }
    found.sort_unstable();
    Ok(found)
}
