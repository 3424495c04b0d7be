//! What calls replaced, kept on disk so that it can be put back: for a day, within bounds, for the
//! same user in the same workspace, whatever session that is in. Broker.

mod frame;
mod index;
mod record;
mod restore;
mod share;
mod store;
mod writing;

pub(crate) use record::Record;
pub(crate) use restore::{Force, Piece, Restore, assemble};
pub(crate) use store::{Begun, Term, Undos, Unfinished};
pub(crate) use writing::Writing;

use crate::quotas::Full;
use palisade_protocol::{CallId, ErrorCode, RawPath, SessionId, ToolName, WireError};
use serde::{Deserialize, Serialize};
use std::{io, time::Duration};

/// How long a call can be undone.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Entries of one call: what undoes it has to fit into one message to the cell.
pub(crate) const CALL_ENTRIES: u32 = 10_000;
/// Bytes of those entries without their contents, for the same reason.
const CALL_NAMES: u64 = 3 * 1024 * 1024;
/// Calls of one session: each is a file, and a loop of small edits must not make millions.
const SESSION_RECORDS: u64 = 1024;
/// Of one user: four sessions that fill what a profile gives them by default.
pub(crate) const USER_BYTES: u64 = 1 << 30;
/// Calls of one user.
const USER_RECORDS: u64 = 4096;
/// In all: that of four such users. The oldest of whoever has most go first.
const ALL: Sum = Sum { bytes: 4 << 30, records: 16_384 };

/// Space that is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    bytes: u64,
    records: u64,
}

impl Sum {
    const fn is_over(self, most: Self) -> bool {
        self.bytes > most.bytes || self.records > most.records
    }
}

/// Who may undo a call: its user, in its workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) workspace: RawPath,
}

/// Whose a record is, and of which call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    pub(crate) uid: u32,
    pub(crate) workspace: RawPath,
    pub(crate) session: SessionId,
    pub(crate) call_id: CallId,
    pub(crate) tool: ToolName,
    /// Which came first.
    pub(crate) order: u64,
    /// When, in seconds since 1970.
    pub(crate) time: u64,
}

/// Why something can not be kept, or not be put back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UndoError {
    #[error("there is nothing to undo of call {0}")]
    None(CallId),
    #[error("call {0} was made in another workspace, {1:?}")]
    Elsewhere(CallId, String),
    #[error("nothing was changed after call {0} that is still kept")]
    NothingSince(CallId),
    #[error("what is kept of call {0} is damaged: {1}")]
    Damaged(CallId, &'static str),
    #[error("the daemon was stopped during call {0}: whether it was done is not known")]
    Unfinished(CallId),
    #[error("{path:?} was changed between call {before} and call {after}")]
    Between { path: String, before: CallId, after: CallId },
    #[error("call {moving} moved {directory:?}, and call {below} changed what was in it")]
    Moved { moving: CallId, directory: String, below: CallId },
    #[error("{path:?} was moved and changed after call {call} in a way that is not undone at once")]
    Entangled { path: String, call: CallId },
    #[error("what these calls replaced is too much to be put back at once")]
    TooMuch,
    #[error("what would be lost is too large to be kept for undo: {0}")]
    TooLarge(&'static str),
    #[error(transparent)]
    Full(#[from] Full),
    #[error("what would be lost can not be kept for undo: {0}")]
    Io(#[from] io::Error),
}

impl From<UndoError> for WireError {
    fn from(error: UndoError) -> Self {
        let kept = "a result has an `undo` if its call can be undone; it is kept for a day, and a \
                    session's oldest go first when it has too much";
        let force = "look at what is there, then undo with force: true, which loses it";
        let (code, hint) = match &error {
            UndoError::None(_) | UndoError::NothingSince(_) => (ErrorCode::NotFound, kept),
            UndoError::Elsewhere(..) => (ErrorCode::NotFound, "open a session there"),
            UndoError::Damaged(..) => (ErrorCode::FileSystem, "put it back by hand"),
            UndoError::Unfinished(_) | UndoError::Between { .. } => (ErrorCode::Conflict, force),
            UndoError::Moved { .. } | UndoError::Entangled { .. } => {
                (ErrorCode::Conflict, "undo these calls one by one, the newest first")
            }
            UndoError::TooMuch => (ErrorCode::TooLarge, "undo fewer calls at once"),
            UndoError::TooLarge(_) => (
                ErrorCode::TooLarge,
                "limits.undo of the profile bounds it; delete_file with permanent: true keeps nothing",
            ),
            UndoError::Full(full) => return (*full).into(),
            UndoError::Io(_) => (ErrorCode::FileSystem, "see the daemon's log"),
        };
        Self::new(code, error.to_string(), hint)
    }
}
