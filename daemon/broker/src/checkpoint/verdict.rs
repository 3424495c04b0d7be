//! What became of a question. Broker, pure.

use super::grants::Kept;
use palisade_protocol::{JsonText, Part};

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may run, or be seen, as it was shown; and this is to be remembered.
    Approved { by: String, kept: Vec<Kept> },
    /// It may run with these arguments.
    Modified { by: String, arguments: JsonText },
    /// The agent is to see this instead.
    Replaced { by: String, output: String },
    /// It counts but for this.
    Part { by: String, part: Part },
    /// It may not, and why.
    Denied { by: String, reason: String, guidance: String },
}

impl Verdict {
    /// The answer where nobody gave one.
    pub(crate) fn default(reason: impl Into<String>, guidance: impl Into<String>) -> Self {
        Self::Denied { by: "default".to_owned(), reason: reason.into(), guidance: guidance.into() }
    }

    /// For `question_over`.
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
