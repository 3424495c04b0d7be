//! Tool calls in a model's text, for models without tool calling of their own: found in fenced
//! blocks, also while the text streams in; results written back the same way. Pure; runs in the
//! agent's process.
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
//! `name` is taken for `tool`, and `args`, `input` or `parameters` for `arguments`, which may be
//! left out; any other key is an error, as are two spellings of one key. Fences are Markdown's:
//! three or more backticks or tildes, indented by at most three spaces, closed by a line of as many
//! or more. A block of another language is text, whatever stands in it. What is wrong with a `tool`
//! block is reported as [`Piece::Malformed`]: nothing of it is dropped silently or called.
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

/// The most bytes of one block.
pub const MAX_BLOCK: usize = 8 * 1024 * 1024;

/// A part of a model's text, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Text. Two in a row are one text: how it is divided depends on how it came.
    Text(String),
    /// A call.
    Call(Fenced),
    /// A `tool` block that is no call.
    Malformed(Malformed),
}

/// A call that a model wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Fenced {
    /// The tool, by name or alias.
    pub tool: String,
    /// Its arguments: always an object.
    pub arguments: Value,
    /// The model's own words.
    pub reason: Option<String>,
    /// Where the block begins.
    pub at: Position,
}

/// A `tool` block that is no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Where the block begins.
    pub at: Position,
    /// What is wrong, in words that can be sent back to the model.
    pub why: String,
    /// The block with its fences; only the start of one that is too large.
    pub text: String,
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// From 0.
    pub byte: usize,
}

/// What is in a whole text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Parsed {
    /// The calls, in order.
    pub calls: Vec<Fenced>,
    /// The text without `tool` blocks.
    pub text: String,
    /// The `tool` blocks that are no calls.
    pub malformed: Vec<Malformed>,
}

/// Reads a whole text.
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

/// A result as a fenced `result` block, to be sent back to the model: the object that every codec
/// has, in one line. The fence is longer than any run of backticks in it.
///
/// # Errors
/// If the result has no JSON form, which none that came from a daemon lacks.
pub fn render(result: &CallResult) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(result)?;
    let longest = json.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    Ok(format!("{fence}result\n{json}\n{fence}\n"))
}
