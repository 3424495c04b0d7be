//! Tool calls in a model's text, for models without native tool calling. Calls are found in fenced
//! blocks, also while the text streams in, and results are written back the same way. Runs in the
//! agent's process. Pure: no I/O.
//!
//! A call is a block of Markdown whose info string's first word is `tool`, with one JSON object in
//! it:
//!
//! ````text
//! ```tool
//! {"tool": "read_file", "arguments": {"path": "README.md"}, "reason": "see what this is"}
//! ```
//! ````
//!
//! `name` is accepted for `tool`, and `args`, `input` or `parameters` for `arguments`, which may be
//! left out. Any other key is an error, as are two spellings of one key. Fences are Markdown's:
//! three or more backticks or tildes, indented by at most three spaces, closed by a line of as many
//! or more. A block of another language is text, whatever it contains. A `tool` block that is not
//! valid is reported as [`Piece::Malformed`]: it is neither dropped silently nor called.
//!
//! ```
//! use palisade_client::fenced;
//!
//! let parsed = fenced::parse("Let me look.\n```tool\n{\"tool\": \"list_files\"}\n```\n");
//! assert_eq!(parsed.text, "Let me look.\n");
//! assert_eq!(parsed.calls[0].tool, "list_files");
//! ```

mod block;
mod parser;
mod prompt;
#[cfg(test)]
mod tests;

use palisade_protocol::CallResult;
use serde_json::Value;

pub use parser::Parser;
pub use prompt::prompt;

/// The maximum size of one block, in bytes.
pub const MAX_BLOCK: usize = 8 * 1024 * 1024;

/// A part of a model's text, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Text. Consecutive pieces form one text: where it is divided depends on the chunks it arrived
    /// in.
    Text(String),
    /// A tool call.
    Call(Fenced),
    /// A `tool` block that is not a valid call.
    Malformed(Malformed),
}

/// A tool call that a model wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Fenced {
    /// The tool, by name or alias.
    pub tool: String,
    /// The tool's arguments, always an object.
    pub arguments: Value,
    /// The reason for the call in the model's own words.
    pub reason: Option<String>,
    /// The start of the block.
    pub at: Position,
}

/// A `tool` block that is not a valid call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The start of the block.
    pub at: Position,
    /// The error, in words that can be sent back to the model.
    pub why: String,
    /// The block with its fences; only the start of a block that is too large.
    pub text: String,
}

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line number, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// The byte offset, from 0.
    pub byte: usize,
}

/// The contents of a whole text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parsed {
    /// The calls, in order.
    pub calls: Vec<Fenced>,
    /// The text without `tool` blocks.
    pub text: String,
    /// The `tool` blocks that are not valid calls.
    pub malformed: Vec<Malformed>,
}

/// Parses a whole text.
#[must_use]
pub fn parse(text: &str) -> Parsed {
    let mut parser = Parser::new();
    let mut pieces = parser.push(text);
    pieces.extend(parser.finish());
    let mut parsed = Parsed::default();
    for piece in pieces {
        match piece {
            Piece::Text(text) => parsed.text.push_str(&text),
            Piece::Call(call) => parsed.calls.push(call),
            Piece::Malformed(malformed) => parsed.malformed.push(malformed),
        }
    }
    parsed
}

/// Formats a result as a fenced `result` block to send back to the model. It is the JSON object of
/// the wire protocol on one line. The fence is longer than any run of backticks in it.
///
/// # Errors
/// If the result has no JSON form; every result from a daemon has one.
pub fn render(result: &CallResult) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(result)?;
    let longest = json.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    Ok(format!("{fence}result\n{json}\n{fence}\n"))
}
