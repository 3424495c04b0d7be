//! The final decision on an approval request. Pure: no I/O.

use super::grants::RememberedApproval;
use palisade_protocol::{JsonText, Part};
use std::fmt;

/// The one who decided on an approval request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decider {
    /// An approver, by name and class, such as `person:alice`.
    Approver(String),
    /// The agent's own client, by its name, which says that it is one.
    AgentClient(String),
    /// A remembered approval, by its id, and who gave it.
    Remembered(String),
    /// Nobody could be asked, or nobody answered.
    Default,
}

impl Decider {
    /// Returns the name of the approver; `None` if no approver decided.
    pub(crate) fn approver(&self) -> Option<&str> {
        match self {
            Self::Approver(name) => Some(name),
            Self::AgentClient(_) | Self::Remembered(_) | Self::Default => None,
        }
    }
}

/// Formats the decider as the protocol has it.
impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approver(name) => write!(f, "handler:{name}"),
            Self::AgentClient(name) => f.write_str(name),
            Self::Remembered(id) => write!(f, "remembered:{id}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The final decision on an approval request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The call may run, or its output be seen, as shown; `kept` is to be remembered.
    Approved { by: Decider, kept: Vec<RememberedApproval> },
    /// The call may run with these arguments.
    Modified { by: Decider, arguments: JsonText },
    /// The agent sees this output instead.
    Replaced { by: Decider, output: String, data: Option<JsonText> },
    /// The change set is to be committed, without the paths of `part`.
    Part { by: Decider, part: Part },
    /// The request is denied.
    Denied { by: Decider, reason: String, guidance: String },
}

impl Verdict {
    /// The denial where no approver decided.
    pub(crate) fn default(reason: impl Into<String>, guidance: impl Into<String>) -> Self {
        Self::Denied { by: Decider::Default, reason: reason.into(), guidance: guidance.into() }
    }

    /// The outcome and who decided, for the event `question_over`.
    pub(super) fn outcome(&self) -> (&'static str, &Decider) {
        match self {
            Self::Approved { by, .. } => ("approved", by),
            Self::Modified { by, .. } => ("modified", by),
            Self::Replaced { by, .. } => ("replaced", by),
            Self::Part { by, .. } => ("approved", by),
            Self::Denied { by, .. } => ("denied", by),
        }
    }
}
