//! The final decision on an approval request. Pure: no I/O.

use super::grants::RememberedApproval;
use palisade_protocol::{ApprovalOutcome, DecidedBy, JsonText, Part};

/// Returns the change that would allow a denied request. What an approver advises is not one: the
/// agent gets it as the hint, and it is not suggested as a change of the profile.
pub(crate) fn remedy(by: &DecidedBy, guidance: &str) -> String {
    match by {
        DecidedBy::Approver(_) | DecidedBy::AgentClient(_) | DecidedBy::Remembered(_) => {
            String::new()
        }
        DecidedBy::Default => guidance.to_owned(),
    }
}

/// The final decision on an approval request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The call may run, or its output be seen, as shown; `kept` is to be remembered.
    Approved { by: DecidedBy, kept: Vec<RememberedApproval> },
    /// The call may run with these arguments.
    Modified { by: DecidedBy, arguments: JsonText },
    /// The agent sees this output instead.
    Replaced { by: DecidedBy, output: String, data: Option<JsonText> },
    /// The change set is to be committed, without the paths of `part`.
    Part { by: DecidedBy, part: Part },
    /// The request is denied.
    Denied { by: DecidedBy, reason: String, guidance: String },
}

/// The final decision on an approval request, and everybody who approved it until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecidedRequest {
    pub(crate) verdict: Verdict,
    /// The approvers who approved, in the order of their answers; also those of a denied request.
    pub(crate) approvals: Vec<DecidedBy>,
}

impl From<Verdict> for DecidedRequest {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, approvals: Vec::new() }
    }
}

impl Verdict {
    /// The denial where no approver decided.
    pub(crate) fn default(reason: impl Into<String>, guidance: impl Into<String>) -> Self {
        Self::Denied { by: DecidedBy::Default, reason: reason.into(), guidance: guidance.into() }
    }

    /// The outcome and who decided, for the event `approval_closed`.
    pub(super) fn outcome(&self) -> (ApprovalOutcome, &DecidedBy) {
        match self {
            Self::Approved { by, .. } => (ApprovalOutcome::Approved, by),
            Self::Modified { by, .. } => (ApprovalOutcome::Modified, by),
            Self::Replaced { by, .. } => (ApprovalOutcome::Replaced, by),
            Self::Part { by, .. } => (ApprovalOutcome::Approved, by),
            Self::Denied { by, .. } => (ApprovalOutcome::Denied, by),
        }
    }
}
