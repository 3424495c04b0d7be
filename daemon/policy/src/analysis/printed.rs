//! Determines the output of the simplest commands, so that the input of commands after a pipe is
//! known.

use super::{
    field::Field,
    walk::{Call, Input},
};

use std::{iter::Peekable, str::Chars};

/// The largest output that is tracked, in bytes.
const MOST: usize = 16 * 1024;

/// Returns the output of a command; `None` if it is unknown.
pub(crate) fn by(name: &str, call: &Call) -> Option<String> {
    let words: Option<Vec<String>> = call.argv.iter().skip(1).map(Field::text).collect();
    let text = match name {
        "true" | ":" | "false" | "sleep" => String::new(),
        "echo" => echo(&words?),
        "printf" => printf(&words?)?,
        "cat" => match (&call.input, words?.as_slice()) {
            (Input::Known(text), []) => text.clone(),
            (Input::Known(text), [dash]) if dash == "-" => text.clone(),
            _ => return None,
        },
        _ => return None,
    };
    (text.len() <= MOST).then_some(text)
}

fn echo(words: &[String]) -> String {
    let is_option = |word: &&String| {
        word.len() > 1 && word.starts_with('-') && word.bytes().skip(1).all(|b| b"neE".contains(&b))
    };
    let options: Vec<&String> = words.iter().take_while(is_option).collect();
    let has = |letter: char| options.iter().any(|option| option.contains(letter));
    let text = words.get(options.len()..).unwrap_or_default().join(" ");
    let text = if has('e') { unescape(&text) } else { text };
    if has('n') { text } else { text + "\n" }
}

fn printf(words: &[String]) -> Option<String> {
    let (format, values) = words.split_first()?;
    if format.starts_with('-') {
        return None;
    }
    let mut values = values.iter();
    let mut printed = String::new();
    loop {
        let before = values.len();
        one_round(format, &mut values, &mut printed)?;
        if values.len() == 0 || values.len() == before || printed.len() > MOST {
            return Some(printed);
        }
    }
}

fn one_round(
    format: &str,
    values: &mut std::slice::Iter<'_, String>,
    printed: &mut String,
) -> Option<()> {
    let mut pieces = format.split('%');
    printed.push_str(&unescape(pieces.next()?));
    while let Some(piece) = pieces.next() {
        let mut letters = piece.chars();
        match letters.next() {
            Some('s' | 'd') => {
                printed.push_str(values.next().map_or("", String::as_str));
                printed.push_str(&unescape(letters.as_str()));
            }
            Some('b') => {
                printed.push_str(&unescape(values.next().map_or("", String::as_str)));
                printed.push_str(&unescape(letters.as_str()));
            }
            // The conversion is `%%`.
            None => {
                printed.push('%');
                printed.push_str(&unescape(pieces.next()?));
            }
            Some(_) => return None,
        }
    }
    Some(())
}

/// Replaces the escapes of `echo -e`, `printf` and `$'…'`.
#[must_use]
pub fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match rest.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('a') => plain.push('\x07'),
            Some('b') => plain.push('\x08'),
            Some('e' | 'E') => plain.push('\x1b'),
            Some('f') => plain.push('\x0c'),
            Some('v') => plain.push('\x0b'),
            Some('x') => plain.extend(number(&mut rest, 2, 16, 0)),
            Some('u') => plain.extend(number(&mut rest, 4, 16, 0)),
            Some('U') => plain.extend(number(&mut rest, 8, 16, 0)),
            Some('0') => plain.extend(number(&mut rest, 3, 8, 0)),
            Some(c @ '1'..='7') => {
                plain.extend(number(&mut rest, 2, 8, c.to_digit(8).unwrap_or(0)));
            }
            Some(c @ ('\\' | '\'' | '"' | '?')) => plain.push(c),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}

/// Reads up to `most` more digits, and returns the character with that number.
fn number(rest: &mut Peekable<Chars<'_>>, most: usize, radix: u32, first: u32) -> Option<char> {
    let mut value = first;
    for _ in 0..most {
        let Some(digit) = rest.peek().and_then(|c| c.to_digit(radix)) else { break };
        value = value.saturating_mul(radix).saturating_add(digit);
        rest.next();
    }
    char::from_u32(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        assert_eq!(unescape(r"\x72\x6d"), "rm");
        assert_eq!(unescape(r"\162\155 \u0041\n"), "rm A\n");
        assert_eq!(unescape(r"a\q\"), r"a\q\");
    }

    #[test]
    fn formats() {
        let words = |words: &[&str]| words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>();
        assert_eq!(printf(&words(&["%s\\n", "a", "b"])).unwrap(), "a\nb\n");
        assert_eq!(printf(&words(&["touch x"])).unwrap(), "touch x");
        assert_eq!(printf(&words(&["100%%"])).unwrap(), "100%");
        assert_eq!(printf(&words(&["%q", "a"])), None);
        assert_eq!(echo(&words(&["-ne", "a\\tb"])), "a\tb");
    }
}
