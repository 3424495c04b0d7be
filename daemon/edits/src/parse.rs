//! A patch's text, told apart and read within bounds. Pure.

use crate::{
    begin,
    error::{PatchError, Problem},
    patch::Patch,
    reader::{Files, Reader},
    text::{self, Endings},
    unified,
};
use std::sync::Arc;

/// The most bytes of a patch.
pub const MAX_PATCH: usize = 8 * 1024 * 1024;

/// Reads a patch: unified diffs, git diffs, or `*** Begin Patch`, told apart by its text. One whose
/// lines all end with CRLF is read as if they ended with LF.
///
/// # Errors
///
/// The first line that is wrong; see [`Problem`].
pub fn parse(text: &[u8]) -> Result<Patch, PatchError> {
    if text.len() > MAX_PATCH {
        let problem = Problem::TooMuch { most: MAX_PATCH, what: "bytes" };
        return Err(PatchError { line: 1, problem });
    }
    let source: Arc<[u8]> = match text::endings(text) {
        Endings::Crlf => text::to_lf(text).into(),
        Endings::Other => text.into(),
    };
    let mut reader = Reader::new(&source);
    let mut files = Files::default();
    while reader.peek().is_some_and(|line| line.trim_ascii().is_empty()) {
        reader.skip();
    }
    if reader.peek().is_some_and(|line| line.trim_ascii_end() == b"*** Begin Patch") {
        begin::parse(&mut reader, &mut files)?;
    } else {
        unified::parse(&mut reader, &mut files)?;
    }
    match files.into_patches() {
        files if files.is_empty() => Err(PatchError { line: 1, problem: Problem::NoPatch }),
        files => Ok(Patch { files }),
    }
}
