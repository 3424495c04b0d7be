//! Reads a file of the log line by line.

use std::io::{self, BufRead, Read as _};

/// Most bytes of a line. No record comes near that.
pub(crate) const LINE: u64 = 4 << 20;

/// Reads the next line with its newline; the last line may have none. A line that is too long is
/// returned in pieces.
pub(crate) fn next_line(file: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    file.take(LINE).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}
