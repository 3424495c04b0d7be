//! Finds characters that control a terminal or the layout of a line instead of being visible text.

/// Returns `true` if a character moves the cursor, ends the line or reverses the text after it.
/// Names and messages show it escaped, so that the reader sees what is really there.
#[must_use]
pub fn is_control_or_bidi(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_bidi_controls_are_not_letters() {
        for letter in ['\n', '\u{1b}', '\u{7f}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}'] {
            assert!(is_control_or_bidi(letter), "{letter:?}");
        }
        for letter in ['a', ' ', 'ü', 'ש', '漢', '\u{200d}', '🙂'] {
            assert!(!is_control_or_bidi(letter), "{letter:?}");
        }
    }
}
