//! What can be wrong with an edit or a patch, said so that a model can mend it. Pure.

use crate::near::{Cause, Near, Places, explain};
use thiserror::Error;

/// Why the edits were not made. `edit` counts from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    /// There is nothing to do.
    #[error("no edits were given")]
    Empty,
    /// An empty text stands everywhere.
    #[error(
        "edit {edit}: the old text is empty and the file is not: give the text to replace, or \
         write the whole file"
    )]
    EmptyOld {
        /// Which edit.
        edit: usize,
    },
    /// Nothing would change.
    #[error("edit {edit}: the old and the new text are the same")]
    Same {
        /// Which edit.
        edit: usize,
    },
    /// The old text is not in the file.
    #[error("edit {edit}: the old text is not in the file{}", explain(*cause, near.as_ref()))]
    NoMatch {
        /// Which edit.
        edit: usize,
        /// What alone is different, if that is known.
        cause: Option<Cause>,
        /// The lines that look most like it.
        near: Option<Near>,
    },
    /// The old text is there more than once.
    #[error(
        "edit {edit}: the old text is in the file {} times, at {places}: give more of the lines \
         around it, or replace all",
        places.count
    )]
    Ambiguous {
        /// Which edit.
        edit: usize,
        /// Where.
        places: Places,
    },
    /// The file would be too large.
    #[error("edit {edit}: the file would have {size} bytes, more than {most}")]
    TooLarge {
        /// Which edit.
        edit: usize,
        /// The bytes that it would have.
        size: usize,
        /// The most that it may have.
        most: usize,
    },
}

/// Why a patch was refused, and the line of the patch that says so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line} of the patch: {problem}")]
pub struct PatchError {
    /// The line of the patch, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a patch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// The text is none of the three forms.
    #[error(
        "this is no patch: expected a unified diff (`--- a/f`, `+++ b/f`, `@@ -1,2 +1,2 @@`), a git \
         diff (`diff --git a/f b/f`) or `*** Begin Patch`"
    )]
    NoPatch,
    /// More than is taken.
    #[error("more than {most} {what}")]
    TooMuch {
        /// The most.
        most: usize,
        /// Of what.
        what: &'static str,
    },
    /// A line that does not belong there.
    #[error("expected {expected}, found `{found}`")]
    Expected {
        /// What should stand there.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// A path that is refused.
    #[error("the path `{path}` {why}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Something else than an ordinary file.
    #[error("mode {mode} is refused: only 100644 and 100755 are taken (no links, no modules)")]
    Mode {
        /// The mode.
        mode: String,
    },
    /// The patch has bytes instead of lines.
    #[error("binary patches are refused: write the file as a whole instead")]
    Binary,
    /// A path has two parts of the patch.
    #[error("the path `{path}` is already in the patch at line {first}: put its hunks together")]
    Twice {
        /// The path.
        path: String,
        /// The line of the patch that has it first.
        first: usize,
    },
    /// The two names of a file are not of one file.
    #[error(
        "the names `{old}` and `{new}` differ: a rename is a git diff with `rename from` and \
             `rename to`"
    )]
    Names {
        /// The first.
        old: String,
        /// The second.
        new: String,
    },
    /// A file without a change.
    #[error("nothing is changed in `{path}`: expected a hunk, a rename or a mode")]
    NoChange {
        /// The file.
        path: String,
    },
    /// A hunk that has not the lines that its head says.
    #[error(
        "the hunk's head says {} old and {} new lines, its body has {} and {}",
        said.0, said.1, has.0, has.1
    )]
    Counts {
        /// Old and new, as said.
        said: (usize, usize),
        /// Old and new, as counted.
        has: (usize, usize),
    },
    /// The old lines of a hunk are not in the file.
    #[error(
        "the old lines of this hunk are not in the file{}; expected\n{expected}",
        explain(*cause, near.as_ref())
    )]
    NoMatch {
        /// The first of the lines that were looked for.
        expected: String,
        /// What alone is different, if that is known.
        cause: Option<Cause>,
        /// The lines that look most like them.
        near: Option<Near>,
    },
    /// The old lines are in the file more than once.
    #[error(
        "the old lines of this hunk are in the file {} times, at {places}: give more context, or \
         {better}",
        places.count
    )]
    Ambiguous {
        /// Where.
        places: Places,
        /// What else would help.
        better: &'static str,
    },
    /// Only before the hunk before.
    #[error(
        "the old lines of this hunk are in the file only at {places}, before the end of the hunk \
         before: hunks go from top to bottom and do not overlap"
    )]
    Order {
        /// Where.
        places: Places,
    },
    /// The line of an anchor is not in the file.
    #[error("no line of the file is `{anchor}`{}", explain(None, near.as_ref()))]
    NoAnchor {
        /// What was looked for.
        anchor: String,
        /// The lines that look most like it.
        near: Option<Near>,
    },
    /// The line of an anchor is in the file more than once.
    #[error(
        "{} lines of the file are `{anchor}`, at {places}: put an `@@` line with what it is in \
         before it",
        places.count
    )]
    AnchorAmbiguous {
        /// What was looked for.
        anchor: String,
        /// Where.
        places: Places,
    },
    /// Lines to add, and nothing that says where.
    #[error(
        "nothing says where these lines go: give lines of context, an `@@` line with a line of the \
         file, or `*** End of File`"
    )]
    Nowhere,
    /// A place after the end.
    #[error("the hunk is at line {at} and the file has {lines} lines")]
    Beyond {
        /// The line.
        at: usize,
        /// The lines that there are.
        lines: usize,
    },
    /// The file that would be deleted has more than the patch says.
    #[error("the deletion leaves {left} bytes of the file: the patch does not show all of it")]
    Leaves {
        /// The bytes that would be left.
        left: usize,
    },
    /// A file that is to be new has content.
    #[error("the file `{path}` is to be new, and is there with {size} bytes")]
    Exists {
        /// The file.
        path: String,
        /// What it has.
        size: usize,
    },
    /// Looking for the places took too long.
    #[error(
        "the hunks' lines repeat too often in the file to find their places: give right line \
             numbers or more context"
    )]
    Work,
}
