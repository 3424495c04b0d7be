//! The values in force and where each comes from: for `--dump-config`, and to see what a reload
//! would change. Broker.

use crate::config::{Changes, KEYS, Place, Written};
use serde::Serialize;
use std::fmt::{self, Write as _};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    CommandLine,
    File(Place),
    /// A variable of the environment that a default follows.
    Environment(&'static str),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("command line"),
            Self::File(place) => write!(f, "{place}"),
            Self::Environment(name) => write!(f, "default, by ${name}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A key's value as TOML, if it has one.
#[derive(Debug, Clone)]
struct Entry {
    key: &'static str,
    value: Option<String>,
    origin: Origin,
}

/// The values in force.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effective {
    entries: Vec<Entry>,
}

impl Effective {
    /// The value of a key: what was typed, else what was written, else what is usual.
    pub(crate) fn choose<T: Serialize>(
        &mut self,
        key: &'static str,
        typed: Option<T>,
        written: Option<Written<T>>,
        usual: (Option<T>, Origin),
    ) -> Option<T> {
        let (value, origin) = match (typed, written) {
            (Some(typed), _) => (Some(typed), Origin::CommandLine),
            (None, Some(Written { value, at })) => (Some(value), Origin::File(at)),
            (None, None) => usual,
        };
        self.note(key, value.as_ref(), origin);
        value
    }

    fn note<T: Serialize>(&mut self, key: &'static str, value: Option<&T>, origin: Origin) {
        // What TOML can not express, as a path that is not text, is left out like what is not set.
        let value = value.and_then(|value| toml::Value::try_from(value).ok());
        self.entries.push(Entry { key, value: value.map(|value| value.to_string()), origin });
    }

    /// A key that only a start can change and that has another value in `newer`.
    pub(crate) fn needs_start(&self, newer: &Self) -> Option<&'static str> {
        let value = |of: &Self, key: &str| {
            of.entries.iter().find(|entry| entry.key == key).and_then(|entry| entry.value.clone())
        };
        let fixed = KEYS.iter().filter(|key| key.changes == Changes::AtStart);
        fixed.map(|key| key.path).find(|key| value(self, key) != value(newer, key))
    }

    /// A configuration file that says the same, with the origin of each value beside it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for key in KEYS {
            let entry = self.entries.iter().find(|entry| entry.key == key.path);
            let (before, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
            let wrote = if before == section {
                Ok(())
            } else {
                section = before;
                writeln!(text, "\n[{section}]")
            };
            let wrote = wrote.and_then(|()| match entry {
                Some(Entry { value: Some(value), origin, .. }) => {
                    writeln!(text, "{name} = {value}  # {origin}")
                }
                Some(Entry { value: None, .. }) | None => writeln!(text, "# {name} is not set"),
            });
            if wrote.is_err() {
                break;
            }
        }
        text
    }
}
