//! Common parts of unified and git diffs: the names of a file, and their meaning. Pure: no I/O.

use crate::{
    error::{PatchError, Problem},
    hunk::{Hunk, HunkPosition, Kind, Newline},
    patch::{FilePatch, Mode},
    path,
    reader::Reader,
    text::shown,
};

/// Returns `true` if the two name lines of a file come next.
pub(crate) fn begins_file(reader: &Reader<'_>) -> bool {
    reader.peek().is_some_and(|line| line.starts_with(b"--- "))
        && reader.peek_second().is_some_and(|line| line.starts_with(b"+++ "))
}

/// Returns `true` if a line says that a file is binary.
pub(crate) fn is_binary(line: &[u8]) -> bool {
    let differ = line.starts_with(b"Binary files ") && line.ends_with(b" differ");
    differ || line == b"GIT binary patch"
}

/// Returns `true` if the signature that git puts at the end of a mail comes next: two dashes, and
/// its version.
pub(crate) fn is_signature(reader: &Reader<'_>) -> bool {
    let mut rest = reader.rest();
    let dashes = rest.next().is_some_and(|line| line == b"-- ");
    let version = rest.next().is_some_and(|line| line.first().is_some_and(u8::is_ascii_digit));
    dashes && version && rest.next().is_none_or(<[u8]>::is_empty)
}

/// The two names of a file; `None` is `/dev/null`.
pub(crate) type Names = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Parses the two names as they are written.
pub(crate) fn names(reader: &mut Reader<'_>) -> Result<Names, PatchError> {
    let old = name(reader, b"--- ")?;
    reader.skip();
    let new = name(reader, b"+++ ")?;
    if old.is_none() && new.is_none() {
        return Err(reader.expected("the name of a file: one of two may be /dev/null"));
    }
    reader.skip();
    Ok((old, new))
}

fn name(reader: &Reader<'_>, mark: &[u8]) -> Result<Option<Vec<u8>>, PatchError> {
    let line = reader.peek().and_then(|line| line.strip_prefix(mark));
    let line = line.ok_or_else(|| reader.expected("`--- FILE` and then `+++ FILE`"))?;
    if line.starts_with(b"\"") {
        return Ok(Some(path::unquote(line, reader.line)?.0));
    }
    // A timestamp follows after a tab.
    let end = memchr::memchr(b'\t', line).unwrap_or(line.len());
    Ok((&line[..end] != b"/dev/null").then(|| line[..end].to_owned()))
}

/// Returns the single path of two names, without the prefixes `a/` and `b/`.
pub(crate) fn one_path(old: &[u8], new: &[u8], line: usize) -> Result<Vec<u8>, PatchError> {
    let (old, new) = match (old.strip_prefix(b"a/"), new.strip_prefix(b"b/")) {
        (Some(old), Some(new)) => (old, new),
        (_, None) | (None, _) => (old, new),
    };
    if old != new {
        let problem = Problem::Names { old: shown(old), new: shown(new) };
        return Err(PatchError { line, problem });
    }
    path::check(new, line)
}

/// Returns a path without its prefix, if the other name is `/dev/null`.
pub(crate) fn lone_path(name: &[u8], prefix: &[u8], line: usize) -> Result<Vec<u8>, PatchError> {
    path::check(name.strip_prefix(prefix).unwrap_or(name), line)
}

/// Builds the part of the patch for a file from its two names. It is an error if there is no hunk.
pub(crate) fn named(
    line: usize,
    names: &Names,
    mode: Option<Mode>,
    hunks: Vec<Hunk>,
) -> Result<FilePatch, PatchError> {
    let path = match names {
        (Some(old), Some(new)) => one_path(old, new, line)?,
        (None, Some(new)) => lone_path(new, b"b/", line)?,
        (Some(old), None) => lone_path(old, b"a/", line)?,
        (None, None) => Vec::new(),
    };
    if hunks.is_empty() {
        let problem = Problem::NoChange { path: shown(&path) };
        return Err(PatchError { line, problem });
    }
    match names {
        (None, _) => Ok(FilePatch::Add { line, path, content: content(&hunks)?, executable: mode }),
        (_, None) => Ok(FilePatch::Delete { line, path, hunks: Some(hunks) }),
        (Some(_), Some(_)) => Ok(FilePatch::Update { line, path, to: None, mode, hunks }),
    }
}

/// Returns the content of a new file. It has no hunk, or one that only adds lines.
pub(crate) fn content(hunks: &[Hunk]) -> Result<Vec<u8>, PatchError> {
    let mut content = Vec::new();
    for (index, hunk) in hunks.iter().enumerate() {
        if index > 0 || hunk.at != HunkPosition::After(0) || hunk.old().next().is_some() {
            let expected = "one hunk `@@ -0,0 +1,COUNT @@` with only `+` lines for a new file";
            let found = hunk.lines().find(|line| line.kind != Kind::New);
            let found = found.map_or_else(|| "another hunk".to_owned(), |line| shown(line.text));
            let problem = Problem::Expected { expected, found };
            return Err(PatchError { line: hunk.line as usize, problem });
        }
        for line in hunk.lines() {
            content.extend_from_slice(line.text);
            if line.newline == Newline::Present {
                content.push(b'\n');
            }
        }
    }
    Ok(content)
}
