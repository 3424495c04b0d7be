//! Shows a file name on one line, whatever bytes it has. Pure: no I/O.

use palisade_plan::text;

/// Shows a file name on one line: control characters and bytes that are not UTF-8 are escaped.
pub(crate) fn escaped(name: &[u8]) -> String {
    let mut shown = String::new();
    for part in name.utf8_chunks() {
        for letter in part.valid().chars() {
            match letter {
                '\\' => shown.push_str("\\\\"),
                letter if text::is_control_or_bidi(letter) => shown.extend(letter.escape_default()),
                letter => shown.push(letter),
            }
        }
        part.invalid()
            .iter()
            .for_each(|byte| shown.extend(std::ascii::escape_default(*byte).map(char::from)));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(escaped(b"plain name"), "plain name");
        assert_eq!(escaped("ünï".as_bytes()), "ünï");
        assert_eq!(escaped(b"a\nb\x1b[31m\\"), "a\\nb\\u{1b}[31m\\\\");
        assert_eq!(escaped(b"\xffz"), "\\xffz");
        assert_eq!(escaped("x\u{202e}y".as_bytes()), "x\\u{202e}y");
    }
}
