//! Finds `tool` blocks line by line, wherever the borders between chunks are. Pure: no I/O.

use super::{MAX_BLOCK, Malformed, Piece, Position, block};

/// The maximum length of a line that can be a fence, in bytes; a longer line is text.
const MAX_FENCE: usize = 1024;
/// The number of bytes that are shown of a block that is too large.
const HEAD: usize = 1024;

/// Finds calls in a text while it streams in.
///
/// Text is returned as soon as it can not begin a block. However the text is cut into chunks, the
/// calls, the malformed blocks and the text between them are the same.
#[derive(Debug)]
pub struct Parser {
    state: ParserState,
    /// The current line, for as long as it may be a fence.
    held: String,
    rest: Rest,
    line: usize,
    /// The byte offset at which the current line begins.
    start: usize,
    /// The number of bytes parsed so far.
    total: usize,
}

/// The handling of the rest of the current line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// The rest is buffered, because the line may be a fence.
    Held,
    /// The rest is passed on with the text before it.
    Passed,
}

#[derive(Debug)]
enum ParserState {
    Text,
    /// A block of another language.
    Code(Fence),
    Tool(Block),
    /// A block that is too large; skipped up to its end.
    Over(Fence),
}

#[derive(Debug, Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

#[derive(Debug)]
struct Block {
    fence: Fence,
    at: Position,
    /// The block's text, including its first line.
    text: String,
    /// The offset in `text` at which the second line begins.
    body: usize,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// Creates a parser at the start of a text.
    #[must_use]
    pub fn new() -> Self {
        let (state, rest) = (ParserState::Text, Rest::Held);
        Self { state, held: String::new(), rest, line: 1, start: 0, total: 0 }
    }

    /// Parses more of the text and returns the pieces that are complete.
    #[must_use]
    pub fn push(&mut self, chunk: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for part in chunk.split_inclusive('\n') {
            self.total += part.len();
            self.take(part, &mut pieces);
            if part.ends_with('\n') {
                self.rest = Rest::Held;
                self.line += 1;
                self.start = self.total;
            }
        }
        pieces
    }

    /// Ends the text and returns the remaining pieces. A block that is not closed is malformed.
    #[must_use]
    pub fn finish(mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let held = std::mem::take(&mut self.held);
        self.whole(&held, &mut pieces);
        if let ParserState::Tool(block) = self.state {
            let marks = if block.fence.mark == '`' { "backticks" } else { "tildes" };
            let count = block.fence.length;
            let why = format!("the block is not closed: end it with a line of {count} {marks}");
            pieces.push(Piece::Malformed(Malformed { at: block.at, why, text: block.text }));
        }
        pieces
    }

    fn take(&mut self, part: &str, pieces: &mut Vec<Piece>) {
        if self.rest == Rest::Passed {
            return self.pass(part, pieces);
        }
        self.held.push_str(part);
        if part.ends_with('\n') {
            let held = std::mem::take(&mut self.held);
            self.whole(&held, pieces);
        } else if !may_be_fence(&self.held) {
            let held = std::mem::take(&mut self.held);
            self.rest = Rest::Passed;
            self.pass(&held, pieces);
        }
    }

    /// Handles a complete line, which may be a fence.
    fn whole(&mut self, line: &str, pieces: &mut Vec<Piece>) {
        let fence = if line.len() <= MAX_FENCE { read_fence(line) } else { None };
        match (&mut self.state, fence) {
            (ParserState::Text, Some((fence, indent, info))) => {
                if info.split_whitespace().next() == Some("tool") {
                    let (line_number, byte) = (self.line, self.start + indent);
                    let at = Position { line: line_number, column: indent + 1, byte };
                    let (text, body) = (line.to_owned(), line.len());
                    self.state = ParserState::Tool(Block { fence, at, text, body });
                } else {
                    self.pass(line, pieces);
                    self.state = ParserState::Code(fence);
                }
            }
            (ParserState::Code(open), Some((fence, _, info))) if closes(open, fence, info) => {
                self.pass(line, pieces);
                self.state = ParserState::Text;
            }
            (ParserState::Over(open), Some((fence, _, info))) if closes(open, fence, info) => {
                self.state = ParserState::Text;
            }
            (ParserState::Tool(block), Some((fence, _, info)))
                if closes(&block.fence, fence, info) =>
            {
                let piece = match block::read(&block.text[block.body..], block.at) {
                    Ok(call) => Piece::Call(call),
                    Err(why) => {
                        let text = format!("{}{line}", block.text);
                        Piece::Malformed(Malformed { at: block.at, why, text })
                    }
                };
                pieces.push(piece);
                self.state = ParserState::Text;
            }
            (
                ParserState::Text
                | ParserState::Code(_)
                | ParserState::Tool(_)
                | ParserState::Over(_),
                _,
            ) => {
                self.pass(line, pieces);
            }
        }
    }

    /// Adds text that is not a fence to the current text or block.
    fn pass(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        match &mut self.state {
            ParserState::Text | ParserState::Code(_) => match pieces.last_mut() {
                Some(Piece::Text(last)) => last.push_str(text),
                Some(Piece::Call(_) | Piece::Malformed(_)) | None if text.is_empty() => {}
                Some(Piece::Call(_) | Piece::Malformed(_)) | None => {
                    pieces.push(Piece::Text(text.to_owned()));
                }
            },
            ParserState::Over(_) => {}
            ParserState::Tool(block) => {
                block.text.push_str(text);
                if block.text.len() > block.body + MAX_BLOCK {
                    block.text.truncate(block.text.floor_char_boundary(HEAD));
                    let why = format!("the block has more than {MAX_BLOCK} bytes");
                    let text = std::mem::take(&mut block.text);
                    pieces.push(Piece::Malformed(Malformed { at: block.at, why, text }));
                    self.state = ParserState::Over(block.fence);
                }
            }
        }
    }
}

/// Parses a fence. Returns it with its indentation and its info string.
fn read_fence(line: &str) -> Option<(Fence, usize, &str)> {
    let line = line.trim_end_matches(['\n', '\r']);
    let marks = line.trim_start_matches(' ');
    let indent = line.len() - marks.len();
    let mark = marks.chars().next().filter(|c| *c == '`' || *c == '~')?;
    let info = marks.trim_start_matches(mark);
    let length = marks.len() - info.len();
    let is_fence = indent <= 3 && length >= 3 && !(mark == '`' && info.contains('`'));
    is_fence.then_some((Fence { mark, length }, indent, info))
}

fn closes(open: &Fence, fence: Fence, info: &str) -> bool {
    fence.mark == open.mark && fence.length >= open.length && info.trim().is_empty()
}

/// Returns `true` if a line that begins like this can be a fence.
fn may_be_fence(line: &str) -> bool {
    let marks = line.trim_start_matches(' ');
    let Some(mark) = marks.chars().next() else { return line.len() <= 3 };
    let info = marks.trim_start_matches(mark);
    let length = marks.len() - info.len();
    line.len() - marks.len() <= 3
        && line.len() <= MAX_FENCE
        && matches!(mark, '`' | '~')
        && (length >= 3 || info.is_empty())
}
