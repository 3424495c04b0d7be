//! The facts about a call, and the state of what it would touch. Pure: no I/O.

use crate::{base::error::CallError, cells::seen::TargetSnapshot, changes::guard::Route};
use palisade_plan::change::EvidenceDepth;
use palisade_policy::Facts;

/// The facts about a call, and the state of what it would touch.
#[derive(Debug)]
pub(crate) struct GatheredFacts {
    pub(crate) facts: Facts,
    pub(crate) seen: TargetSnapshot,
    /// The number of changes that the session had made before this was gathered.
    pub(crate) changes: u64,
    /// The error that the call will end with, if that is known already. It is not reported if the
    /// call is denied.
    pub(crate) failed: Option<CallError>,
    /// For a change: how much was found out about what existed before.
    pub(crate) evidence: EvidenceDepth,
    /// For a program: the route on which it runs.
    pub(crate) route: Route,
}
