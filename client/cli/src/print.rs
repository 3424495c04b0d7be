//! Writing to the two standard streams without ever panicking over it.

use crate::{
    failure::Failure,
    paint,
    stream::escape::{Controls, Escaper},
};
use serde::Serialize;
use std::io::{self, Write as _};

/// Text to standard output, and a newline.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    bytes(format!("{text}\n").as_bytes())
}

/// Bytes to standard output, as they are.
pub(crate) fn bytes(data: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(data).and_then(|()| stdout.flush()).map_err(|error| Failure::output(&error))
}

/// What a program or a tool said to standard output; on a terminal with these control sequences.
pub(crate) fn output(data: &[u8], controls: Controls) -> Result<(), Failure> {
    let mut escaper = Escaper::stdout(controls);
    bytes(&escaper.push(data))?;
    bytes(&escaper.finish())
}

/// A value as one line of JSON to standard output.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::new(format!("can not write as JSON: {error}"), ""))?;
    line(&text)
}

/// A line to standard error. If that is closed there is nobody to tell.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// A failure to standard error.
pub(crate) fn failure(failure: &Failure) {
    failure.lines(paint::stderr()).iter().for_each(|line| note(line));
}
