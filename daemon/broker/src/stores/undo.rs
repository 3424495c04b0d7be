//! The undo store: the content that calls replaced, on disk, so that it can be restored. Records
//! are stored for `undo.keep`, within limits. The same user can use them in the same workspace,
//! from any session. Runs in the broker.

mod bounds;
mod error;
mod frame;
mod full;
mod head;
mod holds;
mod index;
mod list;
mod record;
mod restore;
mod room;
mod share;
mod store;
mod writing;

pub(crate) use bounds::CALL_ENTRIES;
pub(crate) use error::UndoError;
pub(crate) use head::Owner;
pub(crate) use holds::DeletionLoss;
pub(crate) use restore::{ContentPiece, Force, Restore, assemble};
pub(crate) use store::{Undos, UnfinishedCall};
pub(crate) use writing::{NewUndoRecord, RecordLifetime, UndoWriter};
