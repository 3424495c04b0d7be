//! Reads lines of limited length from a byte stream.

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// The outcome of reading a line.
#[derive(Debug)]
pub(crate) enum InputLine {
    /// A line with its newline.
    Whole(Vec<u8>),
    TooLong,
    End,
}

/// The handling of the bytes of the current line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Kept,
    /// The line is too long; the rest of it is dropped.
    Dropped,
}

/// A reader of lines.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    reading: Reading,
    most: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader of lines of at most `most` bytes.
    pub(crate) fn new(reader: R, most: usize) -> Self {
        let reader = BufReader::new(reader);
        Self { reader, line: Vec::new(), reading: Reading::Kept, most }
    }

    /// Reads up to the next end of a line. May be dropped at any time and called again: what was
    /// read is kept.
    pub(crate) async fn next(&mut self) -> InputLine {
        loop {
            // An error of the input is its end: nothing more can come.
            let Ok(available) = self.reader.fill_buf().await else { return InputLine::End };
            if available.is_empty() {
                return InputLine::End;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let fits = self.line.len() + taken <= self.most;
            if self.reading == Reading::Kept && fits {
                self.line.extend_from_slice(available.get(..taken).unwrap_or_default());
            } else {
                self.line.clear();
                self.reading = Reading::Dropped;
            }
            self.reader.consume(taken);
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                return match std::mem::replace(&mut self.reading, Reading::Kept) {
                    Reading::Kept => InputLine::Whole(line),
                    Reading::Dropped => InputLine::TooLong,
                };
            }
        }
    }
}
