//! What became of a probe.

use crate::Probe;
use std::fmt;

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The layer that must stop it did.
    Stopped,
    /// It was done.
    Escaped,
    /// Something stopped it, and not as the layer does that must.
    Otherwise,
    /// What must succeed beside it did not, so that its failing shows nothing.
    Vacuous,
    /// There is no answer.
    Silent,
    /// The layer is missing, by the profile's leave, and something else stopped it.
    Missing,
}

impl Verdict {
    /// Whether the profile holds as far as this probe can tell.
    #[must_use]
    pub const fn holds(self) -> bool {
        match self {
            Self::Stopped | Self::Missing => true,
            Self::Escaped | Self::Otherwise | Self::Vacuous | Self::Silent => false,
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
        })
    }
}

/// A probe and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which.
    pub probe: &'static Probe,
    /// The kernel's answer inside; empty if there is none.
    pub answer: String,
    /// What came of the attempt that must succeed; empty if there is no answer.
    pub control: String,
    /// What it means.
    pub verdict: Verdict,
}
