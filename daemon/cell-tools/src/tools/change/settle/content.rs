//! Reads the contents of files of the two layers once, for the digest and for the comparison. Runs
//! in the cell.

use crate::tools::open_with;
use palisade_plan::change::Attribute;
use palisade_workspace::EntryMetadata;
use rustix::{
    fs::{OFlags, ResolveFlags, SeekFrom, XattrFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt as _,
    },
};

/// The number of bytes that are read at once.
const PIECE: usize = 128 * 1024;

/// The prefix of the attributes that overlayfs uses for its own marks.
const OVERLAY_ATTRIBUTES: &[u8] = b"user.overlay.";

/// The attribute that has a file's access control list.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// The kinds of its entries: a user, the group of the file, and another group.
const USER: u8 = 2;
const GROUP_OF_FILE: u8 = 4;
const GROUP: u8 = 8;

/// The maximum size of the list of extended attributes, or of one value.
const MOST_ATTRIBUTE: usize = 64 * 1024;

/// The result of comparing the content of a file with that of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum ContentComparison {
    /// The contents are equal.
    Same,
    /// It begins with all of the other, and is longer.
    Longer,
    /// It is neither equal nor longer.
    Other,
}

/// Opens a regular file of a layer for reading. `ESTALE` if it is not the one that was examined.
pub(in super::super) fn open_file(
    dir: impl AsFd,
    name: &[u8],
    seen: &EntryMetadata,
) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    open_seen(dir, name, flags, seen).map(File::from)
}

/// Opens a directory of a layer for reading. `ESTALE` if it is not the one that was examined.
pub(super) fn open_directory(
    dir: impl AsFd,
    name: &[u8],
    seen: &EntryMetadata,
) -> Result<OwnedFd, Errno> {
    open_seen(dir, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY, seen)
}

fn open_seen(
    dir: impl AsFd,
    name: &[u8],
    flags: OFlags,
    seen: &EntryMetadata,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
    let opened = open_with(dir, name, flags, resolve)?;
    if EntryMetadata::from(&rustix::fs::fstat(&opened)?).id() != seen.id() {
        return Err(Errno::STALE);
    }
    Ok(opened)
}

/// Reads a file from its beginning to its end, but skips its holes.
struct SparseReader<'a> {
    file: &'a File,
    size: u64,
    /// The range of the next part that is not a hole.
    next: (u64, u64),
}

impl<'a> SparseReader<'a> {
    const fn new(file: &'a File, size: u64) -> Self {
        Self { file, size, next: (0, 0) }
    }

    /// Reads a piece. A hole is filled with zeros.
    fn read(&mut self, piece: &mut [u8], at: u64) -> io::Result<()> {
        if at >= self.next.1 {
            self.next = self.part(at);
        }
        if at + piece.len() as u64 <= self.next.0 {
            piece.fill(0);
            return Ok(());
        }
        self.file.read_exact_at(piece, at)
    }

    /// Returns the next range that is not a hole; all of the rest where that can not be found out.
    fn part(&self, at: u64) -> (u64, u64) {
        match rustix::fs::seek(self.file, SeekFrom::Data(at)) {
            Ok(start) => {
                let end = rustix::fs::seek(self.file, SeekFrom::Hole(start));
                (start, end.unwrap_or(self.size))
            }
            // There is only a hole up to the end, provided that nobody has truncated the file.
            Err(Errno::NXIO) if self.ends_there() => (self.size, self.size),
            Err(_) => (at, self.size),
        }
    }

    fn ends_there(&self) -> bool {
        rustix::fs::fstat(self.file)
            .is_ok_and(|stat| u64::try_from(stat.st_size).is_ok_and(|size| size >= self.size))
    }
}

/// The digests of a file: all of it, the part as long as the other file, and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Digests {
    pub(in super::super) whole: [u8; 32],
    pub(in super::super) first: Option<[u8; 32]>,
    pub(in super::super) rest: Option<[u8; 32]>,
}

/// Returns the digests of a file, and how it compares with `other`.
pub(in super::super) fn digest(
    file: &File,
    size: u64,
    other: Option<(&File, u64)>,
) -> io::Result<(Digests, ContentComparison)> {
    let mut hash = Sha256::new();
    let (mut first, mut rest) = (None, None::<Sha256>);
    let (mut piece, mut beside) = (vec![0; PIECE], Vec::new());
    let mut alike = other.is_some_and(|(_, length)| length <= size);
    let mut parts = SparseReader::new(file, size);
    let mut others = other.map(|(other, length)| SparseReader::new(other, length));
    let mut at = 0;
    while at < size {
        let wanted = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
        let piece = piece.get_mut(..wanted).unwrap_or_default();
        parts.read(piece, at)?;
        let length = other.and_then(|(_, length)| usize::try_from(length.checked_sub(at)?).ok());
        if let Some(rest) = &mut rest {
            rest.update(&*piece);
        } else if let Some((part, more)) = length.and_then(|length| piece.split_at_checked(length))
            && !more.is_empty()
        {
            first = Some(hash.clone().chain_update(part).finalize().into());
            rest = Some(Sha256::new_with_prefix(more));
        }
        hash.update(&*piece);
        if let Some(other) = others.as_mut().filter(|_| alike) {
            let common =
                usize::try_from(other.size.saturating_sub(at)).unwrap_or(PIECE).min(wanted);
            beside.resize(common, 0);
            other.read(&mut beside, at)?;
            alike = piece.get(..common) == Some(beside.as_slice());
        }
        at += wanted as u64;
    }
    let likeness = match other {
        Some((_, length)) if alike && length == size => ContentComparison::Same,
        Some(_) if alike => ContentComparison::Longer,
        Some(_) | None => ContentComparison::Other,
    };
    let rest = rest.map(|rest| rest.finalize().into());
    Ok((Digests { whole: hash.finalize().into(), first, rest }, likeness))
}

/// Returns the extended attributes that a program can give a file, its access control list among
/// them, sorted.
pub(in super::super) fn attributes(file: impl AsFd) -> Result<Vec<Attribute>, Errno> {
    let mut names = Vec::with_capacity(MOST_ATTRIBUTE);
    match rustix::fs::flistxattr(&file, rustix::buffer::spare_capacity(&mut names)) {
        Ok(_) => {}
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0) {
        let is_user = name.starts_with(b"user.") && !name.starts_with(OVERLAY_ATTRIBUTES);
        if !is_user && name != ACCESS_LIST {
            continue;
        }
        let mut value = Vec::with_capacity(MOST_ATTRIBUTE);
        rustix::fs::fgetxattr(&file, name, rustix::buffer::spare_capacity(&mut value))?;
        found.push((name.to_vec(), value));
    }
    found.sort_unstable();
    Ok(found)
}

/// Gives a file extended attributes, as far as its file system supports them. An access control list
/// that names others is left out.
pub(in super::super) fn set_attributes(
    file: impl AsFd,
    attributes: &[Attribute],
) -> Result<(), Errno> {
    for (name, value) in attributes.iter().filter(|attribute| !names_others(attribute)) {
        match rustix::fs::fsetxattr(&file, name.as_slice(), value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns `true` if an attribute is an access control list with users or groups that this process's
/// user namespace does not have. The kernel shows all of them as one id, so they can not be given to
/// another file.
pub(in super::super) fn names_others((name, value): &Attribute) -> bool {
    name == ACCESS_LIST
        && list_entries(value)
            .any(|entry| [USER, GROUP].contains(&entry[0]) && entry[4..] == [u8::MAX; 4])
}

/// Returns an attribute without what the mode says too: `chmod` changes that part of an access
/// control list.
pub(super) fn beside_mode((name, value): Attribute) -> Attribute {
    if name != ACCESS_LIST {
        return (name, value);
    }
    let beside =
        list_entries(&value).filter(|entry| [USER, GROUP_OF_FILE, GROUP].contains(&entry[0]));
    let beside = beside.flatten().copied().collect();
    (name, beside)
}

/// Returns the entries of an access control list: kind and rights in two bytes each, and an id. Four
/// bytes with a version are before them.
fn list_entries(value: &[u8]) -> impl Iterator<Item = &[u8; 8]> {
    value.get(4..).unwrap_or_default().as_chunks().0.iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_compared_without_the_mode_and_others_are_recognised() {
        let list = |entries: &[(u16, u16, u32)]| {
            let mut value = 2u32.to_le_bytes().to_vec();
            for (kind, rights, id) in entries {
                value.extend(kind.to_le_bytes());
                value.extend(rights.to_le_bytes());
                value.extend(id.to_le_bytes());
            }
            (ACCESS_LIST.to_vec(), value)
        };
        let none = u32::MAX;
        let of = |named, mask| {
            list(&[(1, 6, none), (2, 4, named), (4, 4, none), (16, mask, none), (32, 0, none)])
        };
        assert_eq!(beside_mode(of(7, 4)), beside_mode(of(7, 0)));
        assert_ne!(beside_mode(of(7, 4)), beside_mode(of(8, 4)));
        assert!(names_others(&of(none, 4)) && !names_others(&of(7, 4)));
        let user = (b"user.x".to_vec(), of(none, 4).1);
        assert!(!names_others(&user) && beside_mode(user.clone()) == user);
    }

    #[test]
    fn a_file_with_holes_has_the_digest_of_one_without() {
        let temp = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            File::options()
                .create(true)
                .read(true)
                .write(true)
                .truncate(true)
                .open(temp.path().join(name))
                .unwrap()
        };
        let size = 5 * PIECE as u64 + 77;
        let (sparse, dense) = (file("sparse"), file("dense"));
        sparse.set_len(size).unwrap();
        dense.write_all_at(&vec![0; usize::try_from(size).unwrap()], 0).unwrap();
        for (at, data) in
            [(3, b"begin".as_slice()), (3 * PIECE as u64 - 2, b"across"), (size - 1, b"!")]
        {
            sparse.write_all_at(data, at).unwrap();
            dense.write_all_at(data, at).unwrap();
            let (one, likeness) = digest(&sparse, size, Some((&dense, size))).unwrap();
            assert_eq!(likeness, ContentComparison::Same);
            assert_eq!(one.whole, digest(&dense, size, None).unwrap().0.whole);
            for part in [0, 7, PIECE as u64, size - 1] {
                let (both, _) = digest(&dense, size, Some((&dense, part))).unwrap();
                assert_eq!(both.first, Some(digest(&dense, part, None).unwrap().0.whole), "{part}");
                let mut bytes = vec![0; usize::try_from(size - part).unwrap()];
                dense.read_exact_at(&mut bytes, part).unwrap();
                assert_eq!(both.rest, Some(Sha256::digest(&bytes).into()), "{part}");
            }
        }
        // A hole in the other file does not equal data.
        sparse.write_all_at(b"x", 4 * PIECE as u64).unwrap();
        assert_eq!(
            digest(&dense, size, Some((&sparse, size))).unwrap().1,
            ContentComparison::Other
        );
        let longer = digest(&sparse, size, Some((&sparse, PIECE as u64))).unwrap().1;
        assert_eq!(longer, ContentComparison::Longer);
        // A file that was truncated meanwhile does not pass for one with a hole at its end.
        sparse.set_len(10).unwrap();
        assert_eq!(digest(&sparse, size, None).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
