//! The proof of a profile: escapes that are really tried inside a session of it, the layer that must
//! stop each, and what the answers mean. The one who proves (command line or broker) stands
//! outside; `attempt` is what runs inside.

mod attempt;
mod places;
mod probes;
mod trial;

pub use attempt::{Answer, attempt, report};
pub use places::{Places, Reach};
pub use probes::{Outside, PROBES, Probe};
pub use trial::{Held, Row, Trial, Verdict};
