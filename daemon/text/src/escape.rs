//! Escapes text from elsewhere, so that a reader sees what is really there. Pure: no I/O.

use crate::{CharacterClass, classify, is_control, is_hidden};

fn escape_where(text: &str, needs_escape: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if needs_escape(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Escapes every character that controls a terminal or the direction of text, for a message.
#[must_use]
pub fn escape_controls(text: &str) -> String {
    escape_where(text, is_control)
}

/// Escapes every character that is not seen as itself. The result is one line.
#[must_use]
pub fn escape_line(text: &str) -> String {
    escape_where(text, is_hidden)
}

/// Escapes every character that is not seen as itself, except line breaks and tabs.
#[must_use]
pub fn escape_lines(text: &str) -> String {
    escape_where(text, |c| is_hidden(c) && c != '\n' && c != '\t')
}

/// Escapes a file name, whatever bytes it has, so that two names never look the same: control
/// characters, backslashes, and bytes that are not UTF-8.
#[must_use]
pub fn escape_bytes(name: &[u8]) -> String {
    let mut shown = String::with_capacity(name.len());
    for part in name.utf8_chunks() {
        shown += &escape_where(part.valid(), |c| c == '\\' || is_control(c));
        shown.extend(part.invalid().escape_ascii().map(char::from));
    }
    shown
}

/// Returns at most `most` characters of a text as one line, for a comment: control characters
/// become spaces, and characters that nobody sees are left out.
#[must_use]
pub fn on_one_line(text: &str, most: usize) -> String {
    let plain = text.chars().filter_map(|c| match classify(c) {
        CharacterClass::Visible | CharacterClass::Ambiguous => Some(c),
        CharacterClass::Control => Some(' '),
        CharacterClass::Invisible => None,
    });
    plain.take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_approvers_shows_what_hides() {
        assert_eq!(escape_line("rm -rf build"), "rm -rf build");
        assert_eq!(escape_line("a\u{1b}[2Kb\r\n"), "a\\u{1b}[2Kb\\r\\n");
        assert_eq!(escape_line("x\u{202e}y\u{2066}z"), "x\\u{202e}y\\u{2066}z");
        assert_eq!(escape_line("a\u{200b}b\u{a0}c\u{feff}"), "a\\u{200b}b\\u{a0}c\\u{feff}");
        assert_eq!(escape_line("größe 漢 ש"), "größe 漢 ש");
        assert_eq!(escape_lines("a\n\tb\u{1b}\nc"), "a\n\tb\\u{1b}\nc");
        assert_eq!(escape_lines("a\r\n"), "a\\r\n");
    }

    #[test]
    fn a_message_keeps_what_scripts_need() {
        assert_eq!(escape_controls("a\u{1b}b\u{200d}c\\"), "a\\u{1b}b\u{200d}c\\");
    }

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(escape_bytes(b"plain name"), "plain name");
        assert_eq!(escape_bytes("ünï".as_bytes()), "ünï");
        assert_eq!(escape_bytes(b"a\nb\x1b[31m\\"), "a\\nb\\u{1b}[31m\\\\");
        assert_eq!(escape_bytes(b"\xffz"), "\\xffz");
        assert_eq!(escape_bytes("x\u{202e}y".as_bytes()), "x\\u{202e}y");
    }

    #[test]
    fn a_comment_can_not_begin_another_line() {
        assert_eq!(on_one_line("a\nb\u{2028}c\u{200b}d", 9), "a b cd");
        assert_eq!(on_one_line("größer", 3), "grö");
    }
}
