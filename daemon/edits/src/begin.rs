//! The form between `*** Begin Patch` and `*** End Patch`. Pure.

use crate::{
    error::{PatchError, Problem},
    hunk::{At, End, Hunk},
    patch::{FilePatch, To},
    path,
    reader::{Files, Reader},
    text::shown,
};
use std::sync::Arc;

/// Reads all files, from the line that begins the patch to the one that ends it.
pub(crate) fn parse(reader: &mut Reader<'_>, files: &mut Files) -> Result<(), PatchError> {
    reader.skip();
    loop {
        let line = reader.peek().map(<[u8]>::trim_ascii_end);
        if line == Some(b"*** End Patch") {
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
            let to = argument(reader, b"*** Move to: ")?.map(To::Move);
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

/// The path of the next line, if it begins so.
fn argument(reader: &mut Reader<'_>, begin: &[u8]) -> Result<Option<Vec<u8>>, PatchError> {
    let Some(name) = reader.peek().and_then(|line| line.strip_prefix(begin)) else {
        return Ok(None);
    };
    let path = path::check(name.trim_ascii(), reader.line)?;
    reader.skip();
    Ok(Some(path))
}

/// The content of a new file.
fn added(reader: &mut Reader<'_>) -> Result<Vec<u8>, PatchError> {
    let mut content = Vec::new();
    while let Some(line) = reader.peek() {
        if let Some(text) = line.strip_prefix(b"+") {
            content.extend_from_slice(text);
            content.push(b'\n');
        } else if line.starts_with(b"*** ") || line.is_empty() {
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
    while reader.peek().is_some_and(|line| !line.starts_with(b"*** ")) {
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
    while let Some(line) = reader.peek() {
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
    let end = if is_end { End::OfFile } else { End::Anywhere };
    if is_end {
        reader.skip();
    }
    let patch = Arc::clone(reader.source);
    Ok(Hunk { patch, line, body, at: At::Anchors { lines, end } })
}

fn is_anchor(line: &[u8]) -> bool {
    line == b"@@" || line.starts_with(b"@@ ")
}
