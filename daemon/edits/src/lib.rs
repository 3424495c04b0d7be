//! Edits and patches of text files, working on bytes: no files, no clock. The text of an agent and
//! of a file are both hostile. Every operation is therefore bounded, and one that does not fit
//! exactly is refused with the nearest lines. Runs in the cell, which reads and writes the files.

mod apply;
mod begin;
mod diff;
mod error;
mod git;
mod hunk;
mod hunks;
mod lines;
mod named;
mod near;
mod nearest;
mod parse;
mod patch;
mod path;
mod place;
mod reader;
mod replace;
mod text;
mod unified;

pub use diff::{Diff, unified};
pub use error::{EditError, PatchError, Problem};
pub use hunk::Hunk;
pub use near::{Cause, NearestLines, Occurrences};
pub use parse::{MAX_PATCH, parse};
pub use patch::{Destination, FilePatch, Mode, Patch};
pub use reader::{MAX_FILES, MAX_HUNKS};
pub use replace::{Edit, EditedText, MAX_TEXT, ReplaceCount, edit};
