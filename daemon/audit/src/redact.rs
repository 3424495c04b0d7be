//! Finds secrets in text, by their form and by the names before them, in one pass. Pure: no I/O.
//!
//! This catches many secrets, but not all. A secret that has no known form and no name before it
//! stays in the text.

use crate::{
    names::{NAME, names_a_directory, names_a_secret, words},
    options::{Part, ValuePosition, secret_in, secret_of},
    tokens::TOKENS,
};
use std::borrow::Cow;

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Words that indicate a secret only before `=`.
const ASSIGNED: &[&str] = &["pass", "sshpass"];

/// Schemes of `Authorization` headers. The word after a scheme is the secret.
const SCHEMES: &[&str] = &[
    "bearer",
    "basic",
    "token",
    "negotiate",
    "ntlm",
    "apikey",
    "api-key",
    "key",
    "jwt",
    "bot",
    "genie",
    "splunk",
];

/// Schemes that are followed by a list of parameters.
const LISTED: &[&str] = &["digest", "oauth", "hawk", "hmac", "signature", "aws4-hmac-sha256"];

/// Most bytes of a quoted value.
const QUOTED: usize = 1024;

/// Most bytes of a word or value in which a secret is looked for. All of the secret is hidden, and
/// all of the value if the secret may come later.
const EXAMINED: usize = 1024;

/// Returns the text with [`REDACTED`] in place of each secret.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    let mut scan = Scan::new(text);
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(skipped) =
        bytes.get(at..).and_then(|rest| rest.iter().position(may_begin_secret))
    {
        at += skipped;
        at = match &bytes[at] {
            b'-' if text[at..].starts_with("-----") => scan.key_block(at),
            b'-' if scan.begins_option(at) => scan.option(at),
            b'=' | b':' => scan.pair(at),
            b'B' | b'b' if scan.begins_word(at) => scan.scheme(at),
            byte if byte.is_ascii_alphabetic() && scan.begins_word(at) => scan.token(at),
            _ => None,
        }
        .unwrap_or(at + 1);
    }
    if scan.copied == 0 {
        return Cow::Borrowed(text);
    }
    scan.out.push_str(&text[scan.copied..]);
    Cow::Owned(scan.out)
}

/// The bytes that a secret, or the text that announces one, can begin with. Most text has few of
/// them.
const SECRET_STARTS: [bool; 256] = {
    let mut starts = [false; 256];
    let other = b"-=:Bb";
    let mut at = 0;
    while at < other.len() {
        starts[other[at] as usize] = true;
        at += 1;
    }
    at = 0;
    while at < TOKENS.len() {
        starts[TOKENS[at].0.as_bytes()[0] as usize] = true;
        at += 1;
    }
    starts
};

fn may_begin_secret(byte: &u8) -> bool {
    SECRET_STARTS[usize::from(*byte)]
}

struct Scan<'a> {
    text: &'a str,
    out: String,
    /// The number of bytes of the text that have been copied to `out`.
    copied: usize,
    word: NextEnd,
    address: NextEnd,
    at_sign: NextEnd,
    separator: NextEnd,
}

/// The next character of a kind. It is remembered, so that text in which every byte may begin a
/// secret is not searched once for each of them.
#[derive(Debug, Default)]
struct NextEnd {
    from: usize,
    end: usize,
}

impl NextEnd {
    /// Returns the place of the next character of the kind, or the end of the text.
    fn after(&mut self, text: &str, at: usize, is_end: impl Fn(char) -> bool) -> usize {
        if at < self.from || at >= self.end {
            let rest = &text[at..];
            (self.from, self.end) = (at, at + rest.find(is_end).unwrap_or(rest.len()));
        }
        self.end
    }
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Self {
        let (word, address, at_sign, separator) = Default::default();
        Self { text, out: String::new(), copied: 0, word, address, at_sign, separator }
    }

    /// Returns the part of a word or value in which a secret is looked for.
    fn first_part(&self, start: usize, end: usize) -> &'a str {
        &self.text[start..self.text.floor_char_boundary(end.min(start + EXAMINED))]
    }

    /// Returns the end of a word: a character that can not be part of one.
    fn word_end(&mut self, at: usize) -> usize {
        let is_end = |c: char| c.is_whitespace() || "\"'`,;&|<>(){}\\".contains(c);
        self.word.after(self.text, at, is_end)
    }

    fn begins_word(&self, at: usize) -> bool {
        at == 0 || !self.text.as_bytes()[at - 1].is_ascii_alphanumeric()
    }

    /// Returns `true` if an option can begin here: not in the middle of `a-b`.
    fn begins_option(&self, at: usize) -> bool {
        let before = self.text[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || "\"'`([{,=".contains(c))
    }

    /// Replaces a part of the text, and returns where to continue. Both ends are at character
    /// boundaries.
    fn hide(&mut self, from: usize, to: usize) -> Option<usize> {
        if from < self.copied {
            return Some(to);
        }
        self.out.push_str(&self.text[self.copied..from]);
        self.out.push_str(REDACTED);
        self.copied = to;
        Some(to)
    }

    /// Hides `-----BEGIN … KEY-----` up to its end marker, or to the end of the text.
    fn key_block(&mut self, at: usize) -> Option<usize> {
        let rest = self.text[at..].strip_prefix("-----BEGIN ")?;
        let (label, body) = rest.split_once("-----")?;
        if label.len() > NAME || !label.contains("KEY") {
            return None;
        }
        let end = format!("-----END {label}-----");
        match body.find(&end) {
            Some(found) => {
                let body = self.text.len() - body.len();
                self.hide(at, body + found + end.len())
            }
            None => self.hide(at, self.text.len()),
        }
    }

    /// Hides the secret of `--password VALUE`, `-u user:VALUE` or `-pVALUE`. (`--password=VALUE` is
    /// handled as a pair.)
    fn option(&mut self, at: usize) -> Option<usize> {
        let end = self.word_end(at);
        let (before, word) = (&self.text[..at], self.first_part(at, end));
        let (place, part) = match secret_of(before, word) {
            Some(found) => found,
            // In `-p'VALUE'` the word continues after the quote.
            None if self.text[end..].starts_with(['"', '\'']) => {
                let (place, part) = secret_of(before, &format!("{word}x"))?;
                (place == ValuePosition::Joined(end - at))
                    .then_some((ValuePosition::Joined(end - at + 1), part))?
            }
            None => return None,
        };
        let start = match place {
            ValuePosition::Joined(offset) => at + offset,
            ValuePosition::Next => {
                let rest = &self.text[end..];
                let gap = rest.find(|c: char| !" \t\"'\\,".contains(c))?;
                if gap == 0 {
                    return None;
                }
                end + gap
            }
        };
        self.part_of_value(start, part)
    }

    /// Hides the secret of `name=VALUE`, `name: VALUE`, `"name": "VALUE"` or
    /// `scheme://user:VALUE@host`.
    fn pair(&mut self, at: usize) -> Option<usize> {
        if self.text[at..].starts_with("://") {
            return self.user_info(at + 3);
        }
        let before = self.text[..at].trim_end_matches([' ', '"', '\'', '\\']);
        let lowest = before.ceil_char_boundary(before.len().saturating_sub(NAME));
        let name = &before[lowest..];
        let name = &name[name
            .rfind(|c: char| !is_name(c))
            .map_or(0, |other| other + name[other..].chars().next().map_or(1, char::len_utf8))..];
        let after = &self.text[at + 1..];
        let is_path = after.starts_with(':');
        let assigned = self.text[at..].starts_with('=');
        let named = names_a_secret(name)
            || assigned && ASSIGNED.contains(&name.to_ascii_lowercase().as_str());
        if name.is_empty() || is_path || at - before.len() > 3 || !named {
            return None;
        }
        let gap = after.len() - after.trim_start_matches([' ', '"', '\'', '\\', '=']).len();
        let start = at + 1 + gap;
        if names_a_directory(name, &self.text[start..]) {
            return None;
        }
        if words(name).iter().any(|word| word == "authorization") {
            return self.header(start);
        }
        // The scheme is not a secret, but the word after it is.
        if scheme_length(&self.text[start..]).is_some() {
            return self.scheme(start);
        }
        self.value(start)
    }

    /// Hides a value up to a character that can not be part of one. A reference to a variable is
    /// kept.
    fn value(&mut self, start: usize) -> Option<usize> {
        self.part_of_value(start, Part::Whole)
    }

    fn part_of_value(&mut self, start: usize, part: Part) -> Option<usize> {
        let end = self.value_end(start);
        let first = self.first_part(start, end);
        let from = match secret_in(first, part) {
            Some(offset) => start + offset,
            None => {
                let rest = start + first.len();
                let separator = self.separator.after(self.text, rest, |c| ":%".contains(c));
                // The secret is in the part that is not examined, if there is one.
                (separator < end).then_some(start)?
            }
        };
        let secret = &self.text[from..];
        if is_reference(secret) || secret.starts_with(REDACTED) {
            return None;
        }
        self.hide(from, end)
    }

    /// Returns the end of a value: the closing quote, or a character that can not be part of a
    /// value.
    fn value_end(&mut self, start: usize) -> usize {
        let rest = &self.text[start..];
        if let Some(quote) = self.text[..start].chars().next_back().filter(|c| "\"'".contains(*c)) {
            let line = &rest[..rest.floor_char_boundary(QUOTED)];
            let line = line.lines().next().unwrap_or_default();
            if let Some(end) = line.find(quote) {
                return start + line[..end].trim_end_matches('\\').len();
            }
        }
        self.word_end(start)
    }

    /// Hides the secret of `Authorization: SCHEME VALUE`, or of a value without a scheme.
    fn header(&mut self, start: usize) -> Option<usize> {
        let rest = &self.text[start..];
        let first = self.word_end(start) - start;
        let scheme = rest[..rest.floor_char_boundary(first.min(NAME))].to_ascii_lowercase();
        let gap = rest[first..].len() - rest[first..].trim_start_matches(' ').len();
        let next = start + first + gap;
        if gap > 0 && SCHEMES.contains(&scheme.as_str()) {
            return self.value(next);
        }
        if gap > 0 && LISTED.contains(&scheme.as_str()) {
            let list = &self.text[next..];
            return self.hide(next, next + list.find(['\n', '\'']).unwrap_or(list.len()));
        }
        let end = self.value(start)?;
        let second = self.word_end(next) - next;
        let word = &self.text[next..next + second];
        // The scheme is unknown, so the word after it is hidden too, if it can be a secret.
        if gap > 0 && second > 0 && !word.starts_with('-') && !word.contains("://") {
            self.copied = next + second;
            return Some(next + second);
        }
        Some(end)
    }

    /// Hides the password of `user:VALUE@` before a host.
    fn user_info(&mut self, start: usize) -> Option<usize> {
        let over = |c: char| c.is_whitespace() || "\"'`<>".contains(c);
        let end = self.address.after(self.text, start, over);
        let rest = &self.text[start..end];
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        let colon = authority.find(':')?;
        let at = match authority.rfind('@') {
            Some(at) => at,
            // The password may contain a slash, unless this is a port and a path.
            None => {
                let port = &authority[colon + 1..];
                let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
                let at = self.at_sign.after(self.text, start, |c| c == '@');
                (at < end && !is_port && !authority.starts_with('[')).then_some(at - start)?
            }
        };
        if colon + 1 >= at || is_reference(&authority[colon + 1..]) {
            return None;
        }
        self.hide(start + colon + 1, start + at)
    }

    /// Hides the secret of `Bearer VALUE` or `Basic VALUE`.
    fn scheme(&mut self, at: usize) -> Option<usize> {
        let rest = &self.text[at..];
        let length = scheme_length(rest)?;
        let value = &rest[length..];
        let end = value.find(|c: char| !(c.is_ascii_alphanumeric() || "._~+/=-".contains(c)));
        match end.unwrap_or(value.len()) {
            // Excludes prose such as "a bearer of" or "basic usage": such words are short and have
            // no digits or capitals.
            0..8 => None,
            end if !value[..end]
                .contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase()) =>
            {
                None
            }
            end => self.hide(at + length, at + length + end),
        }
    }

    /// Hides a token that is recognised by its prefix.
    fn token(&mut self, at: usize) -> Option<usize> {
        let rest = &self.text[at..];
        // No token is shorter than this, and most words are.
        if rest.as_bytes().get(..14)?.contains(&b' ') {
            return None;
        }
        let (prefix, least, others) =
            TOKENS.iter().find(|(prefix, ..)| rest.starts_with(prefix))?;
        let body = &rest[prefix.len()..];
        let end = body.find(|c: char| !(c.is_ascii_alphanumeric() || others.contains(c)));
        let end = end.unwrap_or(body.len());
        if end < *least {
            return None;
        }
        self.hide(at, at + prefix.len() + end)
    }
}

/// Returns the length of `Bearer ` or `Basic `, if the text begins with one of them.
fn scheme_length(text: &str) -> Option<usize> {
    let begins = |scheme: &&&str| {
        text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    };
    ["bearer ", "basic "].iter().find(begins).map(|scheme| scheme.len())
}

/// Returns `true` if a value is a reference to a shell variable, whose value is not in the text.
fn is_reference(value: &str) -> bool {
    value.strip_prefix('$').is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_alphabetic() || "_{(".contains(c))
    })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.'
}

#[cfg(test)]
mod tests;
