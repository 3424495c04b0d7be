//! The first entries of a directory in the order of their names, however many it has, in bounded
//! memory. Room: the cell.

use palisade_plan::cell::EntryKind;
use rustix::{
    fs::{AtFlags, FileType, RawDir},
    io::Errno,
};
use std::{cmp::Ordering, collections::BinaryHeap, os::fd::BorrowedFd};

/// The most entries that are counted in one directory.
pub(super) const MOST_SEEN: u64 = 1_000_000;

/// The most bytes of names held at a time.
pub(super) const MOST_HELD: usize = 32 * 1024 * 1024;

/// What a name costs beside its bytes, in memory and in an answer.
pub(super) const OVERHEAD: usize = 40;

const BUFFER: usize = 32 * 1024;

/// An entry of a directory, or (its name with a slash at the end) all that is below it: so the
/// order of the names is that of the whole paths.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) name: Vec<u8>,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Entry(EntryKind),
    Below,
}

impl Item {
    pub(super) const fn cost(&self) -> usize {
        self.name.len() + OVERHEAD
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The smallest items of a directory.
#[derive(Default)]
pub(super) struct Smallest {
    pub(super) items: BinaryHeap<Item>,
    pub(super) held: usize,
    /// Entries that were taken.
    pub(super) seen: u64,
    /// There were more than are looked at.
    pub(super) more: bool,
    /// Not all that were seen are here.
    pub(super) cut: bool,
}

/// What of an entry is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    /// Itself.
    pub(super) entry: bool,
    /// What is below it.
    pub(super) below: bool,
}

impl Smallest {
    /// Reads the directory, and keeps `most` items of what is taken.
    pub(super) fn of(
        dir: BorrowedFd<'_>,
        most: u64,
        take: impl Fn(&[u8], EntryKind) -> Taken,
    ) -> Result<Self, Errno> {
        let mut smallest = Self::default();
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
        let mut looked_at = 0;
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                // The directory itself is gone: it has no entries.
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            if looked_at == MOST_SEEN {
                smallest.more = true;
                break;
            }
            looked_at += 1;
            let kind = kind(dir, name, entry.file_type());
            let taken = take(name, kind);
            if taken.entry {
                smallest.seen += 1;
                smallest.keep(name, What::Entry(kind), most);
            }
            if taken.below && kind == EntryKind::Directory {
                smallest.keep(&[name, b"/"].concat(), What::Below, most);
            }
        }
        Ok(smallest)
    }

    fn keep(&mut self, name: &[u8], what: What, most: u64) {
        let full = self.items.len() as u64 >= most || self.held >= MOST_HELD;
        if full && self.items.peek().is_none_or(|largest| largest.name.as_slice() < name) {
            self.cut = true;
            return;
        }
        let item = Item { name: name.to_vec(), what };
        self.held += item.cost();
        self.items.push(item);
        while self.items.len() as u64 > most || self.held > MOST_HELD {
            let Some(largest) = self.items.pop() else { break };
            self.held -= largest.cost();
            self.cut = true;
        }
    }
}

/// What an entry is, if the file system does not tell with its name.
pub(super) fn kind(dir: BorrowedFd<'_>, name: &[u8], told: FileType) -> EntryKind {
    let kind = match told {
        // Not every file system tells.
        FileType::Unknown => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        FileType::RegularFile
        | FileType::Directory
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice => told,
    };
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => EntryKind::Other,
    }
}
