//! What the analyst is asked and what it answers.

use bincode::{Decode, Encode};
use palisade_policy::analysis::{Found, Nature, Started};

/// The longest text that is looked at.
pub const MAX_TEXT: usize = 64 * 1024;

/// A text to look at.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Asked {
    /// Comes back with the answer.
    pub number: u64,
    /// The text.
    pub text: String,
}

/// What was found in it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Answered {
    /// Of the question.
    pub number: u64,
    /// What it would do.
    pub found: Vec<Found>,
    /// What it would start.
    pub commands: Vec<Started>,
    /// Whether it may do more than read.
    pub nature: Nature,
}
