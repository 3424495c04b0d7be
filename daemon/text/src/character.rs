//! The one table of characters that are not visible as themselves. Pure: no I/O.

/// The appearance of a character to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CharacterClass {
    /// It is seen as itself.
    Visible,
    /// It takes no room or looks like a space, but scripts and emoji need it: joiners, variation
    /// selectors, fillers, and spaces other than U+0020.
    Ambiguous,
    /// It takes no room, and no script needs it: zero width space, word joiner, byte order mark,
    /// tags. It can carry text that a program reads and a person does not see.
    Invisible,
    /// It moves the cursor, ends the line or changes the direction of the text after it.
    Control,
}

/// Returns the class of a character.
#[must_use]
pub fn classify(c: char) -> CharacterClass {
    match c {
        ' '..='~' => CharacterClass::Visible,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' // C0, delete and C1 controls
        | '\u{61c}' | '\u{200e}' | '\u{200f}' // marks of direction
        | '\u{2028}'..='\u{202e}' // line separators, embeddings and overrides of direction
        | '\u{2066}'..='\u{2069}' // isolates of direction
        => CharacterClass::Control,
        '\u{200b}' // zero width space
        | '\u{2060}'..='\u{2065}' // word joiner, invisible operators
        | '\u{206a}'..='\u{206f}' // deprecated format characters
        | '\u{feff}' // byte order mark
        | '\u{fff0}'..='\u{fffb}' // annotations
        | '\u{1d173}'..='\u{1d17a}' // musical controls
        | '\u{e0000}'..='\u{e0fff}' // tags, more variation selectors
        => CharacterClass::Invisible,
        '\u{ad}' | '\u{34f}' // soft hyphen, grapheme joiner
        | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' // fillers, inherent vowels
        | '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' // variation selectors
        | '\u{200c}' | '\u{200d}' // joiners
        | '\u{2800}' | '\u{3164}' | '\u{ffa0}' // blanks
        => CharacterClass::Ambiguous,
        c if c.is_whitespace() => CharacterClass::Ambiguous,
        _ => CharacterClass::Visible,
    }
}

/// Returns `true` if a character moves the cursor, ends the line or changes the direction of the
/// text after it. No message and no name contains one unescaped.
#[must_use]
pub fn is_control(c: char) -> bool {
    classify(c) == CharacterClass::Control
}

/// Returns `true` if a character is not seen as itself. What approvers read, and what is recorded,
/// contains none unescaped.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    classify(c) != CharacterClass::Visible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_character_of_unicode_is_one() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            assert!(!c.is_control() || is_control(c), "{c:?}");
            assert!(c == ' ' || !c.is_whitespace() || is_hidden(c), "{c:?}");
        }
    }

    #[test]
    fn characters_are_in_their_classes() {
        use CharacterClass::{Ambiguous, Control, Invisible, Visible};
        for (class, letters) in [
            (Visible, "a ~ü漢ש🙂\u{301}"),
            (Control, "\n\t\r\0\u{1b}\u{7f}\u{9b}\u{61c}\u{200f}\u{2028}\u{202e}\u{2066}"),
            (Invisible, "\u{200b}\u{2060}\u{206a}\u{feff}\u{fffb}\u{1d173}\u{e0041}"),
            (Ambiguous, "\u{a0}\u{ad}\u{1680}\u{180e}\u{2003}\u{200d}\u{2800}\u{3000}\u{fe0f}"),
        ] {
            for c in letters.chars() {
                assert_eq!(classify(c), class, "{c:?}");
            }
        }
    }
}
