//! The index of a repository: the tracked paths, and the blobs that are staged for them.

use crate::{ObjectId, RepositoryError};
use gix_hash::Kind;

const STAT: usize = 40;
const MODE: usize = 24;
const SIZE: usize = 36;
const EXTENDED: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;
const SKIP_WORKTREE: u16 = 0x4000;
/// Most bytes of all paths together. The newest format stores each path as a difference to the one
/// before, so that a small file could name paths without limit.
const PATH_BYTES: usize = 256 << 20;

/// The type of a tracked path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StagedType {
    /// A regular file, executable or not.
    File,
    /// A symbolic link; the blob is its target.
    SymbolicLink,
    /// A commit of another repository (a submodule).
    Submodule,
}

/// One entry of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedEntry {
    /// The path relative to the top of the working tree.
    pub path: Vec<u8>,
    /// The staged blob, or the commit of a submodule.
    pub object: ObjectId,
    /// The type of the path.
    pub entry_type: StagedType,
    /// The size in bytes of the file that was staged, as git noted it: its lower 32 bits, or 0 if git
    /// does not know it.
    pub size: u32,
    /// The stage: 0, or 1 to 3 for the sides of a conflict.
    pub stage: u8,
    /// True if the path is only announced (`git add --intent-to-add`), with nothing staged.
    pub intent_to_add: bool,
    /// True if the working tree need not have the path (sparse checkout).
    pub skip_worktree: bool,
}

/// The entries of the index, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StagingIndex {
    entries: Vec<StagedEntry>,
}

impl StagingIndex {
    /// Returns all entries, ordered by path and stage.
    #[must_use]
    pub fn entries(&self) -> &[StagedEntry] {
        &self.entries
    }

    /// Returns `true` if git tracks a path.
    #[must_use]
    pub fn is_tracked(&self, path: &[u8]) -> bool {
        self.entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)).is_ok()
    }

    /// Returns the entries of one path: one, or up to three for a conflict.
    #[must_use]
    pub fn of_path(&self, path: &[u8]) -> &[StagedEntry] {
        let first = self.entries.partition_point(|entry| entry.path.as_slice() < path);
        let last = self.entries.partition_point(|entry| entry.path.as_slice() <= path);
        self.entries.get(first..last).unwrap_or_default()
    }
}

struct IndexInput<'a> {
    bytes: &'a [u8],
}

impl<'a> IndexInput<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn until_zero(&mut self) -> Option<&'a [u8]> {
        let end = self.bytes.iter().position(|byte| *byte == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        Some(text)
    }

    fn distance(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
        }
        Some(value)
    }
}

/// Parses an index of version 2, 3 or 4.
pub(crate) fn parse_index(bytes: &[u8], kind: Kind) -> Result<StagingIndex, RepositoryError> {
    let malformed = |reason| RepositoryError::malformed(b"index", reason);
    let end = bytes.len().checked_sub(kind.len_in_bytes()).ok_or(malformed("too short"))?;
    let (content, checksum) = bytes.split_at(end);
    // Git writes zeroes instead if `index.skipHash` is set.
    if checksum.iter().any(|byte| *byte != 0) {
        let mut hasher = gix_hash::hasher(kind);
        hasher.update(content);
        if hasher.try_finalize().ok().is_none_or(|computed| computed.as_bytes() != checksum) {
            return Err(malformed("the checksum is another"));
        }
    }
    let mut input = IndexInput { bytes: content };
    let head = (input.take(4), input.u32(), input.u32());
    let (Some(b"DIRC"), Some(version @ 2..=4), Some(count)) = head else {
        return Err(malformed("unknown version"));
    };
    let mut entries: Vec<StagedEntry> = Vec::new();
    let (mut path_bytes, mut all_ordered) = (0, true);
    for _ in 0..count {
        let before = entries.last().map(|entry| entry.path.as_slice()).unwrap_or_default();
        let entry = parse_entry(&mut input, version, before, kind)?;
        let is_ordered = |last: &StagedEntry| (&last.path, last.stage) < (&entry.path, entry.stage);
        all_ordered &= entries.last().is_none_or(is_ordered);
        path_bytes += entry.path.len();
        if path_bytes > PATH_BYTES {
            return Err(RepositoryError::bound("bytes of paths", PATH_BYTES));
        }
        entries.push(entry);
    }
    check_extensions(&mut input)?;
    // Not earlier: entries of a split index, which an extension tells, may have no path.
    if !all_ordered {
        return Err(malformed("entries out of order"));
    }
    Ok(StagingIndex { entries })
}

fn parse_entry(
    input: &mut IndexInput<'_>,
    version: u32,
    before: &[u8],
    kind: Kind,
) -> Result<StagedEntry, RepositoryError> {
    let malformed = || RepositoryError::malformed(b"index", "an entry is cut");
    let start = input.bytes.len();
    let stat = input.take(STAT).ok_or_else(malformed)?;
    let number = |at: usize| {
        let bytes = stat.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_be_bytes).ok_or_else(malformed)
    };
    let (mode, size) = (number(MODE)?, number(SIZE)?);
    let object = input.take(kind.len_in_bytes()).and_then(|id| ObjectId::try_from(id).ok());
    let flags = input.u16().ok_or_else(malformed)?;
    let extended = if flags & EXTENDED == 0 { Some(0) } else { input.u16() };
    let extended = extended.ok_or_else(malformed)?;
    let path = if version == 4 {
        let strip = input.distance().ok_or_else(malformed)?;
        let shared = before.len().checked_sub(strip).and_then(|keep| before.get(..keep));
        let rest = input.until_zero().ok_or_else(malformed)?;
        [shared.ok_or_else(malformed)?, rest].concat()
    } else {
        let path = input.until_zero().ok_or_else(malformed)?.to_vec();
        let used = start - input.bytes.len();
        // Padding: at least one zero byte, up to a multiple of eight bytes for the entry.
        input.take(used.next_multiple_of(8) - used).ok_or_else(malformed)?;
        path
    };
    let entry_type = match mode & 0o170_000 {
        0o100_000 => StagedType::File,
        0o120_000 => StagedType::SymbolicLink,
        0o160_000 => StagedType::Submodule,
        0o040_000 => return Err(RepositoryError::unsupported("a sparse index")),
        _ => return Err(RepositoryError::malformed(b"index", "an entry of unknown type")),
    };
    Ok(StagedEntry {
        path,
        object: object.ok_or_else(malformed)?,
        entry_type,
        size,
        stage: u8::try_from((flags >> 12) & 3).unwrap_or_default(),
        intent_to_add: extended & INTENT_TO_ADD != 0,
        skip_worktree: extended & SKIP_WORKTREE != 0,
    })
}

/// Refuses extensions without which the entries would not be the whole index.
fn check_extensions(input: &mut IndexInput<'_>) -> Result<(), RepositoryError> {
    while !input.bytes.is_empty() {
        let signature = input.take(4);
        let size = input.u32().and_then(|size| usize::try_from(size).ok());
        let content = size.and_then(|size| input.take(size));
        match (signature, content) {
            (Some(b"link"), Some(_)) => {
                return Err(RepositoryError::unsupported("a split index"));
            }
            (Some(signature), Some(_)) if signature.first().is_some_and(u8::is_ascii_uppercase) => {
            }
            (Some(signature), Some(_)) => {
                let name = String::from_utf8_lossy(signature);
                return Err(RepositoryError::unsupported(format!("the index extension {name}")));
            }
            _ => return Err(RepositoryError::malformed(b"index", "an extension is cut")),
        }
    }
    Ok(())
}
