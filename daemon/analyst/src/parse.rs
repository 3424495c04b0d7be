//! The parser: from text to the form that the analysis reads, within limits.

use crate::{convert::Converter, message::MAX_TEXT, nesting::is_shallow};
use brush_parser::{Parser, ParserOptions};
use palisade_policy::analysis::{Body, Parse, Unparsed};
use palisade_protocol::Span;

/// How deep substitutions may stand in substitutions.
const MOST_DEPTH: usize = 12;

/// The parser of shell text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shell;

impl Shell {
    /// A parser of bash's language.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Parse for Shell {
    fn parse(&self, text: &str) -> Result<Body, Unparsed> {
        parse_at(text, 0, None)
    }
}

/// Parses a text that stands `depth` substitutions deep, at `base` of the whole.
pub(crate) fn parse_at(text: &str, depth: usize, base: Option<Span>) -> Result<Body, Unparsed> {
    if text.len() > MAX_TEXT || depth > MOST_DEPTH || !is_shallow(text) {
        return Err(Unparsed::TooMuch);
    }
    if text.contains('\0') {
        return Err(Unparsed::Syntax("it has a NUL in it".to_owned()));
    }
    let options = options();
    let mut parser = Parser::new(text.as_bytes(), &options);
    let program = parser.parse_program().map_err(|error| Unparsed::Syntax(error.to_string()))?;
    Ok(Converter::new(text, depth, base).program(&program))
}

/// The options of every parse.
pub(crate) fn options() -> ParserOptions {
    ParserOptions::default()
}
