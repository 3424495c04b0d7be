//! Errors of changes, with what can be done about them. Broker, pure.

use crate::{error::CallError, task::ChangeTask, undo::UndoError};
use palisade_plan::cell::FileErrorKind;

/// An error with what can be done about it, where that depends on the task.
pub(super) fn explained(task: &ChangeTask, error: CallError) -> CallError {
    let CallError::File(failure) = error else { return error };
    match (task, failure.kind) {
        (ChangeTask::Undo { .. }, FileErrorKind::Conflict) => CallError::Changing {
            failure,
            hint: "look at what is there now; force: true undoes it all the same, which loses that",
        },
        (ChangeTask::Delete { .. }, FileErrorKind::TooLarge) => CallError::Changing {
            failure,
            hint: "permanent: true deletes it for good, with nothing kept for undo; limits.undo of \
                   the profile bounds what is kept",
        },
        (ChangeTask::Settle { .. }, FileErrorKind::Conflict) => CallError::Changing {
            failure,
            hint: "somebody changed it while the command ran; look at it and make the call again",
        },
        (ChangeTask::Move { .. }, FileErrorKind::AlreadyExists) => {
            CallError::Changing { failure, hint: "choose another name, or overwrite: true" }
        }
        _ => CallError::File(failure),
    }
}

impl From<UndoError> for CallError {
    fn from(error: UndoError) -> Self {
        Self::Refused(error.into())
    }
}
