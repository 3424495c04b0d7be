//! A TOML text with known keys: finds unknown ones, and gives every key and error its position. The
//! loaders of profiles and of the daemon's configuration use it. Pure: no I/O.

use palisade_text::nearest;
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// The keys that a kind of file may have.
#[derive(Debug, Clone)]
pub struct KnownKeys {
    /// Every key with its section, such as `limits.memory`.
    pub paths: Vec<&'static str>,
    /// Sections that may occur any number of times, as `[[name]]`.
    pub lists: &'static [&'static str],
    /// Those of `lists` that may also be written once, as `[name]`.
    pub once_or_lists: &'static [&'static str],
}

/// A TOML text that has known keys only.
#[derive(Debug)]
pub struct TomlText<'a> {
    text: &'a str,
    /// Every key with the positions of its name and its value; outer keys come first.
    keys: Vec<KeyPosition>,
}

#[derive(Debug)]
struct KeyPosition {
    path: String,
    name: Range<usize>,
    value: Range<usize>,
}

/// An error in a TOML text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TomlFault {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The key with its section; empty if it is not known.
    pub key: String,
    /// The problem.
    pub why: String,
    /// The suggested correction; empty if there is none.
    pub suggestion: String,
    /// The text of the value that is wrong, without quotes; empty if no value is.
    pub value: String,
}

impl<'a> TomlText<'a> {
    /// Parses a text, and refuses unknown keys.
    ///
    /// # Errors
    /// If the text is not TOML, has an unknown key, or has another value in place of a section.
    pub fn read(text: &'a str, known: &KnownKeys) -> Result<Self, TomlFault> {
        let mut read = Self { text, keys: Vec::new() };
        let table = DeTable::parse(text).map_err(|error| read.fault(&error))?;
        read.table(known, "", table.get_ref())?;
        Ok(read)
    }

    /// Deserializes the text into typed values.
    ///
    /// # Errors
    /// If a value does not have its type.
    pub fn values<T: DeserializeOwned>(&self) -> Result<T, TomlFault> {
        toml::from_str(self.text).map_err(|error| self.fault(&error))
    }

    /// Returns the line and the column of a byte offset, from 1, the column in characters.
    #[must_use]
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let mut ends = (0..=offset.min(self.text.len())).rev();
        let end = ends.find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        let before = self.text.get(..end).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    /// Returns the byte offset of a key's name, or the start of the text if the key is missing.
    #[must_use]
    pub fn offset(&self, path: &str) -> usize {
        self.keys.iter().find(|key| key.path == path).map_or(0, |key| key.name.start)
    }

    /// Converts an error of the TOML parser or of serde, and adds the key that it concerns.
    fn fault(&self, error: &toml::de::Error) -> TomlFault {
        let span = error.span().unwrap_or(0..0);
        let within = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
        let key = self.keys.iter().rev().find(|key| within(&key.value) || within(&key.name));
        let key = key.map_or("", |key| key.path.as_str());
        let spelled = self.text.get(span.clone()).unwrap_or_default();
        // An error about one entry has the position of the whole list, but its message quotes the
        // entry.
        let quoted = error.message().split('"').nth(1).map(|word| format!("\"{word}\""));
        let (shift, value) = match quoted {
            Some(word) if spelled.contains(&word) => (spelled.find(&word).unwrap_or(0), word),
            Some(_) | None => (0, spelled.to_owned()),
        };
        let why = error.message().trim_end().to_owned();
        let fault = self.fault_at(span.start + shift, key, why, String::new());
        TomlFault { value: value.trim_matches('"').to_owned(), ..fault }
    }

    fn fault_at(&self, offset: usize, key: &str, why: String, suggestion: String) -> TomlFault {
        let (line, column) = self.position(offset);
        TomlFault { line, column, key: key.to_owned(), why, suggestion, value: String::new() }
    }

    fn table(
        &mut self,
        known: &KnownKeys,
        prefix: &str,
        table: &DeTable<'_>,
    ) -> Result<(), TomlFault> {
        for (name, value) in table {
            let dot = if prefix.is_empty() { "" } else { "." };
            let path = format!("{prefix}{dot}{}", name.get_ref());
            let section = known.is_section(&path);
            if !known.paths.contains(&path.as_str()) && !section {
                let (why, suggestion) = ("unknown key".to_owned(), known.suggestion(&path));
                return Err(self.fault_at(name.span().start, &path, why, suggestion));
            }
            let (name, of_value) = (name.span(), value.span());
            self.keys.push(KeyPosition { path: path.clone(), name, value: of_value.clone() });
            if section {
                self.section(known, &path, value.get_ref(), of_value.start)?;
            }
        }
        Ok(())
    }

    fn section(
        &mut self,
        known: &KnownKeys,
        path: &str,
        value: &DeValue<'_>,
        offset: usize,
    ) -> Result<(), TomlFault> {
        let is_list = known.lists.contains(&path);
        let may_be_once = !is_list || known.once_or_lists.contains(&path);
        match value {
            DeValue::Table(table) if may_be_once => self.table(known, path, table),
            DeValue::Array(elements) if is_list => {
                elements.iter().try_for_each(|element| match element.get_ref() {
                    DeValue::Table(table) => self.table(known, path, table),
                    // Serde reports it.
                    DeValue::String(_)
                    | DeValue::Integer(_)
                    | DeValue::Float(_)
                    | DeValue::Boolean(_)
                    | DeValue::Datetime(_)
                    | DeValue::Array(_) => Ok(()),
                })
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => {
                let header = if may_be_once { format!("[{path}]") } else { format!("[[{path}]]") };
                let why = format!("is a section, not {}", value.type_str());
                Err(self.fault_at(offset, path, why, format!("begin it with {header}")))
            }
        }
    }
}

impl KnownKeys {
    /// Returns `true` if a path names a section: there is a key below it.
    fn is_section(&self, path: &str) -> bool {
        let below = |key: &&str| key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        self.paths.iter().any(below)
    }

    /// Suggests what was meant by an unknown key.
    pub(crate) fn suggestion(&self, path: &str) -> String {
        let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
        let last = |path: &'static str| path.rsplit('.').next().unwrap_or(path);
        let is_sibling = |key: &&&str| key.rsplit_once('.').map_or("", |(of, _)| of) == section;
        let siblings: Vec<_> = self.paths.iter().filter(is_sibling).map(|key| last(key)).collect();
        let sections = self.paths.iter().filter_map(|key| key.split_once('.')).map(|(of, _)| of);
        let sections = sections.filter(|_| section.is_empty());
        if let Some(near) = nearest(name, siblings.iter().copied().chain(sections)) {
            return format!("did you mean `{near}`?");
        }
        if let Some(elsewhere) = self.paths.iter().find(|key| last(key) == name) {
            return match elsewhere.rsplit_once('.') {
                Some((section, _)) => format!("`{name}` is a key of [{section}]"),
                None => format!("`{name}` belongs at the top, before any section"),
            };
        }
        let place =
            if section.is_empty() { "at the top".to_owned() } else { format!("in [{section}]") };
        format!("the keys {place} are {}", siblings.join(", "))
    }
}
