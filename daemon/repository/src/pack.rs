//! A pack: objects that are stored whole, or as deltas against others of the same pack.

use crate::RepositoryError;
use crate::bounds::Budget;
use crate::delta::Delta;
use crate::directory::GitDirectory;
use crate::inflate::inflate;
use crate::pack_index::{PackIndex, read};
use crate::stored::{GitObject, StoredCopy};
use gix_hash::{Kind, ObjectId, oid};
use gix_zlib::Decompress;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// The longest chain of deltas that is followed. Git makes none longer than 4095.
const CHAIN: usize = 4096;
/// Most bytes of delta bases that are kept in memory during one operation.
const CACHE: usize = 32 << 20;
/// Most bytes before the data of an entry: type, size, and a reference to the base.
const ENTRY_HEADER: usize = 64;

/// A pack and its index.
#[derive(Debug)]
pub(crate) struct Pack {
    /// The file name without its extension.
    pub(crate) name: Vec<u8>,
    pub(crate) index: PackIndex,
    data: File,
    kind: Kind,
}

/// State that is reused between reads: the decompressor, and the bases of deltas by pack and
/// offset.
#[derive(Default)]
pub(crate) struct ReadingState {
    pub(crate) inflate: Decompress,

    bases: HashMap<(usize, u64), GitObject>,
    bytes: usize,
}

impl ReadingState {
    fn insert(&mut self, key: (usize, u64), kind: gix_object::Kind, data: &Rc<Vec<u8>>) {
        if data.len() > CACHE / 16 {
            return;
        }
        if self.bytes + data.len() > CACHE {
            self.bases.clear();
            self.bytes = 0;
        }
        if self.bases.insert(key, GitObject { kind, data: Rc::clone(data) }).is_none() {
            self.bytes += data.len();
        }
    }
}

enum DeltaBase {
    None(gix_object::Kind),
    Offset(u64),
    Id(ObjectId),
}

struct PackEntry {
    base: DeltaBase,
    data: u64,
    size: u64,
}

impl Pack {
    /// Opens a pack as git does, which requires that the pack ends with the checksum that the index
    /// names.
    pub(crate) fn open(directory: &GitDirectory, name: &[u8], kind: Kind) -> Option<Self> {
        let path = |ending: &[u8]| [b"pack/", name, ending].concat();
        let index = PackIndex::open(directory.file(&path(b".idx")).ok()??, kind)?;
        let data = directory.file(&path(b".pack")).ok()??;
        let head = read(&data, 0, 12)?;
        let (signature, count) = head.split_at_checked(8)?;
        let is_pack = signature == b"PACK\0\0\0\x02" || signature == b"PACK\0\0\0\x03";
        let count = u64::from(u32::from_be_bytes(count.try_into().ok()?));
        let length = kind.len_in_bytes() as u64;
        let trailer = read(&data, data.metadata().ok()?.len().checked_sub(length)?, length)?;
        let matches = count == index.count() && Some(trailer) == index.pack_checksum();
        (is_pack && matches).then(|| Pack { name: name.to_vec(), index, data, kind })
    }

    /// Reads an object that the index lists.
    pub(crate) fn read(
        &self,
        position: usize,
        offset: u64,
        budget: &mut Budget,
        state: &mut ReadingState,
    ) -> Result<StoredCopy, RepositoryError> {
        let (mut offset, mut chain) = (offset, Vec::new());
        let (kind, mut data) = loop {
            if let Some(base) = state.bases.get(&(position, offset)) {
                break (base.kind, Rc::clone(&base.data));
            }
            let Some(entry) = self.entry(offset) else { return Ok(StoredCopy::Damaged) };
            if entry.size > budget.object_bytes() {
                return Ok(StoredCopy::TooLarge);
            }
            budget.inflate(entry.size)?;
            let base = match entry.base {
                DeltaBase::None(kind) => {
                    let Some(data) = self.inflate(&entry, state) else {
                        return Ok(StoredCopy::Damaged);
                    };
                    let data = Rc::new(data);
                    state.insert((position, offset), kind, &data);
                    break (kind, data);
                }
                DeltaBase::Offset(back) => offset.checked_sub(back),
                DeltaBase::Id(id) => self.index.find(&id),
            };
            chain.push((offset, entry));
            match base {
                Some(base) if chain.len() < CHAIN => offset = base,
                _ => return Ok(StoredCopy::Damaged),
            }
        };
        while let Some((offset, entry)) = chain.pop() {
            let Some(bytes) = self.inflate(&entry, state) else {
                return Ok(StoredCopy::Damaged);
            };
            let Some(delta) = Delta::parse(&bytes) else { return Ok(StoredCopy::Damaged) };
            if delta.result_size > budget.object_bytes() {
                return Ok(StoredCopy::TooLarge);
            }
            budget.inflate(delta.result_size)?;
            let Some(result) = delta.apply(&data) else { return Ok(StoredCopy::Damaged) };
            data = Rc::new(result);
            state.insert((position, offset), kind, &data);
        }
        Ok(StoredCopy::Found(GitObject { kind, data }))
    }

    fn inflate(&self, entry: &PackEntry, state: &mut ReadingState) -> Option<Vec<u8>> {
        let size = usize::try_from(entry.size).ok()?;
        inflate(&self.data, entry.data, size, &mut state.inflate)
    }

    fn entry(&self, offset: u64) -> Option<PackEntry> {
        let mut head = [0; ENTRY_HEADER];
        let read = self.data.read_at(&mut head, offset).ok()?;
        let mut bytes = head.get(..read)?.iter().copied();
        let first = bytes.next()?;
        let (mut size, mut more) = (u64::from(first & 0x0f), first & 0x80 != 0);
        let mut shift = 4;
        while more {
            let byte = bytes.next()?;
            if shift > 56 {
                return None;
            }
            size |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            more = byte & 0x80 != 0;
        }
        let base = match (first >> 4) & 7 {
            1 => DeltaBase::None(gix_object::Kind::Commit),
            2 => DeltaBase::None(gix_object::Kind::Tree),
            3 => DeltaBase::None(gix_object::Kind::Blob),
            4 => DeltaBase::None(gix_object::Kind::Tag),
            6 => DeltaBase::Offset(distance(&mut bytes)?),
            7 => {
                let id: Vec<u8> = bytes.by_ref().take(self.kind.len_in_bytes()).collect();
                DeltaBase::Id(oid::try_from_bytes(&id).ok()?.to_owned())
            }
            _ => return None,
        };
        let used = read - bytes.len();
        Some(PackEntry { base, data: offset.checked_add(used as u64)?, size })
    }
}

/// Reads the distance back to the base of a delta. It is never zero, so that no delta is its own
/// base.
fn distance(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut byte = bytes.next()?;
    let mut value = u64::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = bytes.next()?;
        value = value.checked_add(1)?.checked_mul(128)? | u64::from(byte & 0x7f);
    }
    (value > 0).then_some(value)
}
