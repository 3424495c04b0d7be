//! The parts of a message that say where a text is, or what is nearest to it. Pure: no I/O.

use std::fmt;

/// The only difference between the text that was searched for and the nearest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// One has CRLF and the other LF.
    LineEndings,
    /// One has tabs and the other spaces.
    Tabs,
    /// The white space at the start of lines.
    Indentation,
    /// The white space at the end of lines.
    TrailingSpace,
    /// White space or line breaks anywhere.
    Whitespace,
    /// Upper and lower case.
    Case,
    /// The newline at the end of the file.
    LastNewline,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineEndings => "it differs only in its line endings (CRLF and LF)",
            Self::Tabs => "it differs only in tabs and spaces",
            Self::Indentation => "it differs only in indentation",
            Self::TrailingSpace => "it differs only in white space at the end of lines",
            Self::Whitespace => "it differs only in white space",
            Self::Case => "it differs only in upper and lower case",
            Self::LastNewline => {
                "it differs only in the newline at the end of the file (`\\ No newline at end of \
                 file` says that there is none)"
            }
        })
    }
}

/// The lines of a file that are most similar to a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearestLines {
    /// The number of the first line, from 1.
    pub line: usize,
    /// The text of the lines.
    pub text: String,
}

/// The occurrences of a text: their number, and the lines of the first ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Occurrences {
    /// The number of occurrences.
    pub count: usize,
    /// The line numbers of the first occurrences, from 1.
    pub lines: Vec<usize>,
}

/// Most line numbers that are listed.
const NAMED: usize = 10;

impl Occurrences {
    /// Adds one occurrence.
    pub(crate) fn push(&mut self, line: usize) {
        self.count += 1;
        if self.lines.len() < NAMED {
            self.lines.push(line);
        }
    }
}

impl fmt::Display for Occurrences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<_> = self.lines.iter().map(usize::to_string).collect();
        // A line with several occurrences is named once.
        lines.dedup();
        let word = if lines.len() == 1 { "line" } else { "lines" };
        write!(f, "{word} {}", lines.join(", "))?;
        match self.count.saturating_sub(self.lines.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Returns the end of a message about a text that was not found.
pub(crate) fn explain(cause: Option<Cause>, near: Option<&NearestLines>) -> String {
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    match near {
        Some(near) => format!("{cause}; nearest, at line {}:\n{}", near.line, near.text),
        None => format!("{cause}; nothing in the file looks like it"),
    }
}
