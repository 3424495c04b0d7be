//! The verdict on a probe.

use crate::Probe;
use std::fmt;

/// The verdict on a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The layer that must stop the attempt did.
    Stopped,
    /// The attempt succeeded.
    Escaped,
    /// Something stopped the attempt, but not in the way of the layer that must.
    Otherwise,
    /// The control failed, so the failure of the attempt shows nothing.
    Vacuous,
    /// There is no answer.
    Silent,
    /// The layer is missing, which the profile allows, and something else stopped the attempt.
    Missing,
    /// The layer is missing, which the profile allows, and the attempt succeeded.
    Open,
}

impl Verdict {
    /// Returns `true` if the profile holds, as far as this probe can tell.
    #[must_use]
    pub const fn holds(self) -> bool {
        match self {
            Self::Stopped | Self::Missing => true,
            Self::Escaped | Self::Otherwise | Self::Vacuous | Self::Silent | Self::Open => false,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "stopped",
            Self::Escaped => "ESCAPED",
            Self::Otherwise => "otherwise",
            Self::Vacuous => "vacuous",
            Self::Silent => "silent",
            Self::Missing => "missing",
            Self::Open => "OPEN",
        })
    }
}

/// A probe and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The probe.
    pub probe: &'static Probe,
    /// The kernel's answer to the attempt inside; empty if there is none.
    pub answer: String,
    /// The kernel's answer to the control; empty if there is none.
    pub control: String,
    /// The verdict.
    pub verdict: Verdict,
}
