//! One place of a change: a part of the patch's text that is read again when it is applied, so that
//! a million of them are small. Pure.

use crate::text;
use std::{fmt, ops::Range, sync::Arc};

/// One change of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The patch.
    pub(crate) patch: Arc<[u8]>,
    /// The line of the patch that begins it.
    pub(crate) line: u32,
    /// Its lines, with their marks.
    pub(crate) body: Range<u32>,
    /// What it says of its place.
    pub(crate) at: At,
}

impl fmt::Debug for Hunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hunk").field("line", &self.line).field("at", &self.at).finish()
    }
}

/// What a hunk says of its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum At {
    /// Unified: so many lines of the old file stand before it.
    After(u32),
    /// `*** Begin Patch`: after the lines that its `@@` lines name, or anywhere.
    Anchors {
        /// The `@@` lines.
        lines: Range<u32>,
        /// Where it ends.
        end: End,
    },
}

/// Where a hunk of `*** Begin Patch` ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Anywhere.
    Anywhere,
    /// At the end of the file.
    OfFile,
}

/// One line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) kind: Kind,
    /// Without its newline.
    pub(crate) text: &'a [u8],
    pub(crate) newline: Newline,
}

/// What a line of a hunk does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Context,
    Old,
    New,
}

/// Whether a line has a newline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Newline {
    Present,
    Absent,
}

impl Hunk {
    /// A part of the patch's text.
    pub(crate) fn part(&self, range: &Range<u32>) -> &[u8] {
        &self.patch[range.start as usize..range.end as usize]
    }

    /// All its lines.
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

    /// The lines that the old file has.
    pub(crate) fn old(&self) -> impl Iterator<Item = Line<'_>> {
        self.lines().filter(|line| line.kind != Kind::New)
    }

    /// The anchors of its `@@` lines that have one.
    pub(crate) fn anchors<'a>(&'a self, lines: &Range<u32>) -> impl Iterator<Item = &'a [u8]> {
        let lines = text::lines(self.part(lines)).map(text::bare);
        lines.filter_map(|line| line.strip_prefix(b"@@ ")).filter(|a| !a.trim_ascii().is_empty())
    }
}
