//! What broker and cell say to each other about looking for files, and for lines in them.

use crate::Path;
use bincode::{Decode, Encode};

/// Which entries of a tree are meant. `.git` is never one of them, nor what is in it, unless it
/// is the directory that was named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Choice {
    /// Those whose path below the directory matches; whose name does, if there is no slash in it.
    /// With `!` in front: all others.
    pub glob: Option<String>,
    /// Also those whose name, or a directory's above it, begins with a dot.
    pub hidden: bool,
    /// Also those that a `.gitignore`, a `.ignore` or a `.git/info/exclude` leaves out.
    pub ignored: bool,
}

/// Look for files by their names.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Glob {
    /// The directory; absolute.
    pub path: Path,
    /// Which.
    pub choice: Choice,
    /// Files at most.
    pub limit: u64,
}

/// Look for lines.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Grep {
    /// A directory or a file; absolute.
    pub path: Path,
    /// Which files.
    pub choice: Choice,
    /// What to look for.
    pub pattern: String,
    /// What the pattern is.
    pub syntax: Syntax,
    /// Whether `a` and `A` are the same.
    pub case_insensitive: bool,
    /// A match may go over several lines.
    pub multiline: bool,
    /// What is wanted.
    pub wanted: Wanted,
    /// Matching lines at most; files, where only files are wanted.
    pub limit: u64,
    /// Files with more bytes are passed over.
    pub most: u64,
}

/// What a pattern is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Syntax {
    /// A regular expression.
    Regex,
    /// The text itself.
    Literal,
}

/// What a search is to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Wanted {
    /// The lines, with some around them.
    Lines {
        /// Lines before each.
        before: u32,
        /// Lines after each.
        after: u32,
    },
    /// The files.
    Files,
    /// The files, and how many of their lines match.
    Counts,
}

/// What a search by name found.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Globbed {
    /// Where the directory really is, links resolved.
    pub real: Path,
    /// The newest first; of the same age by path.
    pub files: Vec<Aged>,
    /// How many there are in all.
    pub total: u64,
    /// Not everything could be looked at.
    pub more: bool,
}

/// A file and its age.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Aged {
    /// Below the directory that was searched.
    pub path: Path,
    /// When its contents changed last, in seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Bytes.
    pub size: u64,
}

/// What a search in files found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Grepped {
    /// Where what was searched really is, links resolved.
    pub real: Path,
    /// In the order of their paths' bytes.
    pub files: Vec<Hits>,
    /// How many files match in all.
    pub total_files: u64,
    /// How many lines match in all; not counted if only files are wanted.
    pub total_lines: u64,
    /// Files that were searched.
    pub searched: u64,
    /// Files that were not.
    pub skipped: Skipped,
    /// Not everything could be looked at.
    pub more: bool,
}

/// Files that were not searched, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Skipped {
    /// They are not text.
    pub binary: u64,
    /// They, or a line of theirs, are too large.
    pub large: u64,
    /// The kernel refused them, or a directory.
    pub unreadable: u64,
}

/// What matches in one file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hits {
    /// Below the directory that was searched; empty if the file itself was named.
    pub path: Path,
    /// How many of its lines match.
    pub count: u64,
    /// The first of them, and those around.
    pub lines: Vec<Line>,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Line {
    /// From 1.
    pub number: u64,
    /// It matches; else it stands near one that does.
    pub matches: bool,
    /// Where the first match that begins in it begins, in bytes from 1.
    pub column: Option<u64>,
    /// Bytes left out before `text`.
    pub before: u64,
    /// Its bytes, without the end of the line.
    pub text: Vec<u8>,
    /// Bytes left out after `text`.
    pub after: u64,
}
