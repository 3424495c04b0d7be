//! An approval request before it is sent, and the time for an answer. Pure: no I/O.

use super::grants::ApprovalKey;
use palisade_policy::Handlers;
use palisade_protocol::ApprovalRequest;
use std::time::Duration;

/// An approval request before it is sent.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    /// The request itself. Its id and time are filled in when it is sent.
    pub(crate) request: ApprovalRequest,
    pub(crate) claim: ApprovalKey,
    pub(crate) limits: Handlers,
    /// The time that the caller is willing to wait, if it said so.
    pub(crate) patience: Option<Duration>,
    pub(crate) stakes: Stakes,
}

/// The consequences that an approval can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stakes {
    /// Something may be lost, planted, or sent elsewhere.
    Loss,
    /// Nothing is lost: it can not, or another request is made before it is.
    NoLoss,
}

impl PreparedRequest {
    /// The time for an answer: the profile's deadline, or less if the caller says so.
    pub(crate) fn time(&self) -> Duration {
        let most = Duration::from_millis(self.limits.deadline_ms());
        self.patience.map_or(most, |patience| patience.min(most))
    }
}
