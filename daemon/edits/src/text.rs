//! Lines of a text and their endings. Pure: no I/O.

/// The line endings of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endings {
    /// All lines end with CRLF.
    Crlf,
    /// Lines end with LF, or the endings are mixed, or there are none.
    Other,
}

/// Determines the line endings of a text: CRLF only if there is at least one line ending and all
/// are CRLF.
pub(crate) fn endings(text: &[u8]) -> Endings {
    let mut some = false;
    for at in memchr::memchr_iter(b'\n', text) {
        if at == 0 || text[at - 1] != b'\r' {
            return Endings::Other;
        }
        some = true;
    }
    if some { Endings::Crlf } else { Endings::Other }
}

/// Iterates over the lines of a text, each with its newline; the last may have none.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(end);
        rest = after;
        Some(line)
    })
}

/// Returns a line without its newline.
pub(crate) fn bare(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Returns a line without its newline, which is LF or CRLF.
pub(crate) fn chomp(line: &[u8]) -> &[u8] {
    let line = bare(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Converts every LF that has no CR before it to CRLF.
pub(crate) fn to_crlf(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 16);
    for line in lines(text) {
        out.extend_from_slice(chomp(line));
        if line.ends_with(b"\n") {
            out.extend_from_slice(b"\r\n");
        } else if line.ends_with(b"\r") {
            out.push(b'\r');
        }
    }
    out
}

/// Converts every CRLF to LF.
pub(crate) fn to_lf(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in lines(text) {
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}

/// Most characters of a line that are shown.
const WIDTH: usize = 200;
/// Most lines that are shown.
const HEIGHT: usize = 10;

/// Formats one line for a message: bounded, and without characters that control a terminal.
pub(crate) fn shown(line: &[u8]) -> String {
    let line = chomp(line);
    // A character has at most four bytes.
    let start = &line[..line.len().min(WIDTH * 4)];
    let text = String::from_utf8_lossy(start);
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == WIDTH {
            out.push('…');
            return out;
        }
        if c != '\t' && palisade_text::is_control(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    if start.len() < line.len() {
        out.push('…');
    }
    out
}

/// Formats the first lines for a message, indented.
pub(crate) fn block<'a>(lines: impl Iterator<Item = &'a [u8]>) -> String {
    let mut out = Vec::new();
    for (count, line) in lines.enumerate() {
        if count == HEIGHT {
            out.push("    …".to_owned());
            break;
        }
        out.push(format!("    {}", shown(line)));
    }
    out.join("\n")
}
