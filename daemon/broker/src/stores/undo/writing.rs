//! Writes the undo record of a call: the current state before the change is made, and what the
//! change left afterwards. The record is deleted unless the change was begun. Runs in the broker.

use super::{
    bounds::CALL_NAMES,
    error::UndoError,
    frame::{self, HEADER, MAGIC, Tag},
    head::{Head, Owner},
    holds::{DeletionLoss, MARK},
    index::{RecordStatus, seconds},
    store::Undos,
};
use crate::stores::moment::{Age, Moment};
use palisade_plan::{
    Path as CellPath,
    change::{Attribute, Before, Print, State},
    codec,
    parts::parts,
};
use palisade_protocol::{CallId, SessionId, ToolName};
use sha2::{Digest as _, Sha256};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    mem,
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// The size of the write buffer in bytes: most changes fit, and are written at once.
const BUFFER: usize = 1024 * 1024;
/// The number of bytes that are written without another thread: that does not wait for the disk,
/// and a thread would cost more.
const AT_ONCE: usize = 64 * 1024;
/// The bytes needed for one path that a change left, besides its name.
const PRINT: u64 = 64;
/// The least space that a file occupies.
const BLOCK: u64 = 4096;
/// The length of the two frames that end the earlier state, each with a digest.
const CLOSING: usize = 2 * (HEADER + 32);

/// A call whose change is about to be prepared.
#[derive(Debug)]
pub(crate) struct NewUndoRecord {
    pub(crate) owner: Owner,
    pub(crate) session: SessionId,
    pub(crate) call_id: CallId,
    pub(crate) tool: ToolName,
    /// The calls that this call will undo.
    pub(crate) undoes: Vec<CallId>,
    pub(crate) term: RecordLifetime,
}

/// The time for which a record is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordLifetime {
    /// After the change, so that it can be undone.
    ForUndo {
        /// The limit that the profile gives the session, in bytes.
        room: u64,
    },
    /// Only while the change is made; it counts towards no limit.
    WhileDone,
}

/// An undo record that is being written.
#[derive(Debug)]
pub(crate) struct UndoWriter {
    undos: Undos,
    head: Head,
    term: RecordLifetime,
    slot: Arc<Mutex<RecordFile>>,
    buffer: Vec<u8>,
    hash: Sha256,
    /// The number of bytes that have been written to disk.
    written: u64,
    /// The number of bytes of the current file's contents that are still to come.
    missing: u64,
    names: u64,
    entries: u64,
    /// True if anything existed at the recorded paths before the change.
    existed: bool,
    /// The loss that the change will cause.
    loses: DeletionLoss,
    /// The loss that the file on disk records.
    holds: DeletionLoss,
    fate: DropAction,
}

impl Undos {
    /// Begins the undo record of a call.
    pub(crate) async fn begin(&self, begun: NewUndoRecord) -> Result<UndoWriter, UndoError> {
        let path = self.path(&begun.call_id)?;
        let NewUndoRecord { owner, session, call_id, tool, undoes, term } = begun;
        let head = self
            .with(move |index| {
                let now = Moment::now();
                let (order, time) = (index.next(now.clock), seconds(now.clock));
                let Owner { uid, workspace } = owner;
                let head = Head { uid, workspace, session, call_id, tool, order, time, undoes };
                index.insert(head.clone(), 0, (RecordStatus::Held, Age::new(now)));
                Ok(head)
            })
            .await?;
        Ok(UndoWriter::new(self.clone(), head, path, term))
    }
}

/// The reservation of space for what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpaceReservation {
    /// Reserve it now, and `later` bytes for what follows.
    Asked { later: u64 },
    /// It was reserved before.
    Had,
}

/// The fate of the record when this value is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DropAction {
    TakenBack,
    Kept,
}

/// The record's file, created when the first bytes are written.
#[derive(Debug)]
struct RecordFile {
    path: PathBuf,
    file: Option<File>,
    /// True if the record was deleted: a write that is still under way then fails.
    gone: bool,
}

impl RecordFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.gone {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none @ None => {
                let mut options = OpenOptions::new();
                let options = options.append(true).create_new(true).mode(0o600);
                none.insert(options.open(&self.path)?)
            }
        };
        file.write_all(bytes)
    }
}

impl UndoWriter {
    fn new(undos: Undos, head: Head, path: PathBuf, term: RecordLifetime) -> Self {
        let slot = Arc::new(Mutex::new(RecordFile { path, file: None, gone: false }));
        Self {
            undos,
            head,
            term,
            slot,
            buffer: Vec::new(),
            hash: Sha256::new(),
            written: 0,
            missing: 0,
            names: 0,
            entries: 0,
            existed: false,
            loses: DeletionLoss::Loss,
            holds: DeletionLoss::Loss,
            fate: DropAction::TakenBack,
        }
    }

    /// Returns the id of the call.
    pub(crate) const fn call(&self) -> &CallId {
        &self.head.call_id
    }

    /// Adds the current state of one path.
    pub(crate) async fn before(&mut self, before: &Before) -> Result<(), UndoError> {
        let entry = codec::encode(before).map_err(io::Error::other)?;
        self.missing = match before {
            Before::State { state: State::File { size, .. }, .. } => *size,
            Before::State { .. } | Before::Moved { .. } | Before::Same { .. } => 0,
        };
        self.names += entry.len() as u64;
        self.entries += 1;
        self.existed |= match before {
            Before::State { state, .. } => *state != State::Absent,
            Before::Same { .. } => true,
            Before::Moved { .. } => false,
        };
        if self.names > CALL_NAMES {
            return Err(UndoError::TooLarge("it has too many names"));
        }
        // Smaller contents are checked when they are written.
        if let (RecordLifetime::ForUndo { room }, true) = (self.term, self.missing > BUFFER as u64)
        {
            self.undos.check_future_room(&self.head, (self.missing, 0), room)?;
        }
        self.put(Tag::Before, &entry).await
    }

    /// Adds the extended attributes of the file at the path that was added last.
    pub(crate) async fn attributes(&mut self, attributes: &[Attribute]) -> Result<(), UndoError> {
        let entry = codec::encode(&attributes.to_vec()).map_err(io::Error::other)?;
        self.put(Tag::Attributes, &entry).await
    }

    /// Adds a piece of the contents of the file that was added last.
    pub(crate) async fn content(&mut self, piece: &[u8]) -> Result<(), UndoError> {
        let length = piece.len() as u64;
        let missing = self.missing.checked_sub(length);
        self.missing =
            missing.ok_or_else(|| io::Error::other("a file has more bytes than its size"))?;
        self.put(Tag::Content, piece).await
    }

    /// Refuses the record if there is no room for what [`ready`](Self::ready) will write, before any
    /// own work is deleted for it.
    pub(crate) fn check_room(&mut self) -> Result<(), UndoError> {
        let RecordLifetime::ForUndo { room } = self.term else { return Ok(()) };
        self.begin()?;
        let length = (self.buffer.len() + CLOSING) as u64;
        let more = (self.growth(length), self.later());
        self.undos.check_future_room(&self.head, more, room)
    }

    /// Writes the rest of the earlier state to disk, before the change may be made. `loses` is what
    /// the change will lose.
    pub(crate) async fn ready(
        &mut self,
        change: &[u8; 32],
        loses: DeletionLoss,
    ) -> Result<(), UndoError> {
        self.loses = if self.existed { loses } else { DeletionLoss::OwnWork };
        self.put(Tag::Change, change).await?;
        let digest = self.hash.clone().finalize();
        frame::put(&mut self.buffer, Tag::Ready, &digest);
        self.flush(SpaceReservation::Asked { later: self.later() }).await
    }

    /// The bytes to reserve for what the change leaves. Once it is begun, nothing may prevent
    /// writing that.
    const fn later(&self) -> u64 {
        let prints = self.entries.saturating_mul(PRINT);
        let later = self.names.saturating_add(prints).saturating_add(MARK as u64);
        later.next_multiple_of(BLOCK)
    }

    /// The growth of the file by so many bytes, rounded up as the next daemon will count it, which
    /// sees the whole file.
    const fn growth(&self, length: u64) -> u64 {
        (self.written + length).next_multiple_of(BLOCK) - self.written.next_multiple_of(BLOCK)
    }

    /// Makes the record permanent whatever happens, because the change is being made.
    pub(crate) const fn keep(&mut self) {
        self.fate = DropAction::Kept;
    }

    /// Marks the record for deletion, because the change was not made.
    pub(crate) const fn take_back(&mut self) {
        self.fate = DropAction::TakenBack;
    }

    /// Completes the record with what the change left.
    pub(crate) async fn complete(&mut self, left: &[(CellPath, Print)]) -> Result<(), UndoError> {
        let parts = parts(left.to_vec());
        let last = parts.len().saturating_sub(1);
        for (number, part) in parts.into_iter().enumerate() {
            let tag = if number == last { Tag::After } else { Tag::Left };
            let part = codec::encode(&part).map_err(io::Error::other)?;
            frame::put(&mut self.buffer, tag, &frame::sealed(&part));
        }
        self.loses.put(&mut self.buffer);
        self.flush(SpaceReservation::Had).await?;
        self.holds = self.loses;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), UndoError> {
        if self.buffer.is_empty() && self.slot().file.is_none() {
            let head = serde_json::to_vec(&self.head).map_err(io::Error::other)?;
            let mut first = MAGIC.to_vec();
            frame::put(&mut first, Tag::Head, &head);
            self.hash.update(&first);
            self.buffer = first;
        }
        Ok(())
    }

    async fn put(&mut self, tag: Tag, payload: &[u8]) -> Result<(), UndoError> {
        self.begin()?;
        let start = self.buffer.len();
        frame::put(&mut self.buffer, tag, payload);
        self.hash.update(self.buffer.get(start..).unwrap_or_default());
        if self.buffer.len() < BUFFER {
            return Ok(());
        }
        self.flush(SpaceReservation::Asked { later: 0 }).await
    }

    async fn flush(&mut self, asked: SpaceReservation) -> Result<(), UndoError> {
        let bytes = mem::take(&mut self.buffer);
        let (undos, head, term) = (self.undos.clone(), self.head.clone(), self.term);
        let slot = Arc::clone(&self.slot);
        let length = bytes.len();
        let more = self.growth(length as u64);
        self.written += length as u64;
        let work = move || {
            match (term, asked) {
                (RecordLifetime::ForUndo { room }, SpaceReservation::Asked { later }) => {
                    undos.grow(&head, (more, later), room)?;
                }
                (RecordLifetime::ForUndo { .. }, SpaceReservation::Had) => {
                    undos.charge(&head, more)
                }
                (
                    RecordLifetime::WhileDone,
                    SpaceReservation::Asked { .. } | SpaceReservation::Had,
                ) => {}
            }
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(slot.write(&bytes)?)
        };
        if length <= AT_ONCE {
            return work();
        }
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, RecordFile> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UndoWriter {
    fn drop(&mut self) {
        match self.fate {
            DropAction::Kept => self.undos.free(&self.head.call_id, self.holds),
            DropAction::TakenBack => {
                let mut slot = self.slot();
                slot.gone = true;
                if slot.file.take().is_some()
                    && let Err(error) = fs::remove_file(&slot.path)
                {
                    tracing::warn!(%error, call = %self.head.call_id, "can not delete undo record");
                }
                drop(slot);
                self.undos.forget(&self.head.call_id);
            }
        }
    }
}
