//! The errors of storing content for undo and of restoring it. Runs in the broker.

use super::full::StoreFull;
use palisade_protocol::{CallId, ErrorCode, WireError};
use std::io;

/// An error from storing content for undo, or from restoring it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UndoError {
    #[error("call {0} has no undo record")]
    None(CallId),
    #[error("call {0} was made in another workspace, {1:?}")]
    Elsewhere(CallId, String),
    #[error("no change after call {0} has an undo record")]
    NothingSince(CallId),
    #[error("the undo record of call {0} is damaged: {1}")]
    Damaged(CallId, &'static str),
    #[error("the daemon stopped during call {0}: whether its change was made is unknown")]
    Unfinished(CallId),
    #[error("{path:?} was changed between call {before} and call {after}")]
    Between { path: String, before: CallId, after: CallId },
    #[error("call {moving} moved {directory:?}, and call {below} changed what was in it")]
    Moved { moving: CallId, directory: String, below: CallId },
    #[error(
        "{path:?} was moved and changed after call {call} in a way that can not be undone at once"
    )]
    Entangled { path: String, call: CallId },
    #[error("these calls replaced too much to be restored at once")]
    TooMuch,
    #[error("the loss is too large for an undo record: {0}")]
    TooLarge(&'static str),
    #[error(transparent)]
    Full(#[from] StoreFull),
    #[error("the undo store failed: {0}")]
    Io(#[from] io::Error),
}

impl From<UndoError> for WireError {
    fn from(error: UndoError) -> Self {
        let kept = "a result has `undo` if its call can be undone, and a finding `no_undo` if undo had \
                    no room for it; undo records expire after undo.keep, and those of a session's \
                    own work earlier if the store is full";
        let force =
            "look at the current contents, then undo with force: true, which overwrites them";
        let (code, hint) = match &error {
            UndoError::None(_) | UndoError::NothingSince(_) => (ErrorCode::NotFound, kept),
            UndoError::Elsewhere(..) => (ErrorCode::NotFound, "open a session there"),
            UndoError::Damaged(..) => (ErrorCode::FileSystem, "restore the files by hand"),
            UndoError::Unfinished(_) | UndoError::Between { .. } => (ErrorCode::Conflict, force),
            UndoError::Moved { .. } | UndoError::Entangled { .. } => {
                (ErrorCode::Conflict, "undo these calls one by one, the newest first")
            }
            UndoError::TooMuch => (ErrorCode::TooLarge, "undo fewer calls at once"),
            UndoError::TooLarge(_) => (
                ErrorCode::TooLarge,
                "limits.undo of the profile sets the limit; delete_file with permanent: true needs \
                 no undo record",
            ),
            UndoError::Full(full) => return (*full).into(),
            UndoError::Io(_) => (ErrorCode::FileSystem, "see the daemon's log"),
        };
        Self::new(code, error.to_string(), hint)
    }
}
