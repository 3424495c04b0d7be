//! Parses unified diffs, including git's, and the text between their files. Pure: no I/O.

use crate::{
    error::{PatchError, Problem},
    git,
    hunks::hunks,
    named::{begins_file, is_binary, is_signature, named, names},
    reader::{Files, Reader},
};

/// The text that is allowed outside of files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prose {
    /// Any text: before the first file, and between files in a mail or a log.
    Anything,
    /// No line that could belong to a hunk with a wrong count.
    Little,
}

/// Parses all files of a patch.
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

/// Returns `true` if a line begins a mail, or a commit in a log.
fn is_mail(line: &[u8]) -> bool {
    let id = line.strip_prefix(b"From ").or_else(|| line.strip_prefix(b"commit "));
    id.and_then(|id| id.get(..40)).is_some_and(|id| id.iter().all(u8::is_ascii_hexdigit))
}

/// Returns `true` if a line is one of those that tools put between files.
fn is_between(line: &[u8]) -> bool {
    let begins: [&[u8]; 5] = [b"diff ", b"index ", b"Index: ", b"=====", b"Only in "];
    line.is_empty() || begins.iter().any(|begin| line.starts_with(begin))
}

fn plain(reader: &mut Reader<'_>, files: &mut Files) -> Result<(), PatchError> {
    let line = reader.line;
    let names = names(reader)?;
    let hunks = hunks(reader)?;
    let file = named(line, &names, None, hunks)?;
    files.push(file)
}
