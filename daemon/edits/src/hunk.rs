//! A hunk: one contiguous change. It refers to a part of the patch's text that is parsed again when
//! it is applied, so that a million hunks take little memory. Pure: no I/O.

use crate::text;
use std::{fmt, ops::Range, sync::Arc};

/// One contiguous change of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The text of the patch.
    pub(crate) patch: Arc<[u8]>,
    /// The line of the patch where the hunk begins.
    pub(crate) line: u32,
    /// The range of its lines in the patch, with their markers.
    pub(crate) body: Range<u32>,
    /// The place where the hunk applies.
    pub(crate) at: HunkPosition,
}

impl fmt::Debug for Hunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hunk").field("line", &self.line).field("at", &self.at).finish()
    }
}

/// The place where a hunk applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HunkPosition {
    /// In a unified diff: after this many lines of the old file.
    After(u32),
    /// In `*** Begin Patch`: after the lines that its `@@` lines name, or anywhere.
    Anchors {
        /// The range of the `@@` lines in the patch.
        lines: Range<u32>,
        /// The place where the hunk must end.
        end: HunkEnd,
    },
}

/// The place where a hunk of `*** Begin Patch` must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HunkEnd {
    /// Anywhere.
    Anywhere,
    /// At the end of the file.
    OfFile,
}

/// One line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) kind: Kind,
    /// The text without its newline.
    pub(crate) text: &'a [u8],
    pub(crate) newline: Newline,
}

/// The role of a line in a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Context,
    Old,
    New,
}

/// The newline of a line: present or absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Newline {
    Present,
    Absent,
}

impl Hunk {
    /// Returns a part of the patch's text.
    pub(crate) fn part(&self, range: &Range<u32>) -> &[u8] {
        &self.patch[range.start as usize..range.end as usize]
    }

    /// Iterates over all lines of the hunk.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let mut lines = text::lines(self.part(&self.body)).map(text::bare).peekable();
        std::iter::from_fn(move || {
            let line = lines.next()?;
            let (kind, text) = match line.split_first() {
                Some((b'-', text)) => (Kind::Old, text),
                Some((b'+', text)) => (Kind::New, text),
                Some((_, text)) => (Kind::Context, text),
                None => (Kind::Context, line),
            };
            let newline = match lines.next_if(|line| line.starts_with(b"\\")) {
                Some(_) => Newline::Absent,
                None => Newline::Present,
            };
            Some(Line { kind, text, newline })
        })
    }

    /// Iterates over the lines that are in the old file.
    pub(crate) fn old(&self) -> impl Iterator<Item = Line<'_>> {
        self.lines().filter(|line| line.kind != Kind::New)
    }

    /// Iterates over the anchors in its `@@` lines; some have none.
    pub(crate) fn anchors<'a>(&'a self, lines: &Range<u32>) -> impl Iterator<Item = &'a [u8]> {
        let lines = text::lines(self.part(lines)).map(text::bare);
        lines.filter_map(|line| line.strip_prefix(b"@@ ")).filter(|a| !a.trim_ascii().is_empty())
    }
}
