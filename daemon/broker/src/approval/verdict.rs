//! The final decision on an approval request. Pure: no I/O.

use super::grants::RememberedApproval;
use palisade_protocol::{JsonText, Part};

/// The final decision on an approval request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The call may run, or its output be seen, as shown; `kept` is to be remembered.
    Approved { by: String, kept: Vec<RememberedApproval> },
    /// The call may run with these arguments.
    Modified { by: String, arguments: JsonText },
    /// The agent sees this output instead.
    Replaced { by: String, output: String, data: Option<JsonText> },
    /// The change set is to be committed, without the paths of `part`.
    Part { by: String, part: Part },
    /// The request is denied.
    Denied { by: String, reason: String, guidance: String },
}

impl Verdict {
    /// The denial where no approver decided.
    pub(crate) fn default(reason: impl Into<String>, guidance: impl Into<String>) -> Self {
        Self::Denied { by: "default".to_owned(), reason: reason.into(), guidance: guidance.into() }
    }

    /// The outcome and who decided, for the event `question_over`.
    pub(super) fn outcome(&self) -> (&'static str, &str) {
        match self {
            Self::Approved { by, .. } => ("approved", by),
            Self::Modified { by, .. } => ("modified", by),
            Self::Replaced { by, .. } => ("replaced", by),
            Self::Part { by, .. } => ("approved", by),
            Self::Denied { by, .. } => ("denied", by),
        }
    }
}
