//! The proof of a profile: escapes that are really tried inside a session of it, the layer that must
//! stop each, and what the answers mean. The one who proves (command line or broker) stands
//! outside; `attempt` is what runs inside.

mod acts;
mod answer;
mod attempt;
mod deed;
mod names;
mod places;
mod probes;
mod trial;
mod verdict;

pub use answer::Answer;
pub use attempt::{attempt, report};
pub use deed::Deed;
pub use names::NAMES;
pub use places::{Names, Owner, Places, Reach};
pub use probes::{Outside, PROBES, Probe, When, Within};
pub use trial::{Held, Trial};
pub use verdict::{Row, Verdict};

/// All of the probes.
pub fn probes() -> impl Iterator<Item = &'static Probe> {
    PROBES.iter().chain(&NAMES)
}
