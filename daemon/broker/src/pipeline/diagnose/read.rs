//! Parses the output of checkers, piece by piece, in bounded memory. Lines that are not diagnostics
//! are skipped. Pure: whatever the bytes are, this ends and does not fail.

use palisade_policy::CheckerFormat;
use palisade_protocol::Stream;
use serde::{Deserialize, Serialize};

/// The most diagnostics of one checker that are kept; the rest are counted.
const MOST: usize = 1000;
/// The longest line that is parsed; a longer one is counted as unread.
const LINE: usize = 1024 * 1024;
/// The longest message that is kept, in bytes.
const MESSAGE: usize = 2 * 1024;
/// The longest path or code that is kept, in bytes.
const NAME: usize = 4 * 1024;

/// One finding of a checker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Diagnostic {
    /// The file; `None` if the diagnostic is about no file.
    pub(crate) path: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    pub(crate) severity: Severity,
    pub(crate) code: Option<String>,
    pub(crate) message: String,
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    Error,
    Warning,
    Note,
}

/// The parser of a checker's output while it arrives.
#[derive(Debug)]
pub(crate) struct CheckerParser {
    format: CheckerFormat,
    lines: [PartialLine; 2],
    found: Vec<Diagnostic>,
    omitted: u64,
    unread: u64,
}

/// The parsed output of a checker.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckerOutput {
    pub(crate) found: Vec<Diagnostic>,
    /// The number of diagnostics over the limit.
    pub(crate) omitted: u64,
    /// The number of lines that were too long to be parsed.
    pub(crate) unread: u64,
}

/// A line that has not ended yet.
#[derive(Debug, Default)]
struct PartialLine {
    begun: Vec<u8>,
    overlong: bool,
}

impl CheckerParser {
    pub(crate) fn new(format: CheckerFormat) -> Self {
        let lines = [PartialLine::default(), PartialLine::default()];
        Self { format, lines, found: Vec::new(), omitted: 0, unread: 0 }
    }

    /// Parses the next bytes of a stream.
    pub(crate) fn receive(&mut self, stream: Stream, bytes: &[u8]) {
        let which = match (self.format, stream) {
            (CheckerFormat::CargoJson | CheckerFormat::Gcc, Stream::Stdout) => 0,
            (CheckerFormat::Gcc, Stream::Stderr) => 1,
            (CheckerFormat::CargoJson, Stream::Stderr)
            | (CheckerFormat::CargoJson | CheckerFormat::Gcc, Stream::Content) => return,
        };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (body, whole) = match piece.strip_suffix(b"\n") {
                Some(body) => (body, true),
                None => (piece, false),
            };
            let lines = &mut self.lines[which];
            if lines.begun.len() + body.len() > LINE {
                lines.overlong = true;
                lines.begun = Vec::new();
            } else if !lines.overlong {
                lines.begun.extend_from_slice(body);
            }
            if whole {
                self.end_line(which);
            }
        }
    }

    fn end_line(&mut self, which: usize) {
        let PartialLine { begun, overlong } = std::mem::take(&mut self.lines[which]);
        if overlong {
            self.unread += 1;
            return;
        }
        let line = String::from_utf8_lossy(&begun);
        let found = match self.format {
            CheckerFormat::CargoJson => cargo(&line),
            CheckerFormat::Gcc => gcc(line.trim_end_matches('\r')),
        };
        match found {
            // Cargo repeats a diagnostic for each target that contains the file.
            Some(found) if self.found.contains(&found) => {}
            Some(_) if self.found.len() == MOST => self.omitted += 1,
            Some(found) => self.found.push(found),
            None => {}
        }
    }

    /// Returns everything that was found.
    pub(crate) fn finish(mut self) -> CheckerOutput {
        for which in 0..self.lines.len() {
            if self.lines[which].overlong || !self.lines[which].begun.is_empty() {
                self.end_line(which);
            }
        }
        CheckerOutput { found: self.found, omitted: self.omitted, unread: self.unread }
    }
}

#[derive(Deserialize)]
struct CargoLine {
    reason: String,
    message: Option<CargoMessage>,
}

#[derive(Deserialize)]
struct CargoMessage {
    message: String,
    level: String,
    code: Option<CargoCode>,
    #[serde(default)]
    spans: Vec<CargoSpan>,
}

#[derive(Deserialize)]
struct CargoCode {
    code: String,
}

#[derive(Deserialize)]
struct CargoSpan {
    file_name: String,
    line_start: u32,
    column_start: u32,
    is_primary: bool,
}

fn cargo(line: &str) -> Option<Diagnostic> {
    let CargoLine { reason, message } = serde_json::from_str(line).ok()?;
    let message = message.filter(|_| reason == "compiler-message")?;
    let severity = match message.level.as_str() {
        level if level.starts_with("error") => Severity::Error,
        "warning" => Severity::Warning,
        "note" | "help" => Severity::Note,
        // Notes below another message, and the summary of their number.
        _ => return None,
    };
    let span = message.spans.iter().find(|span| span.is_primary).or(message.spans.first());
    if span.is_none() && is_summary(&message.message) {
        return None;
    }
    Some(Diagnostic {
        path: span.map(|span| cut(&span.file_name, NAME)),
        line: span.map(|span| span.line_start),
        column: span.map(|span| span.column_start),
        severity,
        code: message.code.map(|code| cut(&code.code, NAME)),
        message: cut(&message.message, MESSAGE),
    })
}

/// Returns `true` if a message only counts the others.
fn is_summary(message: &str) -> bool {
    message.starts_with("aborting due to")
        || message.ends_with("warning emitted")
        || message.ends_with("warnings emitted")
}

/// Parses a line of the form `path:line[:column]: severity: message [code]`.
fn gcc(line: &str) -> Option<Diagnostic> {
    let mut places = line.match_indices(':').map(|(at, _)| at);
    // A path may contain colons: the first colon that is followed by a number ends it.
    let (path, rest) = places.find_map(|at| {
        let (path, rest) = (line.get(..at)?, line.get(at + 1..)?);
        let number = rest.split(':').next()?;
        (!path.is_empty() && number.parse::<u32>().is_ok()).then_some((path, rest))
    })?;
    let (number, rest) = rest.split_once(':')?;
    let (column, rest) = match rest.split_once(':') {
        Some((column, after)) if column.parse::<u32>().is_ok() => (column.parse().ok(), after),
        Some(_) | None => (None, rest),
    };
    let (severity, message) = rest.trim_start().split_once(':')?;
    let severity = match severity {
        "error" | "fatal error" => Severity::Error,
        "warning" => Severity::Warning,
        "note" | "info" | "style" => Severity::Note,
        _ => return None,
    };
    let (message, code) = apart(message.trim());
    Some(Diagnostic {
        path: Some(cut(path, NAME)),
        line: number.parse().ok(),
        column,
        severity,
        code: code.map(|code| cut(code, NAME)),
        message: cut(message, MESSAGE),
    })
}

/// Splits a message from the code in brackets at its end.
fn apart(message: &str) -> (&str, Option<&str>) {
    let code = message.strip_suffix(']').and_then(|rest| rest.rsplit_once(" ["));
    match code {
        Some((text, code)) if !code.is_empty() && !code.contains(' ') => (text, Some(code)),
        Some(_) | None => (message, None),
    }
}

fn cut(text: &str, most: usize) -> String {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(format: CheckerFormat, text: &str) -> CheckerOutput {
        let mut reading = CheckerParser::new(format);
        reading.receive(Stream::Stdout, text.as_bytes());
        reading.finish()
    }

    const MESSAGE_LINE: &str = r#"{"reason":"compiler-message","package_id":"p","target":{},"message":{"rendered":"long","message":"mismatched types","code":{"code":"E0308","explanation":null},"level":"error","spans":[{"file_name":"src/other.rs","line_start":1,"column_start":1,"is_primary":false},{"file_name":"src/main.rs","line_start":3,"column_start":9,"is_primary":true}],"children":[]}}"#;

    fn mismatch() -> Diagnostic {
        Diagnostic {
            path: Some("src/main.rs".to_owned()),
            line: Some(3),
            column: Some(9),
            severity: Severity::Error,
            code: Some("E0308".to_owned()),
            message: "mismatched types".to_owned(),
        }
    }

    #[test]
    fn cargo_messages_are_read_once_each() {
        let summary = r#"{"reason":"compiler-message","message":{"message":"aborting due to 1 previous error","code":null,"level":"error","spans":[]}}"#;
        let note = r#"{"reason":"compiler-message","message":{"message":"For more","code":null,"level":"failure-note","spans":[]}}"#;
        let text = format!(
            "   Compiling x\n{{\"reason\":\"compiler-artifact\"}}\n{MESSAGE_LINE}\n{summary}\n{note}\n{MESSAGE_LINE}\n{{\"reason\":\"build-finished\",\"success\":false}}"
        );
        let all = read(CheckerFormat::CargoJson, &text);
        assert_eq!(all, CheckerOutput { found: vec![mismatch()], omitted: 0, unread: 0 });
    }

    #[test]
    fn lines_of_compilers_are_read() {
        let text = "In file included from a.c:1:\na.c:3:9: error: expected ';' [-Wall]\r\n\
            b c:d.c:7: warning: unused\nx.sh:1:2: note: hint [a b]\n12:30:01: started\n";
        let found = read(CheckerFormat::Gcc, text).found;
        let shown: Vec<_> = found
            .iter()
            .map(|d| (d.path.as_deref().unwrap(), d.line, d.column, d.severity, d.code.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("a.c", Some(3), Some(9), Severity::Error, Some("-Wall")),
                ("b c:d.c", Some(7), None, Severity::Warning, None),
                ("x.sh", Some(1), Some(2), Severity::Note, None),
            ]
        );
        assert_eq!(found[0].message, "expected ';'");
    }

    #[test]
    fn floods_and_endless_lines_stay_in_bounds() {
        let mut reading = CheckerParser::new(CheckerFormat::Gcc);
        for number in 0..MOST + 5 {
            reading.receive(Stream::Stderr, format!("a:{number}:1: error: x\n").as_bytes());
        }
        for _ in 0..40 {
            reading.receive(Stream::Stdout, &[b'x'; 100_000]);
            assert!(reading.lines[0].begun.capacity() <= 2 * LINE);
        }
        reading.receive(Stream::Stdout, b"\na:1:1: error: after\n");
        let read = reading.finish();
        assert_eq!((read.found.len(), read.omitted, read.unread), (MOST, 6, 1));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            noise in proptest::collection::vec(any::<u8>(), 0..60),
            step in 1_usize..40,
            gcc in any::<bool>(),
        ) {
            let format = if gcc { CheckerFormat::Gcc } else { CheckerFormat::CargoJson };
            let text = [&noise, b"\n".as_slice(), MESSAGE_LINE.as_bytes(), b"\na:1: error: m\n", &noise].concat();
            let (mut whole, mut cut) = (CheckerParser::new(format), CheckerParser::new(format));
            whole.receive(Stream::Stdout, &text);
            text.chunks(step).for_each(|piece| cut.receive(Stream::Stdout, piece));
            let whole = whole.finish();
            prop_assert!(!whole.found.is_empty());
            prop_assert_eq!(whole, cut.finish());
        }

        #[test]
        fn whatever_is_printed_it_ends(text in "(\\PC|\n|:|[0-9]|error|\\{|\"){0,200}") {
            for format in [CheckerFormat::Gcc, CheckerFormat::CargoJson] {
                for found in read(format, &text).found {
                    prop_assert!(found.message.len() <= MESSAGE);
                }
            }
        }
    }
}
