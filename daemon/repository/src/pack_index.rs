//! The index of a pack (version 2), which maps object ids to offsets. It is read by position and
//! never mapped into memory, so that a file that shrinks meanwhile causes an error and not a
//! signal.

use gix_hash::{Kind, ObjectId, oid};
use std::fs::File;
use std::os::unix::fs::FileExt;

const HEADER: u64 = 8;
const FANOUT: u64 = 256 * 4;
const SIGNATURE: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
/// The number of ids that are read at once.
const RUN: u64 = 128;

/// The index of one pack.
#[derive(Debug)]
pub(crate) struct PackIndex {
    file: File,
    kind: Kind,
    fanout: Vec<u32>,
    size: u64,
}

impl PackIndex {
    /// Reads the header of an index; `None` if git would not use the index.
    pub(crate) fn open(file: File, kind: Kind) -> Option<Self> {
        let size = file.metadata().ok()?.len();
        let head: Vec<u8> = read(&file, 0, HEADER + FANOUT)?;
        let (signature, table) = head.split_at_checked(SIGNATURE.len())?;
        if signature != SIGNATURE {
            return None;
        }
        let fanout: Vec<u32> =
            table.as_chunks::<4>().0.iter().copied().map(u32::from_be_bytes).collect();
        let index = PackIndex { file, kind, fanout, size };
        let smallest = index.offsets() + index.count() * 4 + 2 * index.id_length();
        (index.fanout.is_sorted() && index.size >= smallest).then_some(index)
    }

    fn id_length(&self) -> u64 {
        self.kind.len_in_bytes() as u64
    }

    /// Returns the number of objects in the pack.
    pub(crate) fn count(&self) -> u64 {
        self.fanout.last().copied().map_or(0, u64::from)
    }

    fn offsets(&self) -> u64 {
        HEADER + FANOUT + self.count() * (self.id_length() + 4)
    }

    /// Returns the checksum that the pack must end with.
    pub(crate) fn pack_checksum(&self) -> Option<Vec<u8>> {
        read(&self.file, self.size.checked_sub(2 * self.id_length())?, self.id_length())
    }

    /// Finds the offset of an object in the pack.
    pub(crate) fn find(&self, id: &oid) -> Option<u64> {
        let first = usize::from(*id.as_bytes().first()?);
        let before = first.checked_sub(1).and_then(|index| self.fanout.get(index));
        let mut low = before.copied().map_or(0, u64::from);
        let mut high = u64::from(*self.fanout.get(first)?);
        while high - low > RUN {
            let middle = low + (high - low) / 2;
            match self.ids(middle, 1)?.as_slice().cmp(id.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return self.offset(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        let run = self.ids(low, high - low)?;
        let position =
            run.chunks_exact(self.kind.len_in_bytes()).position(|at| at == id.as_bytes())?;
        self.offset(low + position as u64)
    }

    fn ids(&self, first: u64, count: u64) -> Option<Vec<u8>> {
        let start = HEADER + FANOUT + first * self.id_length();
        read(&self.file, start, count * self.id_length())
    }

    fn offset(&self, position: u64) -> Option<u64> {
        let small = read(&self.file, self.offsets() + position * 4, 4)?;
        let small = u32::from_be_bytes(small.try_into().ok()?);
        if small & 0x8000_0000 == 0 {
            return Some(u64::from(small));
        }
        let large = u64::from(small & 0x7fff_ffff);
        let start = self.offsets() + self.count() * 4 + large * 8;
        let end = self.size.checked_sub(2 * self.id_length())?;
        if start + 8 > end {
            return None;
        }
        Some(u64::from_be_bytes(read(&self.file, start, 8)?.try_into().ok()?))
    }

    /// Iterates over all ids of the pack; `None` where the file cannot be read.
    pub(crate) fn all_ids(&self) -> impl Iterator<Item = Option<ObjectId>> + '_ {
        let length = self.kind.len_in_bytes();
        (0..self.count()).step_by(RUN as usize).flat_map(move |first| {
            let count = RUN.min(self.count() - first);
            let run = self.ids(first, count);
            let ids: Vec<_> = match run {
                Some(run) => {
                    run.chunks_exact(length).map(|id| ObjectId::try_from(id).ok()).collect()
                }
                None => vec![None],
            };
            ids
        })
    }
}

/// Reads exactly `length` bytes at an offset.
pub(crate) fn read(file: &File, offset: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}
