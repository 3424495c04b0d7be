//! The name and version of a server: what an agent is shown of them, and what of that needs approval
//! when it changes.

use super::message::printable;
use serde_json::{Value, json};

/// The maximum length of the name and the version, in characters.
const MAX_LABEL: usize = 200;

/// The maximum length of a version number, in characters.
const MAX_NUMBER: usize = 32;

/// The words that a version number may have, beside its digits.
const NUMBER_WORDS: [&str; 10] =
    ["v", "a", "b", "rc", "alpha", "beta", "dev", "pre", "post", "preview"];

/// The text for a name or a version that the server did not give.
const UNKNOWN: &str = "unknown";

/// The name and version of a server, as an agent is shown them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerLabel {
    name: String,
    version: String,
}

impl ServerLabel {
    /// Reads what a server says in its answer to `initialize`. Its title, description, address and
    /// icons are not passed on.
    pub(super) fn of_answer(answer: &Value) -> Self {
        let text = |key| {
            let value = answer.get("serverInfo").and_then(|info| info.get(key));
            printable(value.and_then(Value::as_str).unwrap_or(UNKNOWN), MAX_LABEL)
        };
        Self { name: text("name"), version: text("version") }
    }

    /// Makes the label of a server whose own one is not accepted.
    pub(super) fn own(name: &str) -> Self {
        Self { name: name.to_owned(), version: UNKNOWN.to_owned() }
    }

    /// Returns the label as an agent is shown it.
    pub(super) fn shown(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }

    /// Returns what is recorded and accepted of the label. A version number changes with each update of
    /// a server and tells a model nothing, so only a version that is some other text is recorded.
    pub(super) fn recorded(&self) -> RecordedLabel {
        let is_text = self.version != UNKNOWN && !is_number(&self.version);
        let version = is_text.then(|| self.version.clone());
        RecordedLabel { name: self.name.clone(), version }
    }
}

/// The part of a server's label that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordedLabel {
    pub(super) name: String,
    /// The version, if it is more than a number.
    pub(super) version: Option<String>,
}

impl RecordedLabel {
    pub(super) fn to_value(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }

    /// Reads a label from a file; `None` if it is none.
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let name = value.get("name")?.as_str()?.to_owned();
        let version = match value.get("version") {
            None | Some(Value::Null) => None,
            Some(version) => Some(version.as_str()?.to_owned()),
        };
        Some(Self { name, version })
    }
}

/// Returns `true` for a version number, which has no room for words to a model.
fn is_number(version: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-+_".contains(c);
    let mut words =
        version.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty());
    version.len() <= MAX_NUMBER
        && version.chars().all(is_plain)
        && version.contains(|c: char| c.is_ascii_digit())
        && words.all(|word| NUMBER_WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(name: &str, version: &str) -> ServerLabel {
        let info = json!({"name": name, "version": version, "title": "t", "description": "d",
            "websiteUrl": "https://example.com/", "icons": [{"src": "https://example.com/i"}]});
        ServerLabel::of_answer(&json!({"serverInfo": info}))
    }

    #[test]
    fn only_the_name_and_the_version_are_passed_on_and_both_are_visible() {
        let shown = label("a\u{1b}[2J\u{202e}", "1").shown();
        assert_eq!(shown, json!({"name": "a\u{fffd}[2J\u{fffd}", "version": "1"}));
        assert_eq!(label(&"x".repeat(300), "1").recorded().name.chars().count(), MAX_LABEL + 1);
        let nothing = ServerLabel::of_answer(&json!({}));
        assert_eq!(nothing.shown(), json!({"name": "unknown", "version": "unknown"}));
        assert_eq!(nothing.recorded().version, None);
    }

    #[test]
    fn a_version_is_recorded_if_it_is_more_than_a_number() {
        for number in ["1", "0.6.2", "2026.11.19", "v1.2.3", "1.0.0-rc.1", "1.26.0.dev3", "2.0b1"] {
            assert_eq!(label("a", number).recorded().version, None, "{number}");
        }
        let long = "1.".repeat(20);
        for text in [
            "",
            "-",
            "1 2",
            "1.0.0-obey-me",
            "1.0\n2",
            "rc",
            "1.0.0+alphabeta",
            "1é",
            long.as_str(),
        ] {
            assert_eq!(label("a", text).recorded().version.as_deref(), Some(text), "{text}");
        }
    }

    #[test]
    fn a_recorded_label_is_read_again() {
        for version in ["1", "one"] {
            let recorded = label("a", version).recorded();
            assert_eq!(RecordedLabel::from_value(&recorded.to_value()), Some(recorded));
        }
        for bad in [json!({}), json!({"name": 1}), json!({"name": "a", "version": 1}), json!(7)] {
            assert_eq!(RecordedLabel::from_value(&bad), None, "{bad}");
        }
    }
}
