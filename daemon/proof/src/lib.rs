//! The proof of a profile: escapes that are really tried inside one of its sessions, the layer that
//! must stop each, and the meaning of the answers. The prover (command line or broker) runs
//! outside; `attempt` runs inside.

mod acts;
mod answer;
mod attempt;
mod escape;
mod names;
mod places;
mod probes;
mod trial;
mod verdict;

pub use answer::Answer;
pub use attempt::{attempt, report};
pub use escape::EscapeAttempt;
pub use names::NAMES;
pub use places::{OutsideTargets, Owner, ProverNetwork, RestrictedNames};
pub use probes::{OutcomeTime, OutsideOutcome, PROBES, Probe, ProbeNetworks};
pub use trial::{Confinement, Trial};
pub use verdict::{Row, Verdict};

/// Iterates over all probes.
pub fn probes() -> impl Iterator<Item = &'static Probe> {
    PROBES.iter().chain(&NAMES)
}
