//! Parses the format between `*** Begin Patch` and `*** End Patch`. Pure: no I/O.

use crate::{
    error::{PatchError, Problem},
    hunk::{Hunk, HunkEnd, HunkPosition},
    patch::{Destination, FilePatch},
    path,
    reader::{Files, Reader},
    text::shown,
};
use std::sync::Arc;

/// Returns `true` if a line begins a patch of this format. White space around it does not matter.
pub(crate) fn begins(line: &[u8]) -> bool {
    line.trim_ascii() == b"*** Begin Patch"
}

/// Returns a patch without the here-document around it (`<<'EOF'` to `EOF`), which models copy from
/// shell commands; `None` if there is none.
pub(crate) fn without_heredoc(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii();
    let (first, rest) = text.split_at(memchr::memchr(b'\n', text)?);
    let word = first.trim_ascii_end().strip_prefix(b"<<")?;
    let quoted = |quote: &[u8]| word.strip_prefix(quote)?.strip_suffix(quote);
    let word = quoted(b"'").or_else(|| quoted(b"\"")).unwrap_or(word);
    let inside = rest.strip_suffix(word).filter(|_| !word.is_empty())?;
    inside.ends_with(b"\n").then_some(inside)
}

/// Returns `true` if the next line ends the patch. White space before it makes it a context line,
/// unless nothing follows.
fn ends(reader: &Reader<'_>) -> bool {
    let Some(line) = reader.peek() else { return false };
    let is_end = line.trim_ascii() == b"*** End Patch";
    is_end && (line.starts_with(b"*") || reader.rest().skip(1).all(|l| l.trim_ascii().is_empty()))
}

/// Parses all files, from the line that begins the patch to the one that ends it.
pub(crate) fn parse(reader: &mut Reader<'_>, files: &mut Files) -> Result<(), PatchError> {
    reader.skip();
    loop {
        let line = reader.peek().map(<[u8]>::trim_ascii_end);
        if ends(reader) {
            reader.skip();
            break;
        }
        let number = reader.line;
        if let Some(path) = argument(reader, b"*** Add File: ")? {
            let content = added(reader)?;
            files.push(FilePatch::Add { line: number, path, content, executable: None })?;
        } else if let Some(path) = argument(reader, b"*** Delete File: ")? {
            files.push(FilePatch::Delete { line: number, path, hunks: None })?;
        } else if let Some(path) = argument(reader, b"*** Update File: ")? {
            let to = argument(reader, b"*** Move to: ")?.map(Destination::Move);
            let hunks = hunks(reader)?;
            if hunks.is_empty() && to.is_none() {
                let problem = Problem::NoChange { path: shown(&path) };
                return Err(PatchError { line: number, problem });
            }
            files.push(FilePatch::Update { line: number, path, to, mode: None, hunks })?;
        } else if line.is_some_and(<[u8]>::is_empty) {
            reader.skip();
        } else {
            return Err(reader.expected(
                "`*** Add File: `, `*** Update File: `, `*** Delete File: ` or `*** End Patch`",
            ));
        }
    }
    while let Some(line) = reader.peek() {
        if !line.trim_ascii().is_empty() {
            return Err(reader.expected("nothing after `*** End Patch`"));
        }
        reader.skip();
    }
    Ok(())
}

/// Returns the path in the next line, if the line has this beginning.
fn argument(reader: &mut Reader<'_>, begin: &[u8]) -> Result<Option<Vec<u8>>, PatchError> {
    let line = reader.peek().map(<[u8]>::trim_ascii_start);
    let Some(name) = line.and_then(|line| line.strip_prefix(begin)) else {
        return Ok(None);
    };
    let path = path::check(name.trim_ascii(), reader.line)?;
    reader.skip();
    Ok(Some(path))
}

/// Parses the content of a new file.
fn added(reader: &mut Reader<'_>) -> Result<Vec<u8>, PatchError> {
    let mut content = Vec::new();
    while let Some(line) = reader.peek() {
        if let Some(text) = line.strip_prefix(b"+") {
            content.extend_from_slice(text);
            content.push(b'\n');
        } else if line.trim_ascii_start().starts_with(b"*** ") || line.trim_ascii().is_empty() {
            break;
        } else {
            return Err(reader.expected("a line that begins with `+`"));
        }
        reader.skip();
    }
    Ok(content)
}

fn hunks(reader: &mut Reader<'_>) -> Result<Vec<Hunk>, PatchError> {
    let mut hunks = Vec::new();
    while reader.peek().is_some_and(|line| !line.starts_with(b"*** ")) && !ends(reader) {
        reader.count_hunk()?;
        hunks.push(hunk(reader)?);
    }
    Ok(hunks)
}

fn hunk(reader: &mut Reader<'_>) -> Result<Hunk, PatchError> {
    let line = u32::try_from(reader.line).unwrap_or(u32::MAX);
    let mark = reader.mark();
    while reader.peek().is_some_and(is_anchor) {
        reader.skip();
    }
    let lines = reader.since(mark);
    let mark = reader.mark();
    while let Some(line) = reader.peek().filter(|_| !ends(reader)) {
        match line.first() {
            None | Some(b' ' | b'-' | b'+') => reader.skip(),
            Some(_) if is_anchor(line) || line.starts_with(b"*** ") => break,
            Some(_) => return Err(reader.expected("a line that begins with ` `, `-`, `+` or `@@`")),
        }
    }
    let body = reader.since(mark);
    if body.is_empty() {
        return Err(reader.expected("a line that begins with ` `, `-` or `+`"));
    }
    let is_end = reader.peek().is_some_and(|line| line.trim_ascii_end() == b"*** End of File");
    let end = if is_end { HunkEnd::OfFile } else { HunkEnd::Anywhere };
    if is_end {
        reader.skip();
    }
    let patch = Arc::clone(reader.source);
    Ok(Hunk { patch, line, body, at: HunkPosition::Anchors { lines, end } })
}

fn is_anchor(line: &[u8]) -> bool {
    line == b"@@" || line.starts_with(b"@@ ")
}
