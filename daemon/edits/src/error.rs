//! Errors of edits and patches, worded so that a model can correct them. Pure: no I/O.

use crate::near::{Cause, NearestLines, Occurrences, explain};
use thiserror::Error;

/// An error for which edits are not applied. `edit` counts from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    /// There are no edits.
    #[error("no edits were given")]
    Empty,
    /// The old text is empty, which would match everywhere.
    #[error(
        "edit {edit}: the old text is empty and the file is not: give the text to replace, or \
         write the whole file"
    )]
    EmptyOld {
        /// The number of the edit.
        edit: usize,
    },
    /// The old and the new text are the same.
    #[error("edit {edit}: the old and the new text are the same")]
    Same {
        /// The number of the edit.
        edit: usize,
    },
    /// The old text is not in the file.
    #[error("edit {edit}: the old text is not in the file{}", explain(*cause, near.as_ref()))]
    NoMatch {
        /// The number of the edit.
        edit: usize,
        /// The only difference to the nearest lines, if that is known.
        cause: Option<Cause>,
        /// The lines that are most similar.
        near: Option<NearestLines>,
    },
    /// The old text occurs more than once.
    #[error(
        "edit {edit}: the old text is in the file {} times, at {places}: give more of the lines \
         around it, or replace all",
        places.count
    )]
    Ambiguous {
        /// The number of the edit.
        edit: usize,
        /// The occurrences.
        places: Occurrences,
    },
    /// The file would be too large.
    #[error("edit {edit}: the file would have {size} bytes, more than {most}")]
    TooLarge {
        /// The number of the edit.
        edit: usize,
        /// The size in bytes that the file would have.
        size: usize,
        /// The limit in bytes.
        most: usize,
    },
}

/// The problem for which a patch is refused, and its line in the patch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line} of the patch: {problem}")]
pub struct PatchError {
    /// The line of the patch, from 1.
    pub line: usize,
    /// The problem.
    pub problem: Problem,
}

/// A problem with a patch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// The text has none of the three formats.
    #[error(
        "this is not a patch: expected a unified diff (`--- a/f`, `+++ b/f`, `@@ -1,2 +1,2 @@`), \
         a git diff (`diff --git a/f b/f`) or `*** Begin Patch`"
    )]
    NoPatch,
    /// A limit is exceeded.
    #[error("more than {most} {what}")]
    TooMuch {
        /// The limit.
        most: usize,
        /// The unit that the limit counts.
        what: &'static str,
    },
    /// A line is not what was expected there.
    #[error("expected {expected}, found `{found}`")]
    Expected {
        /// The expected text.
        expected: &'static str,
        /// The text that was found.
        found: String,
    },
    /// A path is refused.
    #[error("the path `{path}` {why}")]
    Path {
        /// The path.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// The patch is for something other than an ordinary file.
    #[error("mode {mode} is not supported: only 100644 and 100755 are (no links, no submodules)")]
    Mode {
        /// The mode.
        mode: String,
    },
    /// The patch contains binary data instead of lines.
    #[error("binary patches are not supported: write the whole file instead")]
    Binary,
    /// Two parts of the patch are for the same path.
    #[error("the path `{path}` is already in the patch at line {first}: combine its hunks")]
    Twice {
        /// The path.
        path: String,
        /// The line of the patch where the path occurs first.
        first: usize,
    },
    /// The two names of a file do not belong to one file.
    #[error(
        "the names `{old}` and `{new}` differ: a rename is a git diff with `rename from` and \
             `rename to`"
    )]
    Names {
        /// The first name.
        old: String,
        /// The second name.
        new: String,
    },
    /// The patch changes nothing in a file.
    #[error("the patch changes nothing in `{path}`: expected a hunk, a rename or a mode")]
    NoChange {
        /// The file.
        path: String,
    },
    /// A hunk does not have the number of lines that its header says.
    #[error(
        "the hunk's header says {} old and {} new lines, its body has {} and {}",
        said.0, said.1, has.0, has.1
    )]
    Counts {
        /// The numbers of old and new lines in the header.
        said: (usize, usize),
        /// The numbers of old and new lines in the body.
        has: (usize, usize),
    },
    /// The old lines of a hunk are not in the file.
    #[error(
        "the old lines of this hunk are not in the file{}; expected\n{expected}",
        explain(*cause, near.as_ref())
    )]
    NoMatch {
        /// The first of the lines that were searched for.
        expected: String,
        /// The only difference to the nearest lines, if that is known.
        cause: Option<Cause>,
        /// The lines that are most similar.
        near: Option<NearestLines>,
    },
    /// The old lines of a hunk occur more than once.
    #[error(
        "the old lines of this hunk are in the file {} times, at {places}: give more context, or \
         {better}",
        places.count
    )]
    Ambiguous {
        /// The occurrences.
        places: Occurrences,
        /// A hint what else would make the place unambiguous.
        better: &'static str,
    },
    /// The old lines of a hunk occur only before the end of the previous hunk.
    #[error(
        "the old lines of this hunk are in the file only at {places}, before the end of the hunk \
         before: hunks go from top to bottom and do not overlap"
    )]
    Order {
        /// The occurrences.
        places: Occurrences,
    },
    /// The line of an anchor is not in the file.
    #[error("no line of the file is `{anchor}`{}", explain(None, near.as_ref()))]
    NoAnchor {
        /// The text that was searched for.
        anchor: String,
        /// The lines that are most similar.
        near: Option<NearestLines>,
    },
    /// The line of an anchor occurs more than once.
    #[error(
        "{} lines of the file are `{anchor}`, at {places}: put an `@@` line with the line that \
         encloses it before it",
        places.count
    )]
    AnchorAmbiguous {
        /// The text that was searched for.
        anchor: String,
        /// The occurrences.
        places: Occurrences,
    },
    /// A hunk is for a place after the end of the file.
    #[error("the hunk is at line {at}, but the file has {lines} lines")]
    Beyond {
        /// The line number in the patch.
        at: usize,
        /// The number of lines in the file.
        lines: usize,
    },
    /// The file to delete has more content than the patch says.
    #[error(
        "the deletion would leave {left} bytes of the file: the patch does not contain all of it"
    )]
    Leaves {
        /// The number of bytes that would be left.
        left: usize,
    },
    /// A file to create already has content.
    #[error("the patch creates `{path}`, which already exists with {size} bytes")]
    Exists {
        /// The file.
        path: String,
        /// The file's size in bytes.
        size: usize,
    },
    /// Finding the places of the hunks would take too much work.
    #[error(
        "the hunks' lines repeat too often in the file to find their places: give correct line \
         numbers or more context"
    )]
    Work,
}
