//! Which letters do something to a terminal or a line of text instead of standing in it.

/// Whether a letter moves a cursor, ends a line, or turns the text after it around. In a name or a
/// message it is to be written out, so that what is shown is what is there.
#[must_use]
pub fn steers(letter: char) -> bool {
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
    fn tells_letters_from_what_steers_them() {
        for letter in ['\n', '\u{1b}', '\u{7f}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}'] {
            assert!(steers(letter), "{letter:?}");
        }
        for letter in ['a', ' ', 'ü', 'ש', '漢', '\u{200d}', '🙂'] {
            assert!(!steers(letter), "{letter:?}");
        }
    }
}
