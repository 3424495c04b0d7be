//! Cuts long texts to their head and tail.

/// A text that may have been cut.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CutText {
    pub(crate) text: String,
    /// The number of characters that were left out; 0 if the text is whole.
    pub(crate) omitted: usize,
}

/// Returns the text if it has at most `most` characters, and otherwise its head and tail with a line
/// between them. `rest` says how to read what was left out, from its first byte on.
pub(crate) fn head_and_tail(
    text: &str,
    most: usize,
    rest: impl FnOnce(usize) -> String,
) -> CutText {
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
pub(crate) fn shorten(text: &str, most: usize) -> String {
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
