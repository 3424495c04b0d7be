//! A call's record while it is written: everything that is there now before the change is done,
//! what the change left after it. Taken back unless the change was begun. Broker.

use super::{
    bounds::CALL_NAMES,
    error::UndoError,
    frame::{self, MAGIC, Tag},
    head::{Head, Owner},
    index::{Hold, seconds},
    store::Undos,
};
use crate::moment::{Age, Moment};
use palisade_plan::{
    Path as CellPath,
    change::{Before, Print, State},
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

/// What is held in memory before it goes to the disk: most changes fit, and are written at once.
const BUFFER: usize = 1024 * 1024;
/// What is written without another thread: it does not wait for the disk, and a thread would cost
/// more than the writing.
const AT_ONCE: usize = 64 * 1024;
/// What is said of one path that a change left, beside its name.
const PRINT: u64 = 64;
/// What a file takes at least.
const BLOCK: u64 = 4096;

/// A call whose change is about to be prepared.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) owner: Owner,
    pub(crate) session: SessionId,
    pub(crate) call_id: CallId,
    pub(crate) tool: ToolName,
    pub(crate) term: Term,
}

/// How long something is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Term {
    /// So that it can be undone.
    ForUndo {
        /// What the profile lets the session hold.
        room: u64,
    },
    /// While the change is done: nothing of it counts.
    WhileDone,
}

/// A record being written.
#[derive(Debug)]
pub(crate) struct Writing {
    undos: Undos,
    head: Head,
    term: Term,
    slot: Arc<Mutex<Slot>>,
    buffer: Vec<u8>,
    hash: Sha256,
    /// What has gone to the disk.
    written: u64,
    /// Of the file whose contents come.
    missing: u64,
    names: u64,
    entries: u64,
    fate: Fate,
}

impl Undos {
    /// Begins to keep what a call will replace.
    pub(crate) async fn begin(&self, begun: Begun) -> Result<Writing, UndoError> {
        let path = self.path(&begun.call_id)?;
        let Begun { owner, session, call_id, tool, term } = begun;
        let head = self
            .with(move |index| {
                let now = Moment::now();
                let (order, time) = (index.next(now.clock), seconds(now.clock));
                let Owner { uid, workspace } = owner;
                let head = Head { uid, workspace, session, call_id, tool, order, time };
                index.insert(head.clone(), 0, (Hold::Held, Age::new(now)));
                Ok(head)
            })
            .await?;
        Ok(Writing::new(self.clone(), head, path, term))
    }
}

/// Whether there is room for what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// That is found out now, and for so much that comes later.
    Asked { later: u64 },
    /// It was asked for before.
    Had,
}

/// What becomes of a record that is let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    TakenBack,
    Kept,
}

/// The file, once there is something in it.
#[derive(Debug)]
struct Slot {
    path: PathBuf,
    file: Option<File>,
    /// Whoever still writes finds nothing to write to.
    gone: bool,
}

impl Slot {
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

impl Writing {
    fn new(undos: Undos, head: Head, path: PathBuf, term: Term) -> Self {
        let slot = Arc::new(Mutex::new(Slot { path, file: None, gone: false }));
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
            fate: Fate::TakenBack,
        }
    }

    /// The call.
    pub(crate) const fn call(&self) -> &CallId {
        &self.head.call_id
    }

    /// What is at one path.
    pub(crate) async fn before(&mut self, before: &Before) -> Result<(), UndoError> {
        let entry = codec::encode(before).map_err(io::Error::other)?;
        self.missing = match before {
            Before::State { state: State::File { size, .. }, .. } => *size,
            Before::State { .. } | Before::Moved { .. } | Before::Same { .. } => 0,
        };
        self.names += entry.len() as u64;
        self.entries += 1;
        if self.names > CALL_NAMES {
            return Err(UndoError::TooLarge("it has too many names"));
        }
        // What is written at once is weighed when it is written.
        if let (Term::ForUndo { room }, true) = (self.term, self.missing > BUFFER as u64) {
            self.undos.foresee(&self.head, self.missing, room)?;
        }
        self.put(Tag::Before, &entry).await
    }

    /// A piece of the file that was named last.
    pub(crate) async fn content(&mut self, piece: &[u8]) -> Result<(), UndoError> {
        let length = piece.len() as u64;
        let missing = self.missing.checked_sub(length);
        self.missing = missing.ok_or_else(|| io::Error::other("a file has more than its size"))?;
        self.put(Tag::Content, piece).await
    }

    /// All of it is there: it goes to the disk before the change may be done.
    pub(crate) async fn ready(&mut self, change: &[u8; 32]) -> Result<(), UndoError> {
        self.put(Tag::Change, change).await?;
        let digest = self.hash.clone().finalize();
        frame::put(&mut self.buffer, Tag::Ready, &digest);
        // Once the change is begun, nothing may be in the way of telling what it left.
        let later = self.names.saturating_add(self.entries.saturating_mul(PRINT));
        self.flush(Room::Asked { later: later.next_multiple_of(BLOCK) }).await
    }

    /// The change is being done: whatever comes, this stays.
    pub(crate) const fn keep(&mut self) {
        self.fate = Fate::Kept;
    }

    /// The change was not done.
    pub(crate) const fn take_back(&mut self) {
        self.fate = Fate::TakenBack;
    }

    /// The change was done, and left this.
    pub(crate) async fn complete(&mut self, left: &[(CellPath, Print)]) -> Result<(), UndoError> {
        let parts = parts(left.to_vec());
        let last = parts.len().saturating_sub(1);
        for (number, part) in parts.into_iter().enumerate() {
            let tag = if number == last { Tag::After } else { Tag::Left };
            let part = codec::encode(&part).map_err(io::Error::other)?;
            frame::put(&mut self.buffer, tag, &frame::sealed(&part));
        }
        self.flush(Room::Had).await
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
        self.flush(Room::Asked { later: 0 }).await
    }

    async fn flush(&mut self, asked: Room) -> Result<(), UndoError> {
        let bytes = mem::take(&mut self.buffer);
        let (undos, head, term) = (self.undos.clone(), self.head.clone(), self.term);
        let slot = Arc::clone(&self.slot);
        let length = bytes.len();
        // As it is counted by the next daemon, which sees the whole file.
        let before = self.written.next_multiple_of(BLOCK);
        self.written += length as u64;
        let more = self.written.next_multiple_of(BLOCK) - before;
        let work = move || {
            match (term, asked) {
                (Term::ForUndo { room }, Room::Asked { later }) => {
                    undos.grow(&head, (more, later), room)?;
                }
                (Term::ForUndo { .. }, Room::Had) => undos.charge(&head, more),
                (Term::WhileDone, Room::Asked { .. } | Room::Had) => {}
            }
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(slot.write(&bytes)?)
        };
        if length <= AT_ONCE {
            return work();
        }
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        match self.fate {
            Fate::Kept => self.undos.free(&self.head.call_id),
            Fate::TakenBack => {
                let mut slot = self.slot();
                slot.gone = true;
                if slot.file.take().is_some()
                    && let Err(error) = fs::remove_file(&slot.path)
                {
                    tracing::warn!(%error, call = %self.head.call_id, "an undo record stays");
                }
                drop(slot);
                self.undos.forget(&self.head.call_id);
            }
        }
    }
}
