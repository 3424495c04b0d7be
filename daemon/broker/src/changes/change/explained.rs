//! Errors of changes, with hints on what to do about them. Pure: no I/O.

use crate::{
    base::{error::CallError, task::ChangeTask},
    stores::undo::UndoError,
};
use palisade_plan::cell::FileErrorKind;
use palisade_protocol::{ErrorCode, WireError};

/// Adds what depends on the task to an error: a hint, or that nothing was changed.
pub(super) fn explained(task: &ChangeTask, error: CallError) -> CallError {
    let is_settled = matches!(task, ChangeTask::Settle { .. });
    if let CallError::Refused(refused) = &error
        && refused.code == ErrorCode::UndoStoreFull
        && !is_settled
    {
        let message = format!("{}; nothing was changed", refused.message);
        return CallError::Refused(WireError { message, ..refused.clone() });
    }
    let CallError::File(failure) = error else { return error };
    match (task, failure.kind) {
        (ChangeTask::Undo { .. }, FileErrorKind::Conflict | FileErrorKind::InterruptedCommit) => {
            CallError::Changing {
                failure,
                hint: "check the current content; force: true undoes the call anyway and loses that \
                   content",
            }
        }
        (ChangeTask::Delete { .. }, FileErrorKind::TooLarge) => CallError::Changing {
            failure,
            hint: "permanent: true deletes it without an undo record; the profile's limits.undo \
                   bounds the size of undo records",
        },
        (ChangeTask::Settle { .. }, FileErrorKind::Conflict | FileErrorKind::InterruptedCommit) => {
            CallError::Changing {
                failure,
                hint: "it was changed while the command ran; check it and make the call again",
            }
        }
        (ChangeTask::Write { .. }, FileErrorKind::AlreadyExists) => {
            CallError::Changing { failure, hint: "choose another name, or mode overwrite" }
        }
        (ChangeTask::Patch { .. }, FileErrorKind::AlreadyExists) => CallError::Changing {
            failure,
            hint: "change the file that exists with an update, or delete it in the same patch",
        },
        (ChangeTask::MakeDir { .. }, FileErrorKind::AlreadyExists) => CallError::Changing {
            failure,
            hint: "choose another name, or move what exists with move_file first",
        },
        (ChangeTask::Delete { .. }, FileErrorKind::Unreadable) => CallError::Changing {
            failure,
            hint: "make it readable first (bash: chmod u+r), or delete it with `permanent`, which \
                   keeps nothing for undo",
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
