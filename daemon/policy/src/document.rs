//! A profile's text as a TOML tree in which every key has its source position. Unknown keys are
//! rejected here, and later errors take their positions from it. Pure: no I/O.

use crate::{
    Origin, ProfileError, Source,
    keys::{self, AcceptedValues},
};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A profile's text, known to be valid TOML with no unknown keys.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    source: Source<'a>,
    /// Every key with the positions of its name and its value; outer keys come first.
    keys: Vec<KeyPosition>,
}

#[derive(Debug)]
struct KeyPosition {
    path: String,
    name: Range<usize>,
    value: Range<usize>,
}

/// Sections that may occur any number of times.
const LISTS: [&str; 4] = ["rules", "diagnostics", "who", "net.rule"];
/// Sections that may be written once as `[name]`, or any number of times as `[[name]]`.
const ONCE_OR_LISTS: [&str; 1] = ["who"];

impl<'a> Document<'a> {
    /// Parses a profile's text, and refuses unknown keys.
    pub(crate) fn read(source: Source<'a>) -> Result<Self, ProfileError> {
        let mut document = Self { source, keys: Vec::new() };
        let table = DeTable::parse(source.text).map_err(|error| document.failed(&error))?;
        document.table("", table.get_ref())?;
        Ok(document)
    }

    /// Deserializes the text into typed values.
    pub(crate) fn values<T: serde::de::DeserializeOwned>(&self) -> Result<T, ProfileError> {
        toml::from_str(self.source.text).map_err(|error| self.failed(&error))
    }

    pub(crate) const fn source(&self) -> &Source<'a> {
        &self.source
    }

    /// Returns the source position of a byte offset.
    pub(crate) fn origin(&self, offset: usize) -> Origin {
        let text = self.source.text;
        let end = (0..=offset.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let before = text.get(..end.unwrap_or(0)).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Origin {
            profile: self.source.name.to_owned(),
            file: self.source.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }

    /// Returns the source position of a key's name, or the start of the file if the key is missing.
    pub(crate) fn place(&self, path: &str) -> Origin {
        let place = self.keys.iter().find(|place| place.path == path);
        self.origin(place.map_or(0, |place| place.name.start))
    }

    /// Makes an error about a key.
    pub(crate) fn wrong(
        &self,
        key: &str,
        why: impl Into<String>,
        suggestion: impl Into<String>,
    ) -> ProfileError {
        invalid(self.place(key), key, why, suggestion)
    }

    /// Makes an error about a value at a byte offset.
    pub(crate) fn wrong_at(
        &self,
        offset: usize,
        key: &str,
        why: impl Into<String>,
        suggestion: impl Into<String>,
    ) -> ProfileError {
        invalid(self.origin(offset), key, why, suggestion)
    }

    /// Converts an error of the TOML parser or of serde, and adds the key that it concerns.
    fn failed(&self, error: &toml::de::Error) -> ProfileError {
        let span = error.span().unwrap_or(0..0);
        let around = |place: &&KeyPosition| {
            place.value.start <= span.start && span.end <= place.value.end
                || place.name.start <= span.start && span.end <= place.name.end
        };
        let place = self.keys.iter().rev().find(around);
        let key = place.map_or("", |place| place.path.as_str());
        let within = self.source.text.get(span.clone()).unwrap_or_default();
        // An error about one entry has the position of the whole list, but its message quotes the
        // entry.
        let quoted = error.message().split('"').nth(1).map(|word| format!("\"{word}\""));
        let (shift, value) = match quoted {
            Some(word) if within.contains(&word) => (within.find(&word).unwrap_or(0), word),
            Some(_) | None => (0, within.to_owned()),
        };
        let (at, value) = (self.origin(span.start + shift), value.trim_matches('"'));
        let suggestion = match keys::find(key).map(|key| key.takes) {
            Some(AcceptedValues::Words(words)) => keys::nearest(value, words.iter().copied())
                .map_or_else(|| format!("the values are {}", words.join(", ")), suggestion),
            Some(AcceptedValues::Names | AcceptedValues::Value) | None => String::new(),
        };
        let why = error.message().split(", expected one of").next().unwrap_or_default();
        let why = why.split(", expected `").next().unwrap_or_default();
        invalid(at, key, why.trim_end(), suggestion)
    }

    fn table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), ProfileError> {
        for (name, value) in table {
            let dot = if prefix.is_empty() { "" } else { "." };
            let path = format!("{prefix}{dot}{}", name.get_ref());
            let (known, section) = (keys::find(&path), keys::is_section(&path));
            if known.is_none() && !section {
                let at = self.origin(name.span().start);
                return Err(invalid(at, &path, "unknown key", keys::suggestion(&path)));
            }
            self.keys.push(KeyPosition {
                path: path.clone(),
                name: name.span(),
                value: value.span(),
            });
            if section {
                self.section(&path, value.get_ref(), value.span())?;
            }
        }
        Ok(())
    }

    fn section(
        &mut self,
        path: &str,
        value: &DeValue<'_>,
        span: Range<usize>,
    ) -> Result<(), ProfileError> {
        match value {
            DeValue::Table(table) if !LISTS.contains(&path) || ONCE_OR_LISTS.contains(&path) => {
                self.table(path, table)
            }
            DeValue::Array(elements) if LISTS.contains(&path) => {
                for element in elements {
                    if let DeValue::Table(table) = element.get_ref() {
                        self.table(path, table)?;
                    }
                }
                Ok(())
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => {
                let list = LISTS.contains(&path) && !ONCE_OR_LISTS.contains(&path);
                let header = if list { format!("[[{path}]]") } else { format!("[{path}]") };
                let why = format!("is a section, not {}", value.type_str());
                Err(self.wrong_at(span.start, path, why, format!("begin it with {header}")))
            }
        }
    }
}

pub(crate) fn invalid(
    at: Origin,
    key: &str,
    why: impl Into<String>,
    suggestion: impl Into<String>,
) -> ProfileError {
    let (why, suggestion) = (why.into(), suggestion.into());
    ProfileError::Invalid { at: Box::new(at), key: key.to_owned(), why, suggestion }
}

fn suggestion(word: &str) -> String {
    format!("did you mean {word:?}?")
}
