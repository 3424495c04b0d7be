//! Makes text safe to show to approvers: characters that could move the cursor or reverse text are
//! escaped. Pure: no I/O.

use palisade_plan::text;

/// Returns `true` if a character takes no room or looks like another, so that it could hide
/// something in a command.
fn unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{2064}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{e0000}'..='\u{e0fff}'
    ) || letter != ' ' && letter.is_whitespace()
}

/// Makes one line safe to show.
pub(crate) fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if text::is_control_or_bidi(letter) || unseen(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Makes several lines safe to show: line breaks and tabs stay.
pub(crate) fn lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for piece in text.split_inclusive(['\n', '\t']) {
        let (body, end) = match piece.char_indices().next_back() {
            Some((at, last @ ('\n' | '\t'))) => (piece.get(..at).unwrap_or_default(), Some(last)),
            Some(_) | None => (piece, None),
        };
        shown.push_str(&line(body));
        shown.extend(end);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_is_shown() {
        assert_eq!(line("rm -rf build"), "rm -rf build");
        assert_eq!(line("a\u{1b}[2Kb\r\n"), "a\\u{1b}[2Kb\\r\\n");
        assert_eq!(line("x\u{202e}y\u{2066}z"), "x\\u{202e}y\\u{2066}z");
        assert_eq!(line("a\u{200b}b\u{a0}c\u{feff}"), "a\\u{200b}b\\u{a0}c\\u{feff}");
        assert_eq!(line("größe 漢 ש"), "größe 漢 ש");
        assert_eq!(lines("a\n\tb\u{1b}\nc"), "a\n\tb\\u{1b}\nc");
        assert_eq!(lines("a\r\n"), "a\\r\n");
    }
}
