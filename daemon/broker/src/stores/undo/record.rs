//! Reads undo records from disk. A record is read once and checked against its digests; contents
//! are read later, by piece. Runs in the broker.

use super::{
    error::UndoError,
    frame::{self, HEADER, MAGIC, Tag},
    head::Head,
    holds::{DeletionLoss, MARK},
};
use palisade_plan::{
    Path as CellPath,
    change::{Attribute, Before, Print},
    codec,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::{self, BufReader, Read as _},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};

/// The longest frame in bytes: a message of a channel, or a head.
const MOST: u32 = 8 * 1024 * 1024;
/// The longest head in bytes: that of an undo of all calls of a session.
const MOST_HEAD: u32 = 4 * 1024 * 1024;

/// The undo record of a call.
#[derive(Debug)]
pub(crate) struct StoredUndoRecord {
    pub(crate) head: Head,
    /// The earlier states of the changed paths, in the order of the change.
    pub(crate) entries: Vec<PriorState>,
    /// The digest of the change.
    pub(crate) change: Option<[u8; 32]>,
    /// The state that the change left at each path; `None` if the daemon ended before it knew.
    pub(crate) left: Option<Vec<(CellPath, Print)>>,
    pub(crate) file: Arc<File>,
}

/// The earlier state of one path.
#[derive(Debug)]
pub(crate) struct PriorState {
    pub(crate) before: Before,
    pub(crate) attributes: Vec<Attribute>,
    /// The places of its contents in the file: offset and length of each piece.
    pub(crate) pieces: Vec<(u64, u32)>,
    /// The digest of its contents.
    pub(crate) digest: [u8; 32],
}

/// The parts of a record that the index needs.
#[derive(Debug)]
pub(super) struct RecordSummary {
    pub(super) head: Head,
    pub(super) bytes: u64,
    pub(super) holds: DeletionLoss,
}

/// Reads a record's head, its size, and what it holds, without the rest.
pub(super) fn read_summary(path: &Path) -> io::Result<RecordSummary> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let holds = holds(&file, length)?;
    let mut frames = Frames::new(file)?;
    match frames.next(MOST_HEAD)? {
        Some((Tag::Head, payload)) => {
            let head = serde_json::from_slice(&payload)?;
            Ok(RecordSummary { head, bytes: length.next_multiple_of(4096), holds })
        }
        Some(_) | None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn holds(file: &File, length: u64) -> io::Result<DeletionLoss> {
    let mut tail = [0; MARK];
    let Some(start) = length.checked_sub(MARK as u64) else { return Ok(DeletionLoss::Loss) };
    file.read_exact_at(&mut tail, start)?;
    Ok(DeletionLoss::read(&tail))
}

/// Reads a whole record.
pub(super) fn read(path: &Path, head: &Head) -> Result<StoredUndoRecord, UndoError> {
    let damaged = |why| UndoError::Damaged(head.call_id.clone(), why);
    let file = Arc::new(File::open(path)?);
    let mut frames = Frames::new(file.try_clone()?).map_err(|_| damaged("it is not a record"))?;
    let mut record = StoredUndoRecord {
        head: head.clone(),
        entries: Vec::new(),
        change: None,
        left: None,
        file,
    };
    let (mut contents, mut left) = (Vec::new(), Vec::new());
    let mut ready = false;
    loop {
        let (sum, at) = (frames.hash.clone(), frames.at);
        // A torn record has no end. Before the change was begun, it means that nothing was done.
        // After that, it means that the result is unknown.
        let Some((tag, payload)) = frames.next(MOST).ok().flatten() else { break };
        match (tag, ready) {
            (Tag::Head, false) => {
                let own = serde_json::from_slice::<Head>(&payload).is_ok_and(|own| own == *head);
                own.then_some(()).ok_or_else(|| damaged("it belongs to another call"))?;
            }
            (Tag::Before, false) => {
                let before = codec::decode(&payload).map_err(|_| damaged("an entry is invalid"))?;
                let (attributes, pieces) = (Vec::new(), Vec::new());
                record.entries.push(PriorState { before, attributes, pieces, digest: [0; 32] });
                contents.push(Sha256::new());
            }
            (Tag::Attributes, false) => {
                let entry = record
                    .entries
                    .last_mut()
                    .ok_or_else(|| damaged("it has attributes without an entry"))?;
                entry.attributes =
                    codec::decode(&payload).map_err(|_| damaged("attributes are invalid"))?;
            }
            (Tag::Content, false) => {
                let entry = record
                    .entries
                    .last_mut()
                    .ok_or_else(|| damaged("it has contents without an entry"))?;
                let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
                entry.pieces.push((at + HEADER as u64, length));
                if let Some(sum) = contents.last_mut() {
                    sum.update(&payload);
                }
            }
            (Tag::Change, false) => {
                let digest =
                    payload.try_into().map_err(|_| damaged("its change digest is invalid"))?;
                record.change = Some(digest);
            }
            (Tag::Ready, false) => {
                ready = sum.finalize().as_slice() == payload;
                ready.then_some(()).ok_or_else(|| damaged("its digest does not match"))?;
            }
            (Tag::Left | Tag::After, true) => {
                let part = frame::unsealed(&payload)
                    .ok_or_else(|| damaged("the checksum of its end does not match"))?;
                let part: Vec<_> =
                    codec::decode(part).map_err(|_| damaged("its end is invalid"))?;
                left.extend(part);
                if tag == Tag::After {
                    record.left = Some(std::mem::take(&mut left));
                }
            }
            (Tag::Mark, true) => {}
            (
                Tag::Head | Tag::Before | Tag::Attributes | Tag::Content | Tag::Change | Tag::Ready,
                true,
            )
            | (Tag::Left | Tag::After | Tag::Mark, false) => {
                return Err(damaged("its parts are out of order"));
            }
        }
    }
    for (entry, sum) in record.entries.iter_mut().zip(contents) {
        entry.digest = sum.finalize().into();
    }
    // A change is begun only after this frame: without it nothing was done.
    if ready { Ok(record) } else { Err(UndoError::None(head.call_id.clone())) }
}

/// Reads the frames of a file one after another.
struct Frames {
    input: BufReader<File>,
    hash: Sha256,
    at: u64,
}

impl Frames {
    fn new(file: File) -> io::Result<Self> {
        let mut input = BufReader::new(file);
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic)?;
        if &magic != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let hash = Sha256::new_with_prefix(magic);
        Ok(Self { input, hash, at: MAGIC.len() as u64 })
    }

    /// Returns the next frame; `None` at the end.
    fn next(&mut self, most: u32) -> io::Result<Option<(Tag, Vec<u8>)>> {
        let mut header = [0; HEADER];
        match self.input.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let (tag, length) = frame::header(header)
            .filter(|(_, length)| *length <= most)
            .ok_or(io::ErrorKind::InvalidData)?;
        let mut payload = vec![0; length as usize];
        self.input.read_exact(&mut payload)?;
        self.hash.update(header);
        self.hash.update(&payload);
        self.at += (HEADER + payload.len()) as u64;
        Ok(Some((tag, payload)))
    }
}
