//! What the analyst is asked and what it answers.

use bincode::{Decode, Encode};
use palisade_policy::analysis::{Found, Started};

/// The longest text that is looked at.
pub const MAX_TEXT: usize = 64 * 1024;

/// A text to look at.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Asked {
    /// Comes back with the answer.
    pub(crate) number: u64,
    pub(crate) text: String,
}

/// What was found in it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Answered {
    pub(crate) number: u64,
    pub(crate) found: Vec<Found>,
    pub(crate) commands: Vec<Started>,
}
