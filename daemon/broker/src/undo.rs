//! What calls replaced, kept on disk so that it can be put back: for a day, within bounds, for the
//! same user in the same workspace, whatever session that is in. Broker.

mod bounds;
mod error;
mod frame;
mod head;
mod index;
mod record;
mod restore;
mod share;
mod store;
mod writing;

pub(crate) use bounds::CALL_ENTRIES;
pub(crate) use error::UndoError;
pub(crate) use head::Owner;
pub(crate) use restore::{Force, Piece, Restore, assemble};
pub(crate) use store::{Undos, Unfinished};
pub(crate) use writing::{Begun, Term, Writing};
