//! Why something can not be kept, or not be put back. Broker.

use crate::quotas::Full;
use palisade_protocol::{CallId, ErrorCode, WireError};
use std::io;

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
