//! The text that a model reads of a result: the head and tail of its output, what went wrong, and
//! what to do about it.

use palisade_protocol::{CallResult, Denial, ErrorCode};
use serde_json::Value;

/// The maximum number of denials in the notes about a result.
pub const MAX_DENIALS: usize = 5;

/// Returns the maximum length of a message, a hint or a remedy, in characters. All of them together
/// leave room for the output.
#[must_use]
pub fn message_limit(most: usize) -> usize {
    (most / 20).clamp(50, 1500)
}

/// The kind of a finding about a part of a call that was changed so that the call may run.
const ADJUSTED: &str = "adjusted";

/// The maximum number of adjustments in the notes about a result.
const MAX_ADJUSTMENTS: usize = 10;

/// The images that models can see.
pub const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The maximum length of an attached file, in characters of base64: the APIs of models take 5 MiB.
const MAX_ATTACHED: usize = 5 << 20;

/// The advice to a model in place of an attachment that is too large.
pub const TOO_LARGE: &str = "Use bash to look at parts of it, or to make it smaller.";

/// A file in a result of `read_file` or `web_fetch` that is not text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaFile {
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// The file's path, or its URL.
    pub path: String,
    /// The file's size in bytes.
    pub bytes: u64,
    /// The file in base64; `None` if it is too large for the APIs of models.
    pub content: Option<String>,
}

impl MediaFile {
    /// Returns the file that a result has, if any.
    #[must_use]
    pub fn of(result: &CallResult) -> Option<Self> {
        let place = match result.tool.as_str() {
            "read_file" => "path",
            "web_fetch" => "final_url",
            _ => return None,
        };
        if !result.success {
            return None;
        }
        let data: Value = serde_json::from_str(result.data.as_ref()?.as_str()).ok()?;
        let text = |name: &str| data.get(name).and_then(Value::as_str).map(str::to_owned);
        let (content, media_type) = (text("content")?, text("media_type")?);
        let bytes = data.get("bytes").and_then(Value::as_u64).unwrap_or_default();
        let content = Some(content).filter(|content| content.len() <= MAX_ATTACHED);
        Some(Self { media_type, path: text(place).unwrap_or_default(), bytes, content })
    }

    /// Returns the text of a result with this file: a line that stands for it. That of a page has marks
    /// around it, which say that it comes from the network.
    #[must_use]
    pub fn text(&self, result: &CallResult) -> String {
        match result.tool.as_str() {
            "web_fetch" => result.output.clone(),
            _ => self.caption(),
        }
    }

    /// Returns a line that stands for the file in a text.
    #[must_use]
    pub fn caption(&self) -> String {
        let Self { media_type, bytes, .. } = self;
        match self.content {
            Some(_) => format!("[{media_type}, {bytes} bytes]"),
            None => format!("[{media_type}, {bytes} bytes: too large to be shown]"),
        }
    }
}

/// A text that may have been cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutText {
    /// The text, or its head and tail with a line between them.
    pub text: String,
    /// The number of characters that were left out; 0 if the text is whole.
    pub omitted: usize,
}

/// Returns the text if it has at most `most` characters, and otherwise its head and tail with a line
/// between them. `rest` says how to read what was left out, from its first byte on.
pub fn head_and_tail(text: &str, most: usize, rest: impl FnOnce(usize) -> String) -> CutText {
    let count = text.chars().count();
    if count <= most {
        return CutText { text: text.to_owned(), omitted: 0 };
    }
    // The line between them has to fit too.
    let half = most.saturating_sub(200) / 2;
    let head = line_end(text.get(..byte_of(text, half)).unwrap_or_default());
    let tail = line_start(text.get(byte_of(text, count - half)..).unwrap_or_default());
    let omitted = count - head.chars().count() - tail.chars().count();
    let rest = rest(head.len());
    CutText {
        text: format!("{head}\n[... {omitted} characters left out; {rest} ...]\n{tail}"),
        omitted,
    }
}

/// Returns at most `most` characters of a text, and says so if there are more.
#[must_use]
pub fn shorten(text: &str, most: usize) -> String {
    let end = byte_of(text, most);
    match text.get(..end) {
        Some(head) if end < text.len() => format!("{head}…"),
        _ => text.to_owned(),
    }
}

/// Returns the position of a character, or the text's length if it has fewer.
fn byte_of(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(position, _)| position)
}

/// Drops the last line if it was cut and is short beside the rest.
fn line_end(head: &str) -> &str {
    match head.rfind('\n') {
        Some(end) if end >= head.len() - head.len() / 8 => head.get(..end).unwrap_or(head),
        Some(_) | None => head,
    }
}

fn line_start(tail: &str) -> &str {
    match tail.find('\n') {
        Some(end) if end <= tail.len() / 8 => tail.get(end + 1..).unwrap_or(tail),
        Some(_) | None => tail,
    }
}

/// Says what was changed in a call so that it may run: a timeout that was cut, variables that were
/// left out. The texts are cut to `limit` characters.
#[must_use]
pub fn adjustments(result: &CallResult, limit: usize) -> Vec<String> {
    let adjusted = result.findings.iter().filter(|finding| finding.kind == ADJUSTED);
    let mut texts: Vec<String> = adjusted.map(|finding| shorten(&finding.why, limit)).collect();
    let more = texts.len().saturating_sub(MAX_ADJUSTMENTS);
    if more > 0 {
        texts.truncate(MAX_ADJUSTMENTS);
        texts.push(format!("{more} more parts of the call were changed"));
    }
    texts
}

/// Returns the facts that a model must know beside the output, a line each: the exit status, what
/// was changed in the call, the error and what to do about it, denials, the undo id. Messages are
/// cut to `limit` characters.
#[must_use]
pub fn notes(result: &CallResult, limit: usize) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(emptiness(result).map(str::to_owned));
    match (result.exit_code, result.signal) {
        (Some(code), Some(signal)) => {
            notes.push(format!("[exit {code}, ended by signal {signal}]"))
        }
        (Some(code), None) => notes.push(format!("[exit {code}]")),
        (None, _) => {}
    }
    let ends = [
        (result.timed_out, "[timed out; everything that the call started was killed]"),
        (result.cancelled, "[cancelled]"),
        (result.oom, "[a process was killed because memory ran out]"),
        (result.pipe_held, "[a process that was left running was killed]"),
    ];
    notes.extend(ends.iter().filter(|(is, _)| *is).map(|(_, text)| (*text).to_owned()));
    notes.extend(adjustments(result, limit).iter().map(|text| format!("[changed: {text}]")));
    let hint = error_notes(result, &mut notes, limit);
    let denials = result.denials.iter().take(MAX_DENIALS);
    notes.extend(denials.map(|denial| refusal(denial, &hint, limit)));
    if let Some(more) = result.denials.len().checked_sub(MAX_DENIALS + 1) {
        notes.push(format!("[{} more refusals]", more + 1));
    }
    if let Some(undo) = &result.undo {
        notes.push(format!("[undo id: {undo}]"));
    }
    notes
}

/// Says why a call that succeeded has no output: a model should not read an empty text.
fn emptiness(result: &CallResult) -> Option<&'static str> {
    if !result.success || !result.output.is_empty() || result.exit_code.is_some() {
        return None;
    }
    let data = result.data.as_ref().and_then(|data| serde_json::from_str(data.as_str()).ok());
    let data: Value = data.unwrap_or_default();
    Some(match result.tool.as_str() {
        "grep" | "glob" => "[no match]",
        "list_files" => "[no entries]",
        // What is not text is in `content`.
        "read_file" if data.get("content").is_some() => return None,
        "read_file" if data.get("size").and_then(Value::as_u64) == Some(0) => "[the file is empty]",
        "read_file" => "[no lines in this range]",
        _ => "[no output]",
    })
}

/// Adds the error and what to do about it; returns the latter.
fn error_notes(result: &CallResult, notes: &mut Vec<String>, limit: usize) -> String {
    let Some(error) = &result.error else { return String::new() };
    // A command that failed has said so itself.
    if error.code == ErrorCode::CommandFailed {
        return String::new();
    }
    let is_denied = matches!(
        error.code,
        ErrorCode::Denied | ErrorCode::OutsidePolicy | ErrorCode::StaleApproval
    );
    let what =
        if is_denied { "Denied".to_owned() } else { format!("Error ({})", error.code.name()) };
    notes.push(format!("{what}: {}", shorten(&error.message, limit)));
    if !error.hint.is_empty() {
        notes.push(format!("What to do: {}", shorten(&error.hint, limit)));
    }
    error.hint.clone()
}

fn refusal(denial: &Denial, hint: &str, limit: usize) -> String {
    let Denial { layer, rule, target, remedy, .. } = denial;
    let mut text = format!("Refused by {layer}: {} ({rule}).", shorten(target, limit));
    if !remedy.is_empty() && !hint.contains(remedy.as_str()) {
        text.push_str(&format!(" To allow it: {}", shorten(remedy, limit)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_whole() {
        let whole = head_and_tail("éé", 2, |_| panic!("nothing is left out"));
        assert_eq!(whole, CutText { text: "éé".to_owned(), omitted: 0 });
    }

    #[test]
    fn a_long_text_keeps_its_head_and_tail_and_says_what_is_missing() {
        let text: String = (0..5000).map(|n| format!("line {n} é\n")).collect();
        let mut first = 0;
        let cut = head_and_tail(&text, 2000, |byte| {
            first = byte;
            "read on".to_owned()
        });
        assert!(cut.text.chars().count() <= 2000, "{}", cut.text.len());
        assert!(cut.text.starts_with("line 0 é\nline 1 é\n"), "{}", cut.text);
        assert!(cut.text.ends_with("line 4998 é\nline 4999 é\n"), "{}", cut.text);
        let said = format!("\n[... {} characters left out; read on ...]\nline ", cut.omitted);
        assert!(cut.text.contains(&said), "{}", cut.text);
        let (head, rest) = text.split_at(first);
        assert!(cut.text.starts_with(head));
        assert!(cut.omitted > 10_000 && rest.starts_with('\n'), "{}", cut.omitted);
    }

    #[test]
    fn one_long_line_is_cut_anywhere() {
        let cut = head_and_tail(&"é".repeat(10_000), 1000, |_| String::new());
        assert!(cut.text.chars().count() <= 1000);
        assert!(cut.text.starts_with("ééé") && cut.text.ends_with("ééé"));
        assert_eq!(shorten("ééé", 2), "éé…");
        assert_eq!(shorten("éé", 2), "éé");
    }
}
