//! Finds secrets in text by their shape and by the names before them. Pure, one pass.
//!
//! It is a net, not a wall: what has no known shape and no telling name stays in the text.

use std::borrow::Cow;

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Beginnings of tokens: the prefix, how many characters must follow at least, and which besides
/// letters and digits.
const TOKENS: &[(&str, usize, &str)] = &[
    ("AKIA", 16, ""),         // AWS access key
    ("ASIA", 16, ""),         // AWS temporary access key
    ("ghp_", 20, ""),         // GitHub personal
    ("gho_", 20, ""),         // GitHub OAuth
    ("ghu_", 20, ""),         // GitHub user-to-server
    ("ghs_", 20, ""),         // GitHub server-to-server
    ("ghr_", 20, ""),         // GitHub refresh
    ("github_pat_", 20, "_"), // GitHub fine-grained
    ("glpat-", 16, "_-"),     // GitLab
    ("sk-", 16, "_-"),        // OpenAI, Anthropic
    ("sk_live_", 16, ""),     // Stripe
    ("rk_live_", 16, ""),     // Stripe, restricted
    ("xoxa-", 10, "-"),       // Slack
    ("xoxb-", 10, "-"),
    ("xoxe-", 10, "-"),
    ("xoxo-", 10, "-"),
    ("xoxp-", 10, "-"),
    ("xoxr-", 10, "-"),
    ("xoxs-", 10, "-"),
    ("xapp-", 10, "-"),
    ("AIza", 30, "_-"),   // Google
    ("ya29.", 20, "_-."), // Google OAuth
    ("npm_", 30, ""),     // npm
    ("hf_", 30, ""),      // Hugging Face
    ("pypi-", 30, "_-"),  // PyPI
    ("dop_v1_", 30, ""),  // DigitalOcean
    ("eyJ", 30, "_-."),   // JSON web token
];

/// Words that name a secret, alone or as a part of a name (`DB_PASSWORD`, `apiToken`).
const WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "secrets",
    "token",
    "apikey",
    "credential",
    "credentials",
    "authorization",
    "auth",
    "cookie",
    "bearer",
];

/// Pairs of words that do (`api_key`).
const PAIRS: &[(&str, &str)] = &[
    ("api", "key"),
    ("access", "key"),
    ("private", "key"),
    ("secret", "key"),
    ("encryption", "key"),
    ("signing", "key"),
    ("account", "key"),
];

/// The longest name that is looked at.
const NAME: usize = 64;

/// The text with [`REDACTED`] in the place of each secret.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    let mut scan = Scan { text, out: String::new(), copied: 0 };
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(skipped) = bytes.get(at..).and_then(|rest| rest.iter().position(is_telling)) {
        at += skipped;
        at = match &bytes[at] {
            b'-' if text[at..].starts_with("-----") => scan.key_block(at),
            b'-' if text[at..].starts_with("--") && scan.begins_word(at) => scan.option(at),
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

/// Which bytes a secret, or what comes before one, begins with; most text has few of them.
const TELLING: [bool; 256] = {
    let mut telling = [false; 256];
    let other = b"-=:Bb";
    let mut at = 0;
    while at < other.len() {
        telling[other[at] as usize] = true;
        at += 1;
    }
    at = 0;
    while at < TOKENS.len() {
        telling[TOKENS[at].0.as_bytes()[0] as usize] = true;
        at += 1;
    }
    telling
};

fn is_telling(byte: &u8) -> bool {
    TELLING[usize::from(*byte)]
}

/// Whether what has this name is a secret.
pub(crate) fn names_a_secret(name: &str) -> bool {
    let words = words(name);
    let telling = |word: &String| WORDS.contains(&word.as_str()) || word.ends_with("password");
    words.iter().any(telling)
        || words.windows(2).any(|pair| PAIRS.contains(&(pair[0].as_str(), pair[1].as_str())))
}

/// The words of a name in lower case: `dbPassword`, `DB_PASSWORD` and `db-password` are the same.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = '_';
    for c in name.chars().take(NAME) {
        let camel = before.is_ascii_lowercase() && c.is_ascii_uppercase();
        if !c.is_ascii_alphanumeric() || camel {
            words.push(std::mem::take(&mut word));
        }
        if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.push(word);
    words
}

struct Scan<'a> {
    text: &'a str,
    out: String,
    /// How far the text is in `out`.
    copied: usize,
}

impl Scan<'_> {
    fn begins_word(&self, at: usize) -> bool {
        at == 0 || !self.text.as_bytes()[at - 1].is_ascii_alphanumeric()
    }

    /// Leaves out a part of the text; where to go on. Both ends are borders of characters.
    fn hide(&mut self, from: usize, to: usize) -> Option<usize> {
        if from < self.copied {
            return Some(to);
        }
        self.out.push_str(&self.text[self.copied..from]);
        self.out.push_str(REDACTED);
        self.copied = to;
        Some(to)
    }

    /// `-----BEGIN … KEY-----` to its end, or to that of the text.
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

    /// `--password VALUE`; with `=` it is a pair.
    fn option(&mut self, at: usize) -> Option<usize> {
        let name = at + 2;
        // No further than a name may be long: a long row of them is looked at once.
        let most = self.text.floor_char_boundary(name + NAME + 1);
        let end = name + self.text[name..most].find(|c: char| !is_name(c))?;
        let gap = self.text[end..].find(|c: char| c != ' ' && c != '\t')?;
        if gap == 0 || !names_a_secret(&self.text[name..end]) {
            return None;
        }
        self.value(end + gap)
    }

    /// `name=VALUE`, `name: VALUE`, `"name": "VALUE"`, `scheme://user:VALUE@host`.
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
        if name.is_empty() || is_path || at - before.len() > 3 || !names_a_secret(name) {
            return None;
        }
        let gap = after.len() - after.trim_start_matches([' ', '"', '\'', '\\', '=']).len();
        let start = at + 1 + gap;
        // A scheme is no secret, what follows it is.
        if scheme_length(&self.text[start..]).is_some() {
            return self.scheme(start);
        }
        self.value(start)
    }

    /// Hides a value up to what can not be in one; not what is only a reference to one.
    fn value(&mut self, start: usize) -> Option<usize> {
        let rest = &self.text[start..];
        let over = |c: char| c.is_whitespace() || "\"'`,;&|<>(){}\\".contains(c);
        let end = start + rest.find(over).unwrap_or(rest.len());
        if end == start || is_reference(rest) || rest.starts_with(REDACTED) {
            return None;
        }
        self.hide(start, end)
    }

    /// `user:VALUE@` before a host.
    fn user_info(&mut self, start: usize) -> Option<usize> {
        let rest = &self.text[start..];
        let over = |c: char| c.is_whitespace() || "/?#\"'`<>".contains(c);
        let authority = &rest[..rest.find(over).unwrap_or(rest.len())];
        let at = authority.rfind('@')?;
        let colon = authority[..at].find(':')?;
        if colon + 1 == at || is_reference(&authority[colon + 1..]) {
            return None;
        }
        self.hide(start + colon + 1, start + at)
    }

    /// `Bearer VALUE`, `Basic VALUE`.
    fn scheme(&mut self, at: usize) -> Option<usize> {
        let rest = &self.text[at..];
        let length = scheme_length(rest)?;
        let value = &rest[length..];
        let end = value.find(|c: char| !(c.is_ascii_alphanumeric() || "._~+/=-".contains(c)));
        match end.unwrap_or(value.len()) {
            // "a bearer of", "basic usage": words are short and have no digits.
            0..8 => None,
            end if !value[..end]
                .contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase()) =>
            {
                None
            }
            end => self.hide(at + length, at + length + end),
        }
    }

    /// A token that is known by its beginning.
    fn token(&mut self, at: usize) -> Option<usize> {
        let rest = &self.text[at..];
        // No token is shorter; most words are.
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

/// How long `Bearer ` or `Basic ` is, if the text begins with it.
fn scheme_length(text: &str) -> Option<usize> {
    let begins = |scheme: &&&str| {
        text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    };
    ["bearer ", "basic "].iter().find(begins).map(|scheme| scheme.len())
}

/// Whether a value is a variable of the shell, whose value is not in the text.
fn is_reference(value: &str) -> bool {
    value.strip_prefix('$').is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_alphabetic() || "_{(".contains(c))
    })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_taken_out_and_what_is_around_them_stays() {
        let long = "aB3".repeat(14);
        for (text, expected) in [
            ("aws AKIAIOSFODNN7EXAMPLE x".to_owned(), "aws [redacted] x"),
            (
                format!("git push https://ghp_{long}@github.com/a"),
                "git push https://[redacted]@github.com/a",
            ),
            (format!("X=gho_{long}"), "X=[redacted]"),
            (format!("github_pat_{long}_{long}."), "[redacted]."),
            (format!("'sk-ant-api03-{long}-x'"), "'[redacted]'"),
            ("xoxb-123456789012-abcdef".to_owned(), "[redacted]"),
            (format!("(eyJ{long}.eyJ{long}.sig)"), "([redacted])"),
            (
                "curl -H 'Authorization: Bearer abc.DEF-123_x' u".to_owned(),
                "curl -H 'Authorization: Bearer [redacted]' u",
            ),
            ("authorization: Basic dXNlcjpwYXNz".to_owned(), "authorization: Basic [redacted]"),
            ("mysql --password=hunter2 db".to_owned(), "mysql --password=[redacted] db"),
            ("tool --api-key hunter2 db".to_owned(), "tool --api-key [redacted] db"),
            (
                "PGPASSWORD=a DB_PASSWORD='b c' psql".to_owned(),
                "PGPASSWORD=[redacted] DB_PASSWORD='[redacted] c' psql",
            ),
            ("?token=abc&x=1".to_owned(), "?token=[redacted]&x=1"),
            (
                "{\"apiToken\": \"abc\", \"a\": 1}".to_owned(),
                "{\"apiToken\": \"[redacted]\", \"a\": 1}",
            ),
            ("{\\\"secret\\\":\\\"abc\\\"}".to_owned(), "{\\\"secret\\\":\\\"[redacted]\\\"}"),
            ("password: é✓ x".to_owned(), "password: [redacted] x"),
            ("postgres://me:pa:ss@h/db".to_owned(), "postgres://me:[redacted]@h/db"),
            (
                "a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b"
                    .to_owned(),
                "a [redacted] b",
            ),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3B".to_owned(), "[redacted]"),
        ] {
            assert_eq!(redact(&text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "ls -l /etc",
            "export TOKEN=$OTHER; curl -H \"Authorization: Bearer $TOKEN\"",
            "password=",
            "https://example.com/a:b@c",
            "https://user@example.com",
            "git log --author=me",
            "task-runner disk-usage sk-learn",
            "a bearer of news, basic understanding",
            "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
            "tokenizer: bpe, author: me, cookies",
            "std::token::parse",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn names_are_taken_apart_into_words() {
        for name in ["password", "DB_PASSWORD", "dbPassword", "x-api-key", "aws.secret_access_key"]
        {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["", "author", "tokens_used", "keyboard", "path", "tokenizer", "é"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fail(text in "(--|[:=\"' ]|token|password|://|@|-----BEGIN |KEY-----|Bearer |é|[a-zA-Z0-9]){0,40}") {
            redact(&text);
        }

        #[test]
        fn a_second_pass_finds_nothing_more(text in "([ =:]|token|password|AKIAIOSFODNN7EXAMPLE|x){0,12}") {
            let once = redact(&text).into_owned();
            prop_assert_eq!(redact(&once), once.as_str());
        }
    }
}
