//! What a message says of where a text is, or what is nearest to it. Pure.

use std::fmt;

/// What alone is different between a text that was looked for and the nearest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// CRLF here and LF there.
    LineEndings,
    /// Tabs here and spaces there.
    Tabs,
    /// The white space before lines.
    Indentation,
    /// The white space after lines.
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

/// The lines of a file that look most like a text, some of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// The first of them, from 1.
    pub line: usize,
    /// The lines.
    pub text: String,
}

/// Where a text stands: how often, and the lines of the first places.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// How often.
    pub count: usize,
    /// The first lines, from 1.
    pub lines: Vec<usize>,
}

/// The most lines that a list of places names.
const NAMED: usize = 10;

impl Places {
    /// Enters one more place.
    pub(crate) fn push(&mut self, line: usize) {
        self.count += 1;
        if self.lines.len() < NAMED {
            self.lines.push(line);
        }
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.lines.iter().map(usize::to_string).collect();
        let word = if self.count == 1 { "line" } else { "lines" };
        write!(f, "{word} {}", lines.join(", "))?;
        match self.count.saturating_sub(self.lines.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The end of a message about a text that was not found.
pub(crate) fn explain(cause: Option<Cause>, near: Option<&Near>) -> String {
    let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    match near {
        Some(near) => format!("{cause}; nearest, at line {}:\n{}", near.line, near.text),
        None => format!("{cause}; nothing in the file looks like it"),
    }
}
