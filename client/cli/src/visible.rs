//! Makes foreign text visible: characters that control a terminal, reorder text or are invisible
//! are shown by name.

pub(crate) mod columns;

/// Returns the text as one line without control, reordering or invisible characters. A tab becomes
/// four spaces.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push_str("    "),
            '\u{7f}' => shown.push('\u{2421}'),
            c if c < ' ' => shown.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}')),
            c if palisade_text::is_hidden(c) => {
                shown.push_str(&format!("<U+{:04X}>", u32::from(c)))
            }
            c => shown.push(c),
        }
    }
    shown
}

/// Returns each line of a text, made visible.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = String> {
    text.strip_suffix('\n').unwrap_or(text).split('\n').map(visible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_plain_stays_as_it_is() {
        let text = "rm -r 'größe' 日本語 🙂 ~!@#$%^&*()";
        assert_eq!(visible(text), text);
    }

    #[test]
    fn what_acts_or_hides_is_shown() {
        let cases = [
            ("\x1b[2Krm", "␛[2Krm"),
            ("a\rb", "a␍b"),
            ("a\0b\x07\x08", "a␀b␇␈"),
            ("a\nb", "a␊b"),
            ("a\tb", "a    b"),
            ("\x7f", "␡"),
            ("\u{9b}31m", "<U+009B>31m"),
            ("safe\u{202e}txt.exe", "safe<U+202E>txt.exe"),
            ("\u{2066}a\u{2069}", "<U+2066>a<U+2069>"),
            ("r\u{200b}m", "r<U+200B>m"),
            ("a\u{a0}b", "a<U+00A0>b"),
            ("a\u{2028}b", "a<U+2028>b"),
            ("\u{feff}#!", "<U+FEFF>#!"),
            ("\u{e0041}", "<U+E0041>"),
        ];
        for (text, expected) in cases {
            assert_eq!(visible(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lines_are_lines_and_a_return_is_none() {
        assert_eq!(lines("a\nb\r\n").collect::<Vec<_>>(), ["a", "b␍"]);
        assert_eq!(lines("").collect::<Vec<_>>(), [""]);
    }
}
