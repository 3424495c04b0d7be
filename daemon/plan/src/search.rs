//! Messages between broker and cell for finding files, and lines in files.

use crate::Path;
use bincode::{Decode, Encode};

/// Selects entries of a tree. `.git` and its contents are never selected, unless `.git` is the
/// directory named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Choice {
    /// Selects entries whose path below the directory matches. A pattern without a slash is matched
    /// against the name alone. A leading `!` selects all others.
    pub glob: Option<String>,
    /// True to include entries whose name, or a parent's name, begins with a dot.
    pub hidden: bool,
    /// True to include entries that a `.gitignore`, `.ignore` or `.git/info/exclude` excludes.
    pub ignored: bool,
}

/// A search for files by name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Glob {
    /// The directory to search, as an absolute path.
    pub path: Path,
    /// The selection of entries.
    pub choice: Choice,
    /// Most files to return.
    pub limit: u64,
}

/// A search for lines in files.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Grep {
    /// The directory or file to search, as an absolute path.
    pub path: Path,
    /// The selection of files to search.
    pub choice: Choice,
    /// The pattern to search for.
    pub pattern: String,
    /// The syntax of the pattern.
    pub syntax: Syntax,
    /// True if upper and lower case are treated as the same.
    pub case_insensitive: bool,
    /// True if a match may span several lines.
    pub multiline: bool,
    /// The kind of result to report.
    pub wanted: SearchReport,
    /// Most matching lines to return, or most files if only files are wanted.
    pub limit: u64,
    /// Most bytes of a file; larger files are skipped.
    pub most: u64,
}

/// The syntax of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Syntax {
    /// A regular expression.
    Regex,
    /// Literal text.
    Literal,
}

/// The kind of result that a search reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum SearchReport {
    /// The matching lines, with context.
    Lines {
        /// Lines of context before each match.
        before: u32,
        /// Lines of context after each match.
        after: u32,
    },
    /// The names of matching files.
    Files,
    /// The names of matching files, with the number of matching lines.
    Counts,
}

/// The result of a search by name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GlobResult {
    /// The real path of the directory, with links resolved.
    pub real: Path,
    /// The files, newest first; files of the same age are sorted by path.
    pub files: Vec<AgedFile>,
    /// The number of matching files in all.
    pub total: u64,
    /// True if the search could not look at everything.
    pub more: bool,
}

/// A file with its age.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AgedFile {
    /// The path relative to the directory searched.
    pub path: Path,
    /// Modification time, in seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Size in bytes.
    pub size: u64,
}

/// The result of a search in files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct GrepResult {
    /// The real path of the directory or file searched, with links resolved.
    pub real: Path,
    /// The matching files, sorted by the bytes of their paths.
    pub files: Vec<Hits>,
    /// The number of matching files in all.
    pub total_files: u64,
    /// The number of matching lines in all; not counted if only files are wanted.
    pub total_lines: u64,
    /// The number of files that were searched.
    pub searched: u64,
    /// The numbers of files that were skipped, by reason.
    pub skipped: SkippedFiles,
    /// True if the search could not look at everything.
    pub more: bool,
}

/// Numbers of files that were skipped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct SkippedFiles {
    /// Files that are not text.
    pub binary: u64,
    /// Files that are too large, or have a line that is too large.
    pub large: u64,
    /// Files that the kernel refused to open, or that are in such a directory.
    pub unreadable: u64,
}

/// The matches in one file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hits {
    /// The path relative to the directory searched; empty if the file itself was named.
    pub path: Path,
    /// The number of its lines that match.
    pub count: u64,
    /// The first matching lines, with their context.
    pub lines: Vec<Line>,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Line {
    /// The line number, from 1.
    pub number: u64,
    /// True if the line matches; otherwise it is context.
    pub matches: bool,
    /// The column, in bytes from 1, of the first match that begins in the line.
    pub column: Option<u64>,
    /// Bytes left out before `text`.
    pub before: u64,
    /// The bytes of the line, without the line ending.
    pub text: Vec<u8>,
    /// Bytes left out after `text`.
    pub after: u64,
}
