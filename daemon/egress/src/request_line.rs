//! Finds out whether a program speaks HTTP on a connection that may carry any protocol. Nothing is
//! allocated, and the caller bounds the bytes.

/// The beginning of an HTTP version, which some servers take in any case.
const VERSION: &[u8] = b"http/";

/// The connection preface of HTTP/2 without TLS, as far as it is read before it is a request.
const PREFACE: &[u8] = b"PRI * HTTP/";

/// The meaning of the first line that a program sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstLine {
    /// More bytes are needed.
    Partial,
    /// Some server could take it for the first line of an HTTP request.
    Request,
    /// It is of another protocol.
    Other,
}

/// Reads the first line of a connection: a method, blanks, and a word that begins with `HTTP/`. Line
/// ends and blanks before it are skipped, as servers do.
#[must_use]
pub(crate) fn read_first_line(bytes: &[u8]) -> FirstLine {
    let bytes = bytes.trim_ascii_start();
    // A line end, or a byte that no request line has.
    let end = bytes.iter().position(|byte| byte.is_ascii_control() && !is_blank(*byte));
    let mut words = bytes[..end.unwrap_or(bytes.len())].split(|byte| is_blank(*byte));
    let is_method = words.next().is_some_and(|word| word.iter().copied().all(is_token));
    let is_version = |word: &[u8]| {
        word.get(..VERSION.len()).is_some_and(|start| start.eq_ignore_ascii_case(VERSION))
    };
    match end {
        _ if !is_method => FirstLine::Other,
        _ if words.any(is_version) => FirstLine::Request,
        Some(_) => FirstLine::Other,
        None => FirstLine::Partial,
    }
}

/// Returns `true` if the first line of a request begins the preface of HTTP/2.
#[must_use]
pub(crate) fn is_second(first: &[u8]) -> bool {
    first.starts_with(PREFACE)
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// Returns `true` for the bytes that a method may have.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[cfg(test)]
#[path = "request_line_tests.rs"]
mod tests;
