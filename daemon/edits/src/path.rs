//! Paths in a patch: unquotes them, and refuses those that could lead outside. Pure: no I/O.

use crate::{
    error::{PatchError, Problem},
    text::shown,
};

/// Most bytes of a path.
const LONGEST: usize = 4096;

/// Returns a path without `.` and empty parts. Refuses one that is absolute, empty or contains
/// `..`.
pub(crate) fn check(path: &[u8], line: usize) -> Result<Vec<u8>, PatchError> {
    let refuse = |why| Err(PatchError { line, problem: Problem::Path { path: shown(path), why } });
    if path.len() > LONGEST {
        return refuse("is longer than 4096 bytes");
    }
    if path.starts_with(b"/") {
        return refuse("is absolute: it must be relative to the workspace");
    }
    if path.contains(&0) {
        return refuse("has a NUL");
    }
    if path.ends_with(b"/") {
        return refuse("names a directory");
    }
    let parts: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && part != b".").collect();
    if parts.contains(&b"..".as_slice()) {
        return refuse("has a `..`");
    }
    if parts.is_empty() {
        return refuse("is empty");
    }
    Ok(parts.join(&b'/'))
}

/// Parses a path that git wrote in quotes, and returns it with the text after it.
pub(crate) fn unquote(text: &[u8], line: usize) -> Result<(Vec<u8>, &[u8]), PatchError> {
    let wrong = || {
        let expected = "a path between quotes, with git's escapes";
        PatchError { line, problem: Problem::Expected { expected, found: shown(text) } }
    };
    let mut rest = text.strip_prefix(b"\"").ok_or_else(wrong)?;
    let mut path = Vec::new();
    loop {
        let (byte, after) = rest.split_first().ok_or_else(wrong)?;
        rest = after;
        match byte {
            b'"' => return Ok((path, rest)),
            b'\\' => {
                let (byte, after) = escaped(rest).ok_or_else(wrong)?;
                path.push(byte);
                rest = after;
            }
            plain => path.push(*plain),
        }
    }
}

/// Parses an escape sequence, and returns its byte with the text after it.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let (first, rest) = text.split_first()?;
    let byte = match first {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'"' | b'\\' => *first,
        b'0'..=b'3' => {
            let digits = text.get(..3)?;
            let text = std::str::from_utf8(digits).ok()?;
            let is_octal = digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
            let byte = is_octal.then(|| u8::from_str_radix(text, 8).ok()).flatten()?;
            return Some((byte, rest.get(2..)?));
        }
        _ => return None,
    };
    Some((byte, rest))
}

/// Formats a name as git does: in quotes if it contains characters that would break a line.
pub(crate) fn quote(name: &str) -> String {
    let needs = |c: char| c.is_control() || c == '"' || c == '\\';
    if !name.contains(needs) {
        return name.to_owned();
    }
    let mut out = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    out.push_str(&format!("\\{byte:03o}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
