//! Parses the hunks of a unified diff, and checks their headers against their bodies. Pure: no I/O.

use crate::{
    error::{PatchError, Problem},
    hunk::{Hunk, HunkPosition, Kind},
    named::{begins_file, is_signature},
    reader::Reader,
    text,
};
use std::sync::Arc;

/// Parses the hunks of a file.
pub(crate) fn hunks(reader: &mut Reader<'_>) -> Result<Vec<Hunk>, PatchError> {
    let mut hunks = Vec::new();
    while reader.peek().is_some_and(|line| line.starts_with(b"@@")) {
        reader.count_hunk()?;
        hunks.push(hunk(reader)?);
    }
    Ok(hunks)
}

/// The numbers in a hunk header.
struct HunkHeader {
    after: u32,
    old: usize,
    new: usize,
}

fn hunk(reader: &mut Reader<'_>) -> Result<Hunk, PatchError> {
    let head = reader.peek().and_then(head);
    let head = head.ok_or_else(|| reader.expected("`@@ -LINE,COUNT +LINE,COUNT @@`"))?;
    let line = reader.line;
    reader.skip();
    let mark = reader.mark();
    if body(reader, &head)? == Body::Miscounted {
        let has = count(text::lines(&reader.source[mark as usize..]).map(text::bare));
        let problem = Problem::Counts { said: (head.old, head.new), has };
        return Err(PatchError { line, problem });
    }
    let patch = Arc::clone(reader.source);
    let line = u32::try_from(line).unwrap_or(u32::MAX);
    Ok(Hunk { patch, line, body: reader.since(mark), at: HunkPosition::After(head.after) })
}

/// The result of counting the lines of a hunk: the number in its header, or another.
#[derive(PartialEq, Eq)]
enum Body {
    Whole,
    Miscounted,
}

/// Advances over the lines of a hunk.
fn body(reader: &mut Reader<'_>, head: &HunkHeader) -> Result<Body, PatchError> {
    let (mut old, mut new) = (0, 0);
    let (mut old_ended, mut new_ended) = (false, false);
    let mut last = None;
    loop {
        let kind = match reader.peek().map(|line| line.first()) {
            Some(Some(b'\\')) => {
                let kind = last.take().ok_or_else(|| reader.expected("a line of the hunk"))?;
                old_ended |= kind != Kind::New;
                new_ended |= kind != Kind::Old;
                reader.skip();
                continue;
            }
            _ if (old, new) == (head.old, head.new) => break,
            Some(None | Some(b' ')) => Kind::Context,
            Some(Some(b'-')) => Kind::Old,
            Some(Some(b'+')) => Kind::New,
            Some(Some(_)) | None => return Ok(Body::Miscounted),
        };
        old += usize::from(kind != Kind::New);
        new += usize::from(kind != Kind::Old);
        if old > head.old || new > head.new {
            return Ok(Body::Miscounted);
        }
        if (old_ended && kind != Kind::New) || (new_ended && kind != Kind::Old) {
            return Err(reader.expected("no line after the one without a newline"));
        }
        last = Some(kind);
        reader.skip();
    }
    let goes_on = reader.peek().is_some_and(|line| b" +-".contains(line.first().unwrap_or(&0)));
    match goes_on && !begins_file(reader) && !is_signature(reader) {
        true => Ok(Body::Miscounted),
        false => Ok(Body::Whole),
    }
}

/// Parses a hunk header; `None` if it is invalid or its numbers are too large for a file.
fn head(line: &[u8]) -> Option<HunkHeader> {
    let line = std::str::from_utf8(line).ok().or_else(|| {
        // The text after the second `@@` comes from the file, and may be any bytes.
        let end = memchr::memmem::find(line, b" @@")? + 3;
        std::str::from_utf8(&line[..end]).ok()
    })?;
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let number = |text: &str| -> Option<u32> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    let range = |text: &str| -> Option<(u32, u32)> {
        match text.split_once(',') {
            Some((start, count)) => Some((number(start)?, number(count)?)),
            None => Some((number(text)?, 1)),
        }
    };
    let ((start, old), (_, new)) = (range(old)?, range(new)?);
    // An empty range names the line before it.
    let after = if old == 0 { start } else { start.checked_sub(1)? };
    let is_whole = old != 0 || new != 0;
    is_whole.then_some(HunkHeader { after, old: old as usize, new: new as usize })
}

/// Counts the old and new lines of a body, up to the next line that does not belong to it.
fn count<'a>(lines: impl Iterator<Item = &'a [u8]>) -> (usize, usize) {
    let (mut old, mut new) = (0, 0);
    let mut lines = lines.peekable();
    while let Some(line) = lines.next() {
        let is_next = |line: &&[u8]| line.starts_with(b"+++ ");
        if line.starts_with(b"--- ") && lines.peek().is_some_and(is_next) {
            break;
        }
        match line.first() {
            Some(b' ') => (old, new) = (old + 1, new + 1),
            Some(b'-') => old += 1,
            Some(b'+') => new += 1,
            Some(b'\\') => {}
            Some(_) | None => break,
        }
    }
    (old, new)
}
