//! Text that is shown to people: which characters are visible as themselves, how the others are
//! escaped, hexadecimal digits, and the nearest of several names. Every room uses this crate, so
//! that a character is not plain text in one message and an escape in another. Pure: no I/O.
#![forbid(unsafe_code)]

mod character;
mod escape;
mod nearest;

pub use character::{CharacterClass, classify, is_control, is_hidden};
pub use escape::{escape_bytes, escape_controls, escape_line, escape_lines, on_one_line};
pub use nearest::{edit_distance, nearest};

/// Formats bytes as hexadecimal digits in lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(*byte));
    }
    text
}

/// Parses exactly `N` bytes from hexadecimal digits in lower case; `None` if the text is anything
/// else.
#[must_use]
pub fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = (value(pair[0])? << 4) | value(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_lower_case_and_parse_back() {
        let all: [u8; 256] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        for byte in all {
            assert_eq!(hex(&[byte]), format!("{byte:02x}"));
        }
        assert_eq!(parse_hex(&hex(&all)), Some(all));
        for wrong in ["", "0", "0g", "0A", "000", "+1", "ü"] {
            assert_eq!(parse_hex::<1>(wrong), None, "{wrong:?}");
        }
        assert_eq!(hex(&[]), "");
    }
}
