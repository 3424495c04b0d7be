//! Exact replacement of one text by another. Pure: no I/O.

use crate::{
    error::EditError,
    near::Occurrences,
    nearest,
    text::{Endings, endings, to_crlf},
};
use memchr::memmem::Finder;
use std::borrow::Cow;

/// Most bytes that a file may have after edits.
pub const MAX_TEXT: usize = 64 * 1024 * 1024;

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The text to replace.
    pub old: Vec<u8>,
    /// The new text.
    pub new: Vec<u8>,
    /// The number of occurrences to replace.
    pub every: ReplaceCount,
}

/// The number of occurrences of a text that are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaceCount {
    /// The only one: the text must occur exactly once.
    Once,
    /// All of them, from the start and without overlaps; the text must occur at least once.
    All,
}

/// A text after its edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedText {
    /// The new text.
    pub text: Vec<u8>,
    /// The number of occurrences that were replaced, by all edits together.
    pub replacements: usize,
}

/// Applies edits one after another. If one does not fit, none is applied.
///
/// The old text matches byte for byte. In a file whose lines all end with CRLF, an old text without
/// CRLF matches as if it had it, and the new text is written with CRLF.
///
/// # Errors
///
/// See [`EditError`]; each error names its edit.
pub fn edit(text: &[u8], edits: &[Edit]) -> Result<EditedText, EditError> {
    if edits.is_empty() {
        return Err(EditError::Empty);
    }
    let (mut text, mut replacements) = (Cow::Borrowed(text), 0);
    for (index, edit) in edits.iter().enumerate() {
        let edited = one(&text, edit, index + 1)?;
        replacements += edited.replacements;
        text = Cow::Owned(edited.text);
    }
    Ok(EditedText { text: text.into_owned(), replacements })
}

fn one(text: &[u8], edit: &Edit, number: usize) -> Result<EditedText, EditError> {
    if edit.old.is_empty() {
        return match text.is_empty() {
            true if edit.new.is_empty() => Err(EditError::Same { edit: number }),
            true => sized(number, edit.new.len())
                .map(|()| EditedText { text: edit.new.clone(), replacements: 1 }),
            false => Err(EditError::EmptyOld { edit: number }),
        };
    }
    let (old, new) = as_the_file_has_it(text, edit);
    if old == new {
        return Err(EditError::Same { edit: number });
    }
    let finder = Finder::new(old.as_ref());
    let starts: Vec<usize> = finder.find_iter(text).collect();
    match (starts.as_slice(), edit.every) {
        ([], ReplaceCount::Once | ReplaceCount::All) => {
            let (cause, near) = nearest::find(text, &old);
            return Err(EditError::NoMatch { edit: number, cause, near });
        }
        ([start], ReplaceCount::Once) => {
            // A second occurrence that overlaps the first is just as ambiguous.
            if let Some(more) = finder.find(&text[start + 1..]) {
                return Err(ambiguous(text, &[*start, start + 1 + more], number));
            }
        }
        ([_, _, ..], ReplaceCount::Once) => return Err(ambiguous(text, &starts, number)),
        ([_, ..], ReplaceCount::All) => {}
    }
    let less = starts.len() * old.len();
    let size = starts.len().saturating_mul(new.len()).saturating_add(text.len() - less);
    sized(number, size)?;
    let text = replaced(text, &starts, old.len(), &new, size);
    Ok(EditedText { text, replacements: starts.len() })
}

/// Returns the old and the new text with the file's line endings.
fn as_the_file_has_it<'a>(text: &[u8], edit: &'a Edit) -> (Cow<'a, [u8]>, Cow<'a, [u8]>) {
    let has_crlf = memchr::memmem::find(&edit.old, b"\r\n").is_some();
    match endings(text) {
        Endings::Crlf if !has_crlf => (to_crlf(&edit.old).into(), to_crlf(&edit.new).into()),
        Endings::Crlf | Endings::Other => (edit.old.as_slice().into(), edit.new.as_slice().into()),
    }
}

fn sized(edit: usize, size: usize) -> Result<(), EditError> {
    match size <= MAX_TEXT {
        true => Ok(()),
        false => Err(EditError::TooLarge { edit, size, most: MAX_TEXT }),
    }
}

fn ambiguous(text: &[u8], starts: &[usize], edit: usize) -> EditError {
    let mut places = Occurrences::default();
    let (mut line, mut seen) = (1, 0);
    for start in starts {
        line += memchr::memchr_iter(b'\n', &text[seen..*start]).count();
        seen = *start;
        places.push(line);
    }
    EditError::Ambiguous { edit, places }
}

fn replaced(text: &[u8], starts: &[usize], width: usize, new: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size);
    let mut seen = 0;
    for start in starts {
        out.extend_from_slice(&text[seen..*start]);
        out.extend_from_slice(new);
        seen = start + width;
    }
    out.extend_from_slice(&text[seen..]);
    out
}
