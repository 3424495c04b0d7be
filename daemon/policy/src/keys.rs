//! The profile keys: each is declared once, with its type, default, meaning and order. The loader
//! refuses keys that are not declared, and a test holds the documentation to the declarations.
//! Pure: no I/O.

mod declare;
mod described;
mod order;
mod value;

use crate::{
    ProfileError,
    access::Widening,
    checkers::Checker,
    diff::Difference,
    document::Document,
    environment::settings::EnvironmentSettings,
    handlers::{RememberSettings, WaitingSettings},
    jobs::Jobs,
    layers::LayerSettings,
    limits::Limits,
    modes::ModeSettings,
    net::{NetText, host::HostText, publish::PublishText, rule::HostRuleText},
    rules::Rule,
    toml_text::KnownKeys,
    tools::ToolSettings,
    transactions::Transactions,
    who::Who,
    written::{Files, ProfileText},
};
pub(crate) use declare::{section, text};
pub(crate) use described::{Described, noun, takes_words, words};
pub(crate) use order::{
    Allowing, Choosing, Chosen, Greater, Last, LaterWord, Neutral, Order, OwnKey, Restricting,
    Smaller, values,
};
pub(crate) use value::{KeyValue, Single};

/// A key of the profile language.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The key with its section, such as `limits.memory`.
    pub path: &'static str,
    /// The values that the key takes.
    pub takes: AcceptedValues,
    /// Returns the description of the values.
    pub(crate) value: fn() -> String,
    /// Returns the default as the documentation shows it.
    pub(crate) default: fn() -> String,
    /// The meaning of the key, in Markdown.
    pub(crate) meaning: &'static str,
}

impl Key {
    /// Returns the key's row of the tables in the documentation.
    #[must_use]
    pub fn row(&self) -> String {
        let (value, default) = ((self.value)(), (self.default)());
        format!("| `{}` | {value} | {default} | {} |", self.path, self.meaning.trim())
    }
}

/// The values that a key takes, in as much detail as suggestions need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedValues {
    /// One of these words, or a list of them.
    Words(&'static [&'static str]),
    /// A table with names that the user chooses, each with a value.
    Names,
    /// Any other value; serde reports errors in it.
    Value,
}

/// A section of profiles whose keys are declared by [`section`].
pub(crate) trait Section: Sized {
    /// The section as a profile file has it.
    type Text;

    /// The keys of the section.
    const KEYS: &'static [Key];

    /// Returns the section of two profiles that are combined: what both allow.
    fn both(&self, other: &Self) -> Self;

    /// Returns the section of a file that extends a profile with this one.
    fn over(
        &self,
        text: &Self::Text,
        document: &Document<'_>,
        widening: Widening,
    ) -> Result<Self, ProfileError>;

    /// Returns the differences of another profile's section from this one.
    fn differences(&self, other: &Self) -> Vec<Difference>;
}

/// The keys of all sections, in the order of the documentation.
const SECTIONS: [&[Key]; 18] = [
    ProfileText::KEYS,
    ModeSettings::KEYS,
    Files::KEYS,
    NetText::KEYS,
    HostText::KEYS,
    PublishText::KEYS,
    HostRuleText::KEYS,
    EnvironmentSettings::KEYS,
    Limits::KEYS,
    LayerSettings::KEYS,
    ToolSettings::KEYS,
    Rule::KEYS,
    Transactions::KEYS,
    Jobs::KEYS,
    Checker::KEYS,
    RememberSettings::KEYS,
    WaitingSettings::KEYS,
    Who::KEYS,
];

/// Returns all keys, in the order of the documentation.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.into_iter().flatten()
}

/// Returns the key with this path.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    keys().find(|key| key.path == path)
}

/// Returns the keys and sections that a profile may have.
pub(crate) fn known() -> KnownKeys {
    KnownKeys {
        paths: keys().map(|key| key.path).collect(),
        lists: &["rules", "diagnostics", "who", "net.rule"],
        once_or_lists: &["who"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_meant() {
        for (typed, meant_) in [
            ("limits.memry", "did you mean `memory`?"),
            ("descriptoin", "did you mean `description`?"),
            ("fs.raed", "did you mean `read`?"),
            ("limit", "did you mean `limits`?"),
            ("timeout_ms", "`timeout_ms` is a key of [limits]"),
            ("fs.ask", "`ask` belongs at the top, before any section"),
            ("who.shoesize", "the keys in [who] are uid, gid, unit"),
        ] {
            assert_eq!(known().suggestion(typed), meant_, "{typed}");
        }
    }

    #[test]
    fn no_key_is_there_twice() {
        let paths: std::collections::BTreeSet<_> = keys().map(|key| key.path).collect();
        assert_eq!(paths.len(), keys().count());
    }
}
