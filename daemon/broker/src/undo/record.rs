//! A call's record as it is on disk: read once, held to its digests, its contents by piece.
//! Broker.

use super::{
    error::UndoError,
    frame::{self, HEADER, MAGIC, Tag},
    head::Head,
};
use palisade_plan::{
    Path as CellPath,
    change::{Before, Print},
    codec,
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::{self, BufReader, Read as _},
    path::Path,
    sync::Arc,
};

/// The longest frame: a message of a channel, or a head.
const MOST: u32 = 8 * 1024 * 1024;
/// The longest head.
const MOST_HEAD: u32 = 64 * 1024;

/// What is kept of a call.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) head: Head,
    /// In the order of the change.
    pub(crate) entries: Vec<Kept>,
    /// The digest of the change.
    pub(crate) change: Option<[u8; 32]>,
    /// What the change left at each path; none if the daemon did not live to hear it.
    pub(crate) left: Option<Vec<(CellPath, Print)>>,
    pub(crate) file: Arc<File>,
}

/// What was at one path.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) before: Before,
    /// Where its contents are in the file: offset and length of each piece.
    pub(crate) pieces: Vec<(u64, u32)>,
    /// Of its contents.
    pub(crate) digest: [u8; 32],
}

/// Whose a record is and how long it is, without the rest of it.
pub(super) fn glance(path: &Path) -> io::Result<(Head, u64)> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut frames = Frames::new(file)?;
    match frames.next(MOST_HEAD)? {
        Some((Tag::Head, payload)) => {
            Ok((serde_json::from_slice(&payload)?, length.next_multiple_of(4096)))
        }
        Some(_) | None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// All of a record.
pub(super) fn read(path: &Path, head: &Head) -> Result<Record, UndoError> {
    let damaged = |why| UndoError::Damaged(head.call_id.clone(), why);
    let file = Arc::new(File::open(path)?);
    let mut frames = Frames::new(file.try_clone()?).map_err(|_| damaged("it is no record"))?;
    let mut record =
        Record { head: head.clone(), entries: Vec::new(), change: None, left: None, file };
    let (mut contents, mut left) = (Vec::new(), Vec::new());
    let mut ready = false;
    loop {
        let (sum, at) = (frames.hash.clone(), frames.at);
        // What is torn has no end: before the change was begun it means nothing, after that it
        // means that its end is not known.
        let Some((tag, payload)) = frames.next(MOST).ok().flatten() else { break };
        match (tag, ready) {
            (Tag::Head, false) => {
                let own = serde_json::from_slice::<Head>(&payload).is_ok_and(|own| own == *head);
                own.then_some(()).ok_or_else(|| damaged("it is another call's"))?;
            }
            (Tag::Before, false) => {
                let before = codec::decode(&payload).map_err(|_| damaged("an entry is none"))?;
                record.entries.push(Kept { before, pieces: Vec::new(), digest: [0; 32] });
                contents.push(Sha256::new());
            }
            (Tag::Content, false) => {
                let entry = record.entries.last_mut().ok_or_else(|| damaged("it has no entry"))?;
                let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
                entry.pieces.push((at + HEADER as u64, length));
                if let Some(sum) = contents.last_mut() {
                    sum.update(&payload);
                }
            }
            (Tag::Change, false) => {
                let digest = payload.try_into().map_err(|_| damaged("its change is none"))?;
                record.change = Some(digest);
            }
            (Tag::Ready, false) => {
                ready = sum.finalize().as_slice() == payload;
                ready.then_some(()).ok_or_else(|| damaged("its digest is another"))?;
            }
            (Tag::Left | Tag::After, true) => {
                let part =
                    frame::unsealed(&payload).ok_or_else(|| damaged("its end is another"))?;
                let part: Vec<_> = codec::decode(part).map_err(|_| damaged("its end is none"))?;
                left.extend(part);
                if tag == Tag::After {
                    record.left = Some(std::mem::take(&mut left));
                }
            }
            (Tag::Head | Tag::Before | Tag::Content | Tag::Change | Tag::Ready, true)
            | (Tag::Left | Tag::After, false) => {
                return Err(damaged("its parts are out of order"));
            }
        }
    }
    for (entry, sum) in record.entries.iter_mut().zip(contents) {
        entry.digest = sum.finalize().into();
    }
    // A change is begun only after this: without it nothing was done.
    if ready { Ok(record) } else { Err(UndoError::None(head.call_id.clone())) }
}

/// The frames of a file, one after another.
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

    /// The next; none at the end.
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
