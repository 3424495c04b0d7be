//! Reads the first entries of a directory in the order of their names, however many it has, in
//! bounded memory. Runs in the cell.

use palisade_plan::cell::EntryKind;
use rustix::{
    fs::{AtFlags, FileType, RawDir},
    io::Errno,
};
use std::{cmp::Ordering, collections::BinaryHeap, os::fd::BorrowedFd};

/// The maximum number of entries that are counted in one directory.
pub(super) const MOST_SEEN: u64 = 1_000_000;

/// The maximum number of bytes of names held at a time.
pub(super) const MOST_HELD: usize = 32 * 1024 * 1024;

/// The bytes that a name takes in addition to its own, in memory and in a reply.
pub(super) const OVERHEAD: usize = 40;

const BUFFER: usize = 32 * 1024;

/// An entry of a directory, or everything below it. The latter has a slash at the end of its name,
/// so that sorting by name sorts by the whole path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListItem {
    pub(super) name: Vec<u8>,
    pub(super) what: ItemKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Entry(EntryKind),
    Below,
}

impl ListItem {
    pub(super) const fn cost(&self) -> usize {
        self.name.len() + OVERHEAD
    }
}

impl Ord for ListItem {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

impl PartialOrd for ListItem {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The smallest items of a directory.
#[derive(Default)]
pub(super) struct SmallestItems {
    pub(super) items: BinaryHeap<ListItem>,
    pub(super) held: usize,
    /// The number of entries that matched.
    pub(super) seen: u64,
    /// True if the directory has more entries than are read.
    pub(super) more: bool,
    /// True if some matching entries were dropped.
    pub(super) cut: bool,
}

/// The parts of an entry that are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListedParts {
    /// The entry itself.
    pub(super) entry: bool,
    /// Everything below it.
    pub(super) below: bool,
}

impl SmallestItems {
    /// Reads the directory, and keeps at most `most` of the matching items.
    pub(super) fn of(
        dir: BorrowedFd<'_>,
        most: u64,
        take: impl Fn(&[u8], EntryKind) -> ListedParts,
    ) -> Result<Self, Errno> {
        let mut smallest = Self::default();
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
        let mut looked_at = 0;
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                // The directory itself was deleted, so it has no entries.
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
                smallest.keep(name, ItemKind::Entry(kind), most);
            }
            if taken.below && kind == EntryKind::Directory {
                smallest.keep(&[name, b"/"].concat(), ItemKind::Below, most);
            }
        }
        Ok(smallest)
    }

    fn keep(&mut self, name: &[u8], what: ItemKind, most: u64) {
        let full = self.items.len() as u64 >= most || self.held >= MOST_HELD;
        if full && self.items.peek().is_none_or(|largest| largest.name.as_slice() < name) {
            self.cut = true;
            return;
        }
        let item = ListItem { name: name.to_vec(), what };
        self.held += item.cost();
        self.items.push(item);
        while self.items.len() as u64 > most || self.held > MOST_HELD {
            let Some(largest) = self.items.pop() else { break };
            self.held -= largest.cost();
            self.cut = true;
        }
    }
}

/// Returns the kind of an entry, and looks it up if the file system does not report it with the
/// name.
pub(super) fn kind(dir: BorrowedFd<'_>, name: &[u8], told: FileType) -> EntryKind {
    let kind = match told {
        // Not every file system reports the type.
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
