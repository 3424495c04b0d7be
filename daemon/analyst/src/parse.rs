//! Parses text to the syntax tree that the analysis reads, within limits.

use crate::{convert::Converter, message::MAX_TEXT, nesting::is_shallow};
use brush_parser::{Parser, ParserOptions};
use palisade_policy::analysis::{Body, Parse, ParseError};
use palisade_protocol::Span;

/// The largest nesting depth of substitutions.
const MOST_DEPTH: usize = 12;

/// The parser of shell text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shell;

impl Shell {
    /// Makes a parser of the bash language.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Parse for Shell {
    fn parse(&self, text: &str) -> Result<Body, ParseError> {
        parse_at(text, 0, None)
    }
}

/// Parses a text that is nested in `depth` substitutions, at position `base` of the whole text.
pub(crate) fn parse_at(text: &str, depth: usize, base: Option<Span>) -> Result<Body, ParseError> {
    if text.len() > MAX_TEXT || depth > MOST_DEPTH || !is_shallow(text) {
        return Err(ParseError::TooMuch);
    }
    if text.contains('\0') {
        return Err(ParseError::Syntax("it has a NUL in it".to_owned()));
    }
    let options = options();
    let mut parser = Parser::new(text.as_bytes(), &options);
    let program = parser.parse_program().map_err(|error| ParseError::Syntax(error.to_string()))?;
    Ok(Converter::new(text, depth, base).program(&program))
}

/// Returns the options for every parse.
pub(crate) fn options() -> ParserOptions {
    ParserOptions::default()
}
