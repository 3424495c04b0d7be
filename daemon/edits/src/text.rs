//! Lines of a text and how they end. Pure.

/// How the lines of a text end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endings {
    /// All with CRLF.
    Crlf,
    /// With LF, or mixed, or there are none.
    Other,
}

/// How the lines of a text end: CRLF only if all do and there is one.
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

/// The lines of a text, each with its newline; the last may have none.
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

/// A line without its newline.
pub(crate) fn bare(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// A line without its newline, be it LF or CRLF.
pub(crate) fn chomp(line: &[u8]) -> &[u8] {
    let line = bare(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A text with every LF that has no CR before it made CRLF.
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

/// A text with every CRLF made LF.
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

/// The most characters of a line that are shown.
const WIDTH: usize = 200;
/// The most lines that are shown.
const HEIGHT: usize = 10;

/// One line to show in a message: bounded, and without what a terminal would act on.
pub(crate) fn shown(line: &[u8]) -> String {
    let line = chomp(line);
    // Four bytes are the most that a character has.
    let start = &line[..line.len().min(WIDTH * 4)];
    let text = String::from_utf8_lossy(start);
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == WIDTH {
            out.push('…');
            return out;
        }
        if c == '\t' || !is_acted_on(c) {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    if start.len() < line.len() {
        out.push('…');
    }
    out
}

/// Whether a terminal or an editor would do something else than show the character.
fn is_acted_on(c: char) -> bool {
    let bidirectional =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || bidirectional
}

/// The first lines to show in a message, indented.
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
