//! Unified diffs: the names of a file, and hunks whose heads are held against their bodies. Pure.

use crate::{
    error::{PatchError, Problem},
    git,
    hunk::{At, Hunk, Kind, Newline},
    hunks::hunks,
    parse::{Files, Reader},
    patch::{FilePatch, Mode},
    path,
    text::shown,
};

/// What the patch may say outside of files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prose {
    /// Anything: before the first file, and in a mail or a log between files.
    Anything,
    /// Nothing that could be a line of a hunk that was counted wrongly.
    Little,
}

/// Reads all files of a patch.
pub(crate) fn parse(reader: &mut Reader<'_>, files: &mut Files) -> Result<(), PatchError> {
    let mut prose = Prose::Anything;
    while let Some(line) = reader.peek() {
        if line.starts_with(b"diff --git ") {
            git::file(reader, files)?;
            prose = Prose::Little;
        } else if begins_file(reader) {
            plain(reader, files)?;
            prose = Prose::Little;
        } else if line.starts_with(b"@@ ") {
            return Err(reader.expected("`--- a/FILE` and `+++ b/FILE` before the first hunk"));
        } else if is_binary(line) {
            return Err(reader.fail(Problem::Binary));
        } else if is_signature(reader) {
            reader.skip();
            reader.skip();
        } else if is_mail(line) {
            prose = Prose::Anything;
            reader.skip();
        } else if prose == Prose::Anything || is_between(line) {
            reader.skip();
        } else {
            return Err(reader.expected("another hunk (`@@ `), another file or the end"));
        }
    }
    Ok(())
}

/// Whether the names of a file come next.
pub(crate) fn begins_file(reader: &Reader<'_>) -> bool {
    reader.peek().is_some_and(|line| line.starts_with(b"--- "))
        && reader.peek_second().is_some_and(|line| line.starts_with(b"+++ "))
}

/// Whether a line says that a file is binary.
pub(crate) fn is_binary(line: &[u8]) -> bool {
    let differ = line.starts_with(b"Binary files ") && line.ends_with(b" differ");
    differ || line == b"GIT binary patch"
}

/// Whether what git puts under a mail comes next: two dashes, and its version.
pub(crate) fn is_signature(reader: &Reader<'_>) -> bool {
    let mut rest = reader.rest();
    let dashes = rest.next().is_some_and(|line| line == b"-- ");
    let version = rest.next().is_some_and(|line| line.first().is_some_and(u8::is_ascii_digit));
    dashes && version && rest.next().is_none_or(<[u8]>::is_empty)
}

/// Whether a line begins a mail or a commit of a log.
fn is_mail(line: &[u8]) -> bool {
    let id = line.strip_prefix(b"From ").or_else(|| line.strip_prefix(b"commit "));
    id.and_then(|id| id.get(..40)).is_some_and(|id| id.iter().all(u8::is_ascii_hexdigit))
}

/// Whether a line is one of those that tools put between files.
fn is_between(line: &[u8]) -> bool {
    let begins: [&[u8]; 5] = [b"diff ", b"index ", b"Index: ", b"=====", b"Only in "];
    line.is_empty() || begins.iter().any(|begin| line.starts_with(begin))
}

/// The two names of a file: none is `/dev/null`.
pub(crate) type Names = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Reads the two names as they are written.
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
    // A time stands after a tab.
    let end = memchr::memchr(b'\t', line).unwrap_or(line.len());
    Ok((&line[..end] != b"/dev/null").then(|| line[..end].to_owned()))
}

/// The one path of two names, without the prefixes `a/` and `b/`.
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

/// A path without its prefix, where the other name is `/dev/null`.
pub(crate) fn lone_path(name: &[u8], prefix: &[u8], line: usize) -> Result<Vec<u8>, PatchError> {
    path::check(name.strip_prefix(prefix).unwrap_or(name), line)
}

fn plain(reader: &mut Reader<'_>, files: &mut Files) -> Result<(), PatchError> {
    let line = reader.line;
    let names = names(reader)?;
    let hunks = hunks(reader)?;
    let file = named(line, &names, None, hunks)?;
    files.push(file)
}

/// The part of the patch for a file by its two names; without a hunk it is an error.
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

/// The content of a new file: no hunk, or one that only adds.
pub(crate) fn content(hunks: &[Hunk]) -> Result<Vec<u8>, PatchError> {
    let mut content = Vec::new();
    for (index, hunk) in hunks.iter().enumerate() {
        if index > 0 || hunk.at != At::After(0) || hunk.old().next().is_some() {
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
