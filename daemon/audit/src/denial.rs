//! A refusal by one layer, as records have it. Pure: no I/O.

use crate::clean::CleanText;
use serde::{Deserialize, Serialize};

/// A denial by one layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerDenial {
    /// The layer.
    pub layer: CleanText,
    /// The rule: a key of the profile, or `RIGHT: REASON` for an access right.
    pub rule: CleanText,
    /// The path, address or tool.
    pub target: CleanText,
    /// The smallest change that would allow it.
    pub remedy: CleanText,
    /// The line of the profile that decides; empty if there is none.
    pub at: CleanText,
    /// The further access that this change would allow.
    pub opens: CleanText,
}

impl LayerDenial {
    /// Returns the access right that was refused; `None` if a key of the profile refused.
    #[must_use]
    pub fn right(&self) -> Option<&str> {
        self.rule.as_str().split_once(':').map(|(right, _)| right)
    }
}
