//! The messages between the analyst and its client: a text, and the findings about it.

use bincode::{Decode, Encode};
use palisade_policy::analysis::{AnalysedCommand, Nature, RawFinding};

/// The longest text that is analysed, in bytes.
pub const MAX_TEXT: usize = 64 * 1024;

/// A request to analyse a text.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Asked {
    /// The number of the request, which the answer repeats.
    pub number: u64,
    /// The text to analyse.
    pub text: String,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Answered {
    /// The number of the request.
    pub number: u64,
    /// The findings about the text.
    pub found: Vec<RawFinding>,
    /// The commands that the text would start.
    pub commands: Vec<AnalysedCommand>,
    /// The nature of the text: proven to read only, or not.
    pub nature: Nature,
}
