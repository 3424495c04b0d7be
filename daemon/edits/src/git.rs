//! Parses git diffs: the lines between `diff --git` and the hunks. Pure: no I/O.

use crate::{
    error::{PatchError, Problem},
    hunk::Hunk,
    hunks::hunks,
    named::{self, Names},
    patch::{Destination, FilePatch, Mode},
    path,
    reader::{Files, Reader},
    text::shown,
};

/// The header lines between `diff --git` and the hunks.
#[derive(Default)]
struct GitHeader {
    old_mode: Option<Mode>,
    new_mode: Option<Mode>,
    added: Option<Mode>,
    deleted: Option<Mode>,
    rename_from: Option<Vec<u8>>,
    rename_to: Option<Vec<u8>>,
    copy_from: Option<Vec<u8>>,
    copy_to: Option<Vec<u8>>,
}

/// The two names of the `diff --git` line.
type HeaderNames = (Vec<u8>, Vec<u8>);

/// Parses the diff of one file.
pub(crate) fn file(reader: &mut Reader<'_>, files: &mut Files) -> Result<(), PatchError> {
    let line = reader.line;
    let first = first_names(reader)?;
    reader.skip();
    let head = head(reader)?;
    if reader.peek().is_some_and(named::is_binary) {
        return Err(reader.fail(Problem::Binary));
    }
    let names = match named::begins_file(reader) {
        true => Some(named::names(reader)?),
        false => None,
    };
    let hunks = match names {
        Some(_) => hunks(reader)?,
        None => Vec::new(),
    };
    let file = whole(line, &head, first.as_ref(), names.as_ref(), hunks)?;
    files.push(file)
}

/// Parses the names of the first line. Names with spaces are not quoted, so it may be impossible to
/// separate them.
fn first_names(reader: &Reader<'_>) -> Result<Option<HeaderNames>, PatchError> {
    let text = reader.peek().and_then(|line| line.strip_prefix(b"diff --git "));
    let text = text.unwrap_or_default();
    if text.starts_with(b"\"") {
        let (old, rest) = path::unquote(text, reader.line)?;
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let new = match rest.starts_with(b"\"") {
            true => path::unquote(rest, reader.line)?.0,
            false => rest.to_owned(),
        };
        return Ok(Some((old, new)));
    }
    let middle = text.len() / 2;
    let is_even = text.len() % 2 == 1 && text[middle] == b' ';
    Ok(is_even
        .then(|| (text[..middle].to_owned(), text[middle + 1..].to_owned()))
        .filter(|(old, new)| named::one_path(old, new, 0).is_ok()))
}

fn head(reader: &mut Reader<'_>) -> Result<GitHeader, PatchError> {
    let mut head = GitHeader::default();
    while let Some(line) = reader.peek() {
        if let Some(mode) = line.strip_prefix(b"old mode ") {
            once(reader, &mut head.old_mode, mode_of(reader, mode)?)?;
        } else if let Some(mode) = line.strip_prefix(b"new mode ") {
            once(reader, &mut head.new_mode, mode_of(reader, mode)?)?;
        } else if let Some(mode) = line.strip_prefix(b"new file mode ") {
            once(reader, &mut head.added, mode_of(reader, mode)?)?;
        } else if let Some(mode) = line.strip_prefix(b"deleted file mode ") {
            once(reader, &mut head.deleted, mode_of(reader, mode)?)?;
        } else if let Some(name) = line.strip_prefix(b"rename from ") {
            once(reader, &mut head.rename_from, path_of(reader, name)?)?;
        } else if let Some(name) = line.strip_prefix(b"rename to ") {
            once(reader, &mut head.rename_to, path_of(reader, name)?)?;
        } else if let Some(name) = line.strip_prefix(b"copy from ") {
            once(reader, &mut head.copy_from, path_of(reader, name)?)?;
        } else if let Some(name) = line.strip_prefix(b"copy to ") {
            once(reader, &mut head.copy_to, path_of(reader, name)?)?;
        } else if let Some(index) = line.strip_prefix(b"index ") {
            // A mode that does not change appears only here, so this is where a symbolic link is
            // noticed.
            if let Some(mode) = index.split(|byte| *byte == b' ').nth(1) {
                mode_of(reader, mode)?;
            }
        } else if !line.starts_with(b"similarity index ")
            && !line.starts_with(b"dissimilarity index ")
        {
            break;
        }
        reader.skip();
    }
    Ok(head)
}

fn once<T>(reader: &Reader<'_>, place: &mut Option<T>, value: T) -> Result<(), PatchError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(reader.expected("this line only once for a file")),
    }
}

fn mode_of(reader: &Reader<'_>, mode: &[u8]) -> Result<Mode, PatchError> {
    match mode {
        b"100644" => Ok(Mode::Regular),
        b"100755" => Ok(Mode::Executable),
        other => Err(reader.fail(Problem::Mode { mode: shown(other) })),
    }
}

fn path_of(reader: &Reader<'_>, name: &[u8]) -> Result<Vec<u8>, PatchError> {
    match name.starts_with(b"\"") {
        true => path::check(&path::unquote(name, reader.line)?.0, reader.line),
        false => path::check(name, reader.line),
    }
}

/// Builds the file's part of the patch, if the header lines agree with each other.
fn whole(
    line: usize,
    head: &GitHeader,
    first: Option<&HeaderNames>,
    names: Option<&Names>,
    hunks: Vec<Hunk>,
) -> Result<FilePatch, PatchError> {
    let fail = |expected, found: &str| {
        let problem = Problem::Expected { expected, found: found.to_owned() };
        Err(PatchError { line, problem })
    };
    let mode = match (head.old_mode, head.new_mode) {
        (Some(_), Some(new)) => Some(new),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return fail("both `old mode` and `new mode`", "one of them");
        }
    };
    let renamed = pair(&head.rename_from, &head.rename_to);
    let copied = pair(&head.copy_from, &head.copy_to);
    let kinds = [head.added.is_some(), head.deleted.is_some()];
    let halves = [&head.rename_from, &head.rename_to, &head.copy_from, &head.copy_to];
    let moves = halves.iter().filter(|half| half.is_some()).count();
    let many = kinds.iter().filter(|kind| **kind).count() + moves.div_ceil(2);
    if many > 1 || (moves > 0 && renamed.is_none() && copied.is_none()) {
        return fail("one of new, deleted, renamed (from, to), copied (from, to)", "several");
    }
    if let Some((from, to)) = renamed.or(copied) {
        agree(line, from, to, names)?;
        let target = if renamed.is_some() { Destination::Move } else { Destination::Copy };
        let (path, to) = (from.clone(), Some(target(to.clone())));
        return Ok(FilePatch::Update { line, path, to, mode, hunks });
    }
    let path = known_path(line, first, names)?;
    let named =
        |old: bool, new: bool| names.is_none_or(|n| (n.0.is_some(), n.1.is_some()) == (old, new));
    if head.added.is_some() {
        if !named(false, true) {
            return fail("`--- /dev/null` and `+++ b/FILE` for a new file", "other names");
        }
        let content = named::content(&hunks)?;
        return Ok(FilePatch::Add { line, path, content, executable: head.added });
    }
    if head.deleted.is_some() {
        if !named(true, false) {
            return fail("`--- a/FILE` and `+++ /dev/null` for a deletion", "other names");
        }
        return Ok(FilePatch::Delete { line, path, hunks: Some(hunks) });
    }
    match names {
        Some(names) if mode.is_none() || !hunks.is_empty() => {
            named::named(line, names, mode, hunks)
        }
        Some(_) | None if mode.is_some() => {
            Ok(FilePatch::Update { line, path, to: None, mode, hunks })
        }
        Some(_) | None => {
            Err(PatchError { line, problem: Problem::NoChange { path: shown(&path) } })
        }
    }
}

fn pair<'a>(
    from: &'a Option<Vec<u8>>,
    to: &'a Option<Vec<u8>>,
) -> Option<(&'a Vec<u8>, &'a Vec<u8>)> {
    from.as_ref().zip(to.as_ref())
}

/// Checks the names above the hunks against those of a rename or copy.
fn agree(line: usize, from: &[u8], to: &[u8], names: Option<&Names>) -> Result<(), PatchError> {
    let is = |name: &Option<Vec<u8>>, path: &[u8], prefix: &[u8]| {
        name.as_ref().is_some_and(|name| {
            name == path || name.strip_prefix(prefix).is_some_and(|name| name == path)
        })
    };
    match names {
        Some((old, new)) if !is(old, from, b"a/") || !is(new, to, b"b/") => {
            let text = |name: &Option<Vec<u8>>| shown(name.as_deref().unwrap_or(b"/dev/null"));
            Err(PatchError { line, problem: Problem::Names { old: text(old), new: text(new) } })
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the file's single path, from the names above the hunks or in the first line.
fn known_path(
    line: usize,
    first: Option<&HeaderNames>,
    names: Option<&Names>,
) -> Result<Vec<u8>, PatchError> {
    let of_first = first.map(|(old, new)| named::one_path(old, new, line)).transpose()?;
    let of_names = match names {
        Some((Some(old), Some(new))) => Some(named::one_path(old, new, line)?),
        Some((None, Some(new))) => Some(named::lone_path(new, b"b/", line)?),
        Some((Some(old), None)) => Some(named::lone_path(old, b"a/", line)?),
        Some((None, None)) | None => None,
    };
    match (of_first, of_names) {
        (Some(first), Some(named)) if first != named => {
            let problem = Problem::Names { old: shown(&first), new: shown(&named) };
            Err(PatchError { line, problem })
        }
        (Some(path), _) | (None, Some(path)) => Ok(path),
        (None, None) => {
            let expected = "`diff --git a/FILE b/FILE`, both of one file";
            let problem = Problem::Expected { expected, found: "other names".to_owned() };
            Err(PatchError { line, problem })
        }
    }
}
