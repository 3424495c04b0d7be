//! Detects the format of a patch and parses it, within limits. Pure: no I/O.

use crate::{
    begin,
    error::{PatchError, Problem},
    patch::Patch,
    reader::{Files, Reader},
    text::{self, Endings},
    unified,
};
use std::sync::Arc;

/// Most bytes of a patch.
pub const MAX_PATCH: usize = 8 * 1024 * 1024;

/// Parses a patch. The format is detected from the text: unified diff, git diff or `*** Begin
/// Patch`. A patch whose lines all end with CRLF is parsed as if they ended with LF.
///
/// # Errors
///
/// Returns the first problem; see [`Problem`].
pub fn parse(text: &[u8]) -> Result<Patch, PatchError> {
    if text.len() > MAX_PATCH {
        let problem = Problem::TooMuch { most: MAX_PATCH, what: "bytes" };
        return Err(PatchError { line: 1, problem });
    }
    let source: Arc<[u8]> = match text::endings(text) {
        Endings::Crlf => text::to_lf(text).into(),
        Endings::Other => text.into(),
    };
    let source = begin::without_heredoc(&source).map_or_else(|| Arc::clone(&source), Arc::from);
    let mut reader = Reader::new(&source);
    let mut files = Files::default();
    while reader.peek().is_some_and(|line| line.trim_ascii().is_empty()) {
        reader.skip();
    }
    if reader.peek().is_some_and(begin::begins) {
        begin::parse(&mut reader, &mut files)?;
    } else {
        unified::parse(&mut reader, &mut files)?;
    }
    match files.into_patches() {
        files if files.is_empty() => Err(PatchError { line: 1, problem: Problem::NoPatch }),
        files => Ok(Patch { files }),
    }
}
