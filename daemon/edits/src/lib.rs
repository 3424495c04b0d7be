//! Edits and patches of text files, over bytes: no files, no clock. Runs in the cell, which reads
//! and writes what is edited. The text of an agent and of a file are both hostile: every act is
//! bounded, and one that does not fit exactly is refused with the nearest lines.

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
pub use near::{Cause, Near, Places};
pub use parse::{MAX_PATCH, parse};
pub use patch::{FilePatch, Mode, Patch, To};
pub use reader::{MAX_FILES, MAX_HUNKS};
pub use replace::{Edit, Every, MAX_TEXT, edit};
