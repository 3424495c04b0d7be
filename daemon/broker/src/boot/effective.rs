//! The values in force and where each comes from: for `--dump-config`, and to see what a reload
//! would change. Runs in the broker.

use crate::boot::config::{ConfigPosition, LocatedValue, Reloadability, keys};
use serde::Serialize;
use std::fmt::{self, Write as _};

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueOrigin {
    CommandLine,
    File(ConfigPosition),
    /// The default, which depends on this environment variable.
    Environment(&'static str),
    Default,
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::File(place) => write!(f, "{place}"),
            Self::Environment(name) => write!(f, "default, from ${name}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A key's value as TOML, if it has one.
#[derive(Debug, Clone)]
struct EffectiveValue {
    key: &'static str,
    value: Option<String>,
    origin: ValueOrigin,
}

/// The values in force.
#[derive(Debug, Clone, Default)]
pub(crate) struct EffectiveConfig {
    entries: Vec<EffectiveValue>,
}

impl EffectiveConfig {
    /// Chooses the value of a key: from the command line, else from the file, else the default.
    pub(crate) fn choose<T: Serialize>(
        &mut self,
        key: &'static str,
        typed: Option<T>,
        written: Option<LocatedValue<T>>,
        usual: (Option<T>, ValueOrigin),
    ) -> Option<T> {
        let (value, origin) = match (typed, written) {
            (Some(typed), _) => (Some(typed), ValueOrigin::CommandLine),
            (None, Some(LocatedValue { value, at })) => (Some(value), ValueOrigin::File(at)),
            (None, None) => usual,
        };
        self.note(key, value.as_ref(), origin);
        value
    }

    fn note<T: Serialize>(&mut self, key: &'static str, value: Option<&T>, origin: ValueOrigin) {
        // A value that TOML can not express, such as a path that is not text, is left out as if not
        // set.
        let value = value.and_then(|value| toml::Value::try_from(value).ok());
        self.entries.push(EffectiveValue {
            key,
            value: value.map(|value| value.to_string()),
            origin,
        });
    }

    /// A key that only a restart can change and that has another value in `newer`.
    pub(crate) fn needs_start(&self, newer: &Self) -> Option<&'static str> {
        let value = |of: &Self, key: &str| {
            of.entries.iter().find(|entry| entry.key == key).and_then(|entry| entry.value.clone())
        };
        let fixed = keys().filter(|key| key.changes == Reloadability::AtStart);
        fixed.map(|key| key.path).find(|key| value(self, key) != value(newer, key))
    }

    /// An equivalent configuration file, with the origin of each value as a comment.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for key in keys() {
            let entry = self.entries.iter().find(|entry| entry.key == key.path);
            let (before, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
            let wrote = if before == section {
                Ok(())
            } else {
                section = before;
                writeln!(text, "\n[{section}]")
            };
            let wrote = wrote.and_then(|()| match entry {
                Some(EffectiveValue { value: Some(value), origin, .. }) => {
                    writeln!(text, "{name} = {value}  # {origin}")
                }
                Some(EffectiveValue { value: None, .. }) | None => {
                    writeln!(text, "# {name} is not set")
                }
            });
            if wrote.is_err() {
                break;
            }
        }
        text
    }
}
