//! The room that undo has for what a command replaced, and what an approver and the agent are told
//! if it has none. Runs in the broker. Pure: no I/O.

use crate::{
    base::{error::CallError, task::UndoRetention},
    stores::undo::CALL_ENTRIES,
};
use palisade_plan::cell::FileErrorKind;
use palisade_policy::{DESTRUCTIVE, Facts, UndoRecord};
use palisade_protocol::{ErrorCode, Finding, Severity, WireError};

/// The kind of a finding about changes that were committed without an undo record.
const NO_UNDO: &str = "no_undo";

/// The room that undo has for what a command replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UndoRoom {
    Enough,
    /// It is more than a record may have. Holds the profile's limit in bytes.
    OverLimit(u64),
    /// The user's undo store is full.
    StoreFull(WireError),
}

impl UndoRoom {
    /// Returns the lack of room that an error is about. `limit` is the profile's limit of a record.
    /// A full transaction is a different error.
    pub(super) fn lacking(error: &CallError, limit: u64) -> Option<Self> {
        let is_over_limit = matches!(
            error,
            CallError::File(failure)
                if failure.kind == FileErrorKind::TooLarge && failure.errno == 0
        );
        if is_over_limit {
            return Some(Self::OverLimit(limit));
        }
        let CallError::Refused(refused) = error else { return None };
        let full = || Self::StoreFull(refused.clone());
        match refused.code == ErrorCode::TooLarge {
            true => Some(Self::OverLimit(limit)),
            false => (refused.code == ErrorCode::UndoStoreFull).then(full),
        }
    }

    /// Returns whether the replaced content is to be stored for undo.
    pub(super) const fn retention(&self) -> UndoRetention {
        match self {
            Self::Enough => UndoRetention::ForUndo,
            Self::OverLimit(_) | Self::StoreFull(_) => UndoRetention::Not,
        }
    }

    /// Returns the availability of an undo record.
    pub(super) const fn record(&self) -> UndoRecord {
        match self {
            Self::Enough => UndoRecord::Kept,
            Self::OverLimit(_) | Self::StoreFull(_) => UndoRecord::Unavailable,
        }
    }

    /// Returns the finding that asks for approval: what would be lost could not be undone.
    pub(super) fn loss(&self) -> Option<Finding> {
        let why = format!(
            "undo has no room for what the command replaced or deleted, so that could not be undone: \
             {}",
            self.why()?
        );
        Some(Finding::new(DESTRUCTIVE, Severity::Warning, why))
    }

    /// Returns the finding that tells of a commit without an undo record.
    pub(super) fn notice(&self) -> Option<Finding> {
        let why =
            format!("these changes can not be undone, undo had no room for them: {}", self.why()?);
        Some(Finding::new(NO_UNDO, Severity::Notice, why))
    }

    /// Returns the error of a loss that nobody reviews although the undo store is full. A session
    /// that asks nobody loses nothing because of that.
    pub(super) fn refusal(&self, facts: &Facts) -> Option<CallError> {
        match self {
            Self::StoreFull(error) if facts.findings.iter().any(|f| f.kind == DESTRUCTIVE) => {
                Some(CallError::Refused(error.clone()))
            }
            Self::Enough | Self::OverLimit(_) | Self::StoreFull(_) => None,
        }
    }

    fn why(&self) -> Option<String> {
        match self {
            Self::Enough => None,
            Self::OverLimit(limit) => Some(format!(
                "a record may have {limit} bytes (limits.undo of the profile) and {CALL_ENTRIES} \
                 entries"
            )),
            Self::StoreFull(error) => {
                Some(format!("{}. To make room, {}", error.message, error.hint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::cell::FileError;

    fn full() -> WireError {
        WireError::new(ErrorCode::UndoStoreFull, "the store is full", "delete old records")
    }

    fn file_error(kind: FileErrorKind, errno: i32) -> CallError {
        CallError::File(FileError { kind, errno, message: "x".to_owned(), about: None, diff: None })
    }

    #[test]
    fn only_errors_about_room_for_undo_are_a_lack_of_it() {
        let refused = |code| CallError::Refused(WireError::new(code, "x", ""));
        for (error, expected) in [
            (file_error(FileErrorKind::TooLarge, 0), Some(UndoRoom::OverLimit(7))),
            (refused(ErrorCode::TooLarge), Some(UndoRoom::OverLimit(7))),
            (CallError::Refused(full()), Some(UndoRoom::StoreFull(full()))),
            // A full transaction: the disk was full.
            (file_error(FileErrorKind::TooLarge, 28), None),
            (file_error(FileErrorKind::Conflict, 0), None),
            (refused(ErrorCode::FileSystem), None),
            (CallError::Cancelled, None),
        ] {
            assert_eq!(UndoRoom::lacking(&error, 7), expected, "{error}");
        }
    }

    #[test]
    fn an_approver_is_told_why_and_how_to_make_room() {
        let loss = UndoRoom::StoreFull(full()).loss().unwrap();
        assert_eq!(loss.kind, DESTRUCTIVE);
        assert_eq!(
            loss.why,
            "undo has no room for what the command replaced or deleted, so that could not be undone: \
             the store is full. To make room, delete old records"
        );
        let loss = UndoRoom::OverLimit(4096).loss().unwrap();
        assert!(loss.why.ends_with(
            "a record may have 4096 bytes (limits.undo of the profile) and 100000 entries"
        ));
        assert_eq!(UndoRoom::StoreFull(full()).notice().unwrap().kind, NO_UNDO);
        assert_eq!((UndoRoom::Enough.loss(), UndoRoom::Enough.notice()), (None, None));
    }

    #[test]
    fn where_nobody_is_asked_only_a_full_store_refuses_a_loss() {
        let found = Finding::new(DESTRUCTIVE, Severity::Warning, "x");
        let lossy = Facts { findings: vec![found], ..Facts::default() };
        let room = UndoRoom::StoreFull(full());
        assert!(matches!(room.refusal(&lossy), Some(CallError::Refused(error)) if error == full()));
        assert!(room.refusal(&Facts::default()).is_none());
        assert!(UndoRoom::OverLimit(7).refusal(&lossy).is_none());
        assert!(UndoRoom::Enough.refusal(&lossy).is_none());
    }
}
