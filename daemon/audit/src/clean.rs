//! Text and JSON from outside in the form that may be logged: bounded, and without secrets. Pure:
//! no I/O.

use crate::{
    hash::Hash,
    names::{names_a_directory, names_a_secret},
    options::{ValuePosition, secret_in, secret_of},
    redact::{REDACTED, redact},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// Most bytes of a text that are kept.
const TEXT: usize = 8 << 10;
/// The number of bytes beyond that which are examined, so that a secret at the cut is seen whole.
const MARGIN: usize = 4 << 10;
/// Text up to this length is examined completely; of longer text only both ends are.
const WHOLE: usize = 64 << 10;
/// Most names of altered entries, and most bytes of one.
const ALTERED: usize = 16;
const NAME: usize = 256;
/// Most bytes that are kept of a list of texts.
const LIST: usize = 32 << 10;
/// Most bytes that are kept of all text in one JSON value.
const JSON: usize = 32 << 10;
/// The longest JSON text that is parsed; of longer text only both ends are examined.
const PARSED: usize = 1 << 20;
/// The bytes that an entry of a list or object counts for, besides its text.
const ENTRY: usize = 16;

/// Text without secrets, at most 8 KiB of it. Of longer text the beginning, the end and the SHA-256
/// of the whole are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CleanText(String);

/// JSON without secrets, with at most 32 KiB of text in all and 8 KiB in one string.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CleanJson(Value);

impl CleanText {
    /// Removes secrets, and shortens text that is too long. The result says how much is missing.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(bounded(text, TEXT))
    }

    /// Cleans a list of texts. At most 32 KiB are kept: the first texts and the last ones.
    #[must_use]
    pub fn list<T: AsRef<str>>(texts: &[T]) -> Vec<Self> {
        // Only what is kept is examined.
        let fitting = |texts: &mut dyn Iterator<Item = &T>| -> Vec<Self> {
            let mut room = LIST / 2;
            let clean = texts.map(|text| Self::new(text.as_ref()));
            clean.take_while(|text| take(&mut room, text.0.len() + ENTRY)).collect()
        };
        let head = fitting(&mut texts.iter());
        let mut tail = fitting(&mut texts[head.len()..].iter().rev());
        tail.reverse();
        if head.len() + tail.len() == texts.len() {
            return [head, tail].concat();
        }
        let mut hasher = Hash::begin();
        texts.iter().for_each(|text| hasher.add(format!("{}\n", text.as_ref()).as_bytes()));
        let cut = format!("… [cut; {} entries in all, sha256 {}] …", texts.len(), hasher.end());
        [head, vec![Self(cut)], tail].concat()
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for CleanText {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for CleanText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl CleanJson {
    /// Removes secrets from JSON text, and shortens what is too long. Text that is not JSON is kept
    /// as text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self::with_altered(text).0
    }

    /// Does the same as [`new`](Self::new), and returns the names of the entries that are not kept as
    /// they were, at most 16. An empty name stands for a text that is no object, or too long.
    #[must_use]
    pub fn with_altered(text: &str) -> (Self, Vec<String>) {
        let whole = || vec![String::new()];
        if text.len() > PARSED {
            let kept = Value::String(bounded(text, TEXT));
            let kept = Value::Object(Map::from_iter([("…".to_owned(), kept)]));
            return (Self(kept), whole());
        }
        let Ok(sent) = serde_json::from_str::<Value>(text) else {
            return (Self(Value::String(bounded(text, TEXT))), whole());
        };
        let kept = walk(sent.clone(), &mut { JSON });
        let altered = match (&sent, &kept) {
            (Value::Object(sent), Value::Object(kept)) => {
                let differs = |(name, value): &(&String, &Value)| kept.get(*name) != Some(*value);
                let names = sent.iter().filter(differs).map(|(name, _)| bounded(name, NAME));
                names.take(ALTERED).collect()
            }
            (sent, kept) if sent == kept => Vec::new(),
            (_, _) => whole(),
        };
        (Self(kept), altered)
    }

    /// Returns the JSON value.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.0
    }
}

/// Returns text without secrets. Of text that is too long, the beginning, the end and the digest of
/// the whole are kept.
fn bounded(text: &str, most: usize) -> String {
    let (head, tail) = (most - most / 4, most / 4);
    if most == 0 && !text.is_empty() {
        return left_out(text);
    }
    if text.len() > WHOLE {
        let mut clean = redact(&text[..text.floor_char_boundary(head + MARGIN)]).into_owned();
        clean.truncate(clean.floor_char_boundary(head));
        return clean + &left_out(text) + last(&ending(text, tail + MARGIN), tail);
    }
    let clean = redact(text);
    if clean.len() <= most {
        return clean.into_owned();
    }
    format!("{}{}{}", &clean[..clean.floor_char_boundary(head)], left_out(text), last(&clean, tail))
}

fn left_out(text: &str) -> String {
    format!("… [cut; {} bytes in all, sha256 {}] …", text.len(), Hash::of(text.as_bytes()))
}

/// Returns the last bytes of a text.
fn last(text: &str, most: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(most))..]
}

/// Returns the end of a long text without secrets. It starts at a word boundary, because a secret
/// that is cut in two would not be recognised.
fn ending(text: &str, most: usize) -> String {
    let start = text.ceil_char_boundary(text.len().saturating_sub(most));
    let (before, rest) = text.split_at(start);
    let begun = last(before, WHOLE);
    let open = |text: &str, end: &str| {
        text.rfind("-----BEGIN ").is_some_and(|at| !text[at..].contains(end))
    };
    let rest = match rest.find("-----END ") {
        // A private key began before the cut.
        Some(end) if open(begun, "-----END ") => &rest[end..],
        None if open(begun, "-----END ") => "",
        Some(_) | None => rest,
    };
    let word = rest.find(|c: char| c.is_whitespace() || "\"',;&".contains(c)).unwrap_or(rest.len());
    redact(&rest[word..]).into_owned()
}

fn walk(value: Value, budget: &mut usize) -> Value {
    match value {
        Value::String(text) => {
            let text = bounded(&text, TEXT.min(*budget));
            *budget = budget.saturating_sub(text.len());
            Value::String(text)
        }
        Value::Array(list) => {
            let whole = list.len();
            let mut kept = Vec::new();
            for item in words(list) {
                if is_spent(budget) {
                    kept.push(Value::String(format!("… [cut; {whole} entries in all]")));
                    break;
                }
                kept.push(walk(item, budget));
            }
            Value::Array(kept)
        }
        Value::Object(map) => object(map, budget),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_)) => value,
    }
}

/// Removes secrets that the words before them reveal from a list of words: `["mysql", "-pVALUE"]`.
fn words(mut list: Vec<Value>) -> Vec<Value> {
    let mut before = String::new();
    let mut next = None;
    for item in &mut list {
        let Value::String(word) = item else { return list };
        let found = match (next.take(), secret_of(&before, word)) {
            (Some(part), _) => secret_in(word, part),
            (None, Some((ValuePosition::Joined(at), part))) => {
                word.get(at..).and_then(|value| secret_in(value, part)).map(|from| at + from)
            }
            (None, Some((ValuePosition::Next, part))) => {
                next = Some(part);
                None
            }
            (None, None) => None,
        };
        before.push(' ');
        before.push_str(word);
        if let Some(from) = found {
            word.truncate(from);
            word.push_str(REDACTED);
        }
    }
    list
}

fn object(map: Map<String, Value>, budget: &mut usize) -> Value {
    let whole = map.len();
    let mut kept = Map::new();
    for (key, value) in map {
        if is_spent(budget) {
            kept.insert("…".to_owned(), Value::String(format!("[cut; {whole} entries in all]")));
            break;
        }
        *budget = budget.saturating_sub(key.len());
        let hidden = matches!(&value, Value::String(text) if !text.is_empty() && !names_a_directory(&key, text))
            && names_a_secret(&key);
        let value = if hidden { Value::String(REDACTED.into()) } else { walk(value, budget) };
        kept.insert(bounded(&key, TEXT), value);
    }
    Value::Object(kept)
}

/// Subtracts bytes from the room that is left, and returns whether there was enough.
const fn take(room: &mut usize, bytes: usize) -> bool {
    let fits = *room >= bytes;
    *room = room.saturating_sub(bytes);
    fits
}

/// Subtracts an entry from the budget, and returns whether the budget was used up.
fn is_spent(budget: &mut usize) -> bool {
    let over = *budget == 0;
    *budget = budget.saturating_sub(ENTRY);
    over
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn clean(value: &Value) -> Value {
        CleanJson::new(&value.to_string()).0
    }

    #[test]
    fn what_is_short_and_harmless_stays() {
        let value = json!({"command": "ls -l", "n": [1, 2.5, null, true], "env": {"A": "b"}});
        assert_eq!(clean(&value), value);
        assert_eq!(CleanText::new("é\n").as_str(), "é\n");
    }

    #[test]
    fn secrets_are_found_by_the_name_of_their_key_at_any_depth() {
        let value = json!({"env": {"API_TOKEN": "a", "dbPassword": "b", "AUTHOR": "c"},
            "l": [{"secret": "d", "token": 5, "password": ""}]});
        let expected = json!({"env": {"API_TOKEN": REDACTED, "dbPassword": REDACTED, "AUTHOR": "c"},
            "l": [{"secret": REDACTED, "token": 5, "password": ""}]});
        assert_eq!(clean(&value), expected);
    }

    #[test]
    fn secrets_are_found_by_the_words_before_them() {
        for (argv, expected) in [
            (
                json!(["curl", "-u", "me:hunter 2", "h"]),
                json!(["curl", "-u", "me:[redacted]", "h"]),
            ),
            (json!(["/usr/bin/mysql", "-phunter 2"]), json!(["/usr/bin/mysql", "-p[redacted]"])),
            (
                json!(["sshpass", "-p", "hunter2", "ssh", "-p", "22"]),
                json!(["sshpass", "-p", "[redacted]", "ssh", "-p", "22"]),
            ),
            (json!(["t", "--api-key", "a b"]), json!(["t", "--api-key", "[redacted]"])),
            (
                json!(["curl", "-H", "Authorization: token abc"]),
                json!(["curl", "-H", "Authorization: token [redacted]"]),
            ),
        ] {
            assert_eq!(clean(&json!({"argv": argv})), json!({"argv": expected}));
        }
        for argv in [
            json!(["mkdir", "-p", "x"]),
            json!(["git", "log", "-p"]),
            json!(["cp", "-pr", "a", "b"]),
            json!(["docker", "run", "-u", "1000:1000", "-p", "80:80"]),
            json!(["mysql", "-p", "db"]),
        ] {
            assert_eq!(clean(&argv), argv);
        }
        assert_eq!(
            clean(&json!({"PWD": "/srv", "pwd": "x"})),
            json!({"PWD": "/srv", "pwd": REDACTED})
        );
    }

    #[test]
    fn of_long_text_both_ends_and_the_digest_of_all_are_kept() {
        for length in [TEXT + 1, WHOLE, WHOLE + 1, 20 * WHOLE] {
            let text = format!("first {}last", "é ".repeat(length / 3));
            let kept = CleanText::new(&text);
            assert!(kept.as_str().starts_with("first é é"), "{length}: {kept}");
            assert!(kept.as_str().ends_with("é é last"), "{length}: {kept}");
            let cut =
                format!("[cut; {} bytes in all, sha256 {}]", text.len(), Hash::of(text.as_bytes()));
            assert!(kept.as_str().contains(&cut), "{length}: {kept}");
            assert!(kept.as_str().len() <= TEXT + cut.len() + 16, "{length}");
        }
        let exact = "x".repeat(TEXT);
        assert_eq!(CleanText::new(&exact).as_str(), exact);
    }

    #[test]
    fn a_secret_on_a_border_is_not_cut_in_half() {
        let secret = format!("ghp_{}", "a".repeat(36));
        for whole in [2 * TEXT, 2 * WHOLE] {
            for border in [TEXT - TEXT / 4, whole - TEXT / 4] {
                for before in border - 50..=border + 1 {
                    let rest = whole - before - secret.len();
                    let text =
                        format!("{} {secret} {}", "x".repeat(before - 1), "y ".repeat(rest / 2));
                    let kept = CleanText::new(&text);
                    assert!(!kept.as_str().contains("aaaa"), "{whole} at {before}");
                }
            }
        }
    }

    #[test]
    fn a_long_secret_is_not_in_the_end_of_a_text() {
        let lines = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\n";
        for (body, end) in
            [(100, "-----END RSA PRIVATE KEY-----\nafter the key"), (100, ""), (20, "")]
        {
            let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{}{end}", lines.repeat(body));
            let text = format!("{}\n{key}", "x ".repeat(WHOLE));
            let kept = CleanText::new(&text);
            assert!(!kept.as_str().contains("MIIE"), "{kept}");
            assert!(end.is_empty() || kept.as_str().ends_with("after the key"), "{kept}");
        }
        let value = format!("{} token={}", "x ".repeat(WHOLE), "aB3".repeat(TEXT));
        assert!(!CleanText::new(&value).as_str().contains("aB3"));
    }

    #[test]
    fn a_long_list_keeps_both_ends() {
        let texts: Vec<String> = (0..10_000).map(|n| format!("entry {n}")).collect();
        let kept = CleanText::list(&texts);
        assert_eq!((kept[0].as_str(), kept.last().unwrap().as_str()), ("entry 0", "entry 9999"));
        assert!(
            kept.iter()
                .any(|text| text.as_str().starts_with("… [cut; 10000 entries in all, sha256 "))
        );
        assert!(kept.iter().map(|text| text.as_str().len()).sum::<usize>() < LIST + TEXT);
        assert_eq!(CleanText::list(&texts[..50]).len(), 50);
        assert_eq!(CleanText::list(&[] as &[&str]), []);
    }

    #[test]
    fn large_values_are_bounded_as_a_whole() {
        for value in [
            json!(vec!["x".repeat(1000); 500]),
            json!(vec![0; 100_000]),
            json!((0..20_000).map(|n| (n.to_string(), json!(n))).collect::<Map<_, _>>()),
        ] {
            let text = clean(&value).to_string();
            assert!(text.len() < 2 * JSON, "{}", text.len());
            assert!(text.contains("entries in all]"));
        }
    }

    #[test]
    fn huge_text_is_not_taken_apart() {
        let text = json!({"content": "x".repeat(PARSED), "password": "hunter2"}).to_string();
        let kept = CleanJson::new(&text).0["…"].as_str().unwrap().to_owned();
        assert!(kept.starts_with("{\"content\":\"xxx") && kept.len() < 2 * TEXT, "{kept}");
    }

    #[test]
    fn what_is_not_kept_as_it_was_sent_is_named() {
        let altered = |text: &str| CleanJson::with_altered(text).1;
        let whole = r#"{ "command": "cat x", "env": {"CI": "1"}, "argv": ["a"] }"#;
        assert_eq!(altered(whole), [""; 0]);
        let secret = json!({"command": "true", "env": {"API_TOKEN": "hunter2"}, "stdin": "x"});
        assert_eq!(altered(&secret.to_string()), ["env"]);
        let long = json!({"command": "x".repeat(2 * TEXT), "cwd": "sub"});
        assert_eq!(altered(&long.to_string()), ["command"]);
        for text in ["{", &"x".repeat(PARSED + 1)] {
            assert_eq!(altered(text), [""]);
        }
        let many: Map<String, Value> =
            (0..40).map(|n| (format!("{n}-token"), json!("hunter2"))).collect();
        assert_eq!(altered(&Value::Object(many).to_string()).len(), ALTERED);
    }

    #[test]
    fn what_is_not_json_is_kept_as_text() {
        assert_eq!(CleanJson::new("{").0, json!("{"));
    }
}
