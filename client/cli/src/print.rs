//! Writes to standard output and standard error, and never panics if that fails.

use crate::{
    failure::Failure,
    paint,
    stream::escape::{Controls, Escaper},
};
use serde::Serialize;
use std::io::{self, Write as _};

/// Writes text and a newline to standard output.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    bytes(format!("{text}\n").as_bytes())
}

/// Writes bytes to standard output, unchanged.
pub(crate) fn bytes(data: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(data).and_then(|()| stdout.flush()).map_err(|error| Failure::output(&error))
}

/// Writes the output of a program or tool to standard output. On a terminal, `controls` says which
/// control sequences pass.
pub(crate) fn output(data: &[u8], controls: Controls) -> Result<(), Failure> {
    let mut escaper = Escaper::stdout(controls);
    bytes(&escaper.push(data))?;
    bytes(&escaper.finish())
}

/// Writes a value as one line of JSON to standard output.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::new(format!("can not write as JSON: {error}"), ""))?;
    line(&text)
}

/// Writes a command's failure as one line of JSON to standard output, if its output is JSON.
pub(crate) fn failure_as_json(outcome: Result<u8, Failure>, is_json: bool) -> Result<u8, Failure> {
    if let Err(failure) = &outcome
        && is_json
    {
        json(&failure.to_json())?;
    }
    outcome
}

/// Writes a line to standard error. If that is closed, there is nobody to tell.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Writes a failure to standard error.
pub(crate) fn failure(failure: &Failure) {
    failure.lines(paint::stderr()).iter().for_each(|line| note(line));
}
