//! Finds `tool` blocks line by line, wherever the borders between chunks are. Pure.

use super::{MAX_BLOCK, Malformed, Piece, Position, block};

/// The most bytes of a line that can be a fence; a longer one is text.
const MAX_FENCE: usize = 1024;
/// How much is shown of a block that is too large.
const HEAD: usize = 1024;

/// Finds calls in a text while it streams in.
///
/// Text is passed on as soon as it can not begin a block. However the text is cut into chunks, the
/// calls, the malformed blocks and the text between them are the same.
#[derive(Debug)]
pub struct Parser {
    state: State,
    /// The line under way, as long as it may be a fence.
    held: String,
    rest: Rest,
    line: usize,
    /// Where the line under way begins.
    start: usize,
    /// How much there was.
    total: usize,
}

/// What becomes of the rest of the line under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It is held: the line may be a fence.
    Held,
    /// It belongs to what was before it.
    Passed,
}

#[derive(Debug)]
enum State {
    Text,
    /// A block of another language.
    Code(Fence),
    Tool(Block),
    /// A block that is too large, up to its end.
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
    /// With its first line.
    text: String,
    /// Where its second line begins.
    body: usize,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// A parser at the start of a text.
    #[must_use]
    pub fn new() -> Self {
        let (state, rest) = (State::Text, Rest::Held);
        Self { state, held: String::new(), rest, line: 1, start: 0, total: 0 }
    }

    /// Takes more of the text; what is known by now.
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

    /// The text ends here; what is left. A block that is not closed is malformed.
    #[must_use]
    pub fn finish(mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let held = std::mem::take(&mut self.held);
        self.whole(&held, &mut pieces);
        if let State::Tool(block) = self.state {
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

    /// A whole line, which may be a fence.
    fn whole(&mut self, line: &str, pieces: &mut Vec<Piece>) {
        let fence = if line.len() <= MAX_FENCE { read_fence(line) } else { None };
        match (&mut self.state, fence) {
            (State::Text, Some((fence, indent, info))) => {
                if info.split_whitespace().next() == Some("tool") {
                    let (line_number, byte) = (self.line, self.start + indent);
                    let at = Position { line: line_number, column: indent + 1, byte };
                    let (text, body) = (line.to_owned(), line.len());
                    self.state = State::Tool(Block { fence, at, text, body });
                } else {
                    self.pass(line, pieces);
                    self.state = State::Code(fence);
                }
            }
            (State::Code(open), Some((fence, _, info))) if closes(open, fence, info) => {
                self.pass(line, pieces);
                self.state = State::Text;
            }
            (State::Over(open), Some((fence, _, info))) if closes(open, fence, info) => {
                self.state = State::Text;
            }
            (State::Tool(block), Some((fence, _, info))) if closes(&block.fence, fence, info) => {
                let piece = match block::read(&block.text[block.body..], block.at) {
                    Ok(call) => Piece::Call(call),
                    Err(why) => {
                        let text = format!("{}{line}", block.text);
                        Piece::Malformed(Malformed { at: block.at, why, text })
                    }
                };
                pieces.push(piece);
                self.state = State::Text;
            }
            (State::Text | State::Code(_) | State::Tool(_) | State::Over(_), _) => {
                self.pass(line, pieces);
            }
        }
    }

    /// What is no fence goes where it belongs.
    fn pass(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        match &mut self.state {
            State::Text | State::Code(_) => match pieces.last_mut() {
                Some(Piece::Text(last)) => last.push_str(text),
                Some(Piece::Call(_) | Piece::Malformed(_)) | None if text.is_empty() => {}
                Some(Piece::Call(_) | Piece::Malformed(_)) | None => {
                    pieces.push(Piece::Text(text.to_owned()));
                }
            },
            State::Over(_) => {}
            State::Tool(block) => {
                block.text.push_str(text);
                if block.text.len() > block.body + MAX_BLOCK {
                    block.text.truncate(block.text.floor_char_boundary(HEAD));
                    let why = format!("the block has more than {MAX_BLOCK} bytes");
                    let text = std::mem::take(&mut block.text);
                    pieces.push(Piece::Malformed(Malformed { at: block.at, why, text }));
                    self.state = State::Over(block.fence);
                }
            }
        }
    }
}

/// A fence with what is before and behind its marks.
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

/// Whether a line that begins like this can be a fence.
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
