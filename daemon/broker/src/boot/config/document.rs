//! The text of a configuration file, parsed into keys with their places. Finds unknown keys, and
//! gives errors their place. Pure: no I/O.

use super::{
    error::ConfigError,
    keys,
    place::{ConfigPosition, LocatedValue},
    values::{AbsolutePath, ByteCount},
};
use std::{
    num::NonZeroU32,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A text that is TOML and has only known keys.
#[derive(Debug)]
pub(super) struct Document<'a> {
    file: Arc<Path>,
    text: &'a str,
    /// Every key with the place of its name and of its value, outer ones first.
    keys: Vec<(String, Range<usize>, Range<usize>)>,
}

impl<'a> Document<'a> {
    pub(super) fn read(file: &Path, text: &'a str) -> Result<Self, ConfigError> {
        let mut document = Self { file: file.into(), text, keys: Vec::new() };
        let table = DeTable::parse(text).map_err(|error| document.failed(&error))?;
        document.table("", table.get_ref())?;
        Ok(document)
    }

    /// Deserializes the text.
    pub(super) fn values<T: serde::de::DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(self.text).map_err(|error| self.failed(&error))
    }

    /// A value with its place.
    pub(super) fn written<T>(&self, spanned: Option<Spanned<T>>) -> Option<LocatedValue<T>> {
        spanned.map(|spanned| {
            let at = self.place(spanned.span().start);
            LocatedValue { value: spanned.into_inner(), at }
        })
    }

    /// A path with its place.
    pub(super) fn path(
        &self,
        spanned: Option<Spanned<AbsolutePath>>,
    ) -> Option<LocatedValue<PathBuf>> {
        self.written(spanned)
            .map(|LocatedValue { value: AbsolutePath(value), at }| LocatedValue { value, at })
    }

    /// A count with its place.
    pub(super) fn count(&self, spanned: Option<Spanned<NonZeroU32>>) -> Option<LocatedValue<u32>> {
        self.written(spanned)
            .map(|LocatedValue { value, at }| LocatedValue { value: value.get(), at })
    }

    /// A number of bytes with its place.
    pub(super) fn bytes(&self, spanned: Option<Spanned<ByteCount>>) -> Option<LocatedValue<u64>> {
        self.written(spanned)
            .map(|LocatedValue { value, at }| LocatedValue { value: value.into(), at })
    }

    fn place(&self, offset: usize) -> ConfigPosition {
        let end =
            (0..=offset.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at));
        let before = self.text.get(..end.unwrap_or(0)).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        ConfigPosition {
            file: Arc::clone(&self.file),
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }

    fn table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), ConfigError> {
        for (name, value) in table {
            let dot = if prefix.is_empty() { "" } else { "." };
            let path = format!("{prefix}{dot}{}", name.get_ref());
            let section = keys::is_section(&path);
            if keys::find(&path).is_none() && !section {
                return Err(ConfigError::Invalid {
                    at: self.place(name.span().start),
                    why: "unknown key".to_owned(),
                    suggestion: keys::suggestion(&path),
                    key: path,
                });
            }
            self.keys.push((path.clone(), name.span(), value.span()));
            if !section {
                continue;
            }
            let DeValue::Table(inner) = value.get_ref() else {
                return Err(ConfigError::Invalid {
                    at: self.place(value.span().start),
                    why: format!("must be a section, not {}", value.get_ref().type_str()),
                    suggestion: format!("begin it with [{path}]"),
                    key: path,
                });
            };
            self.table(&path, inner)?;
        }
        Ok(())
    }

    /// Converts an error of the parser or of serde, with the key that it is about.
    fn failed(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or(0..0);
        let within = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
        let around = self.keys.iter().rev().find(|(_, name, value)| within(name) || within(value));
        let key = around.map_or("", |(path, ..)| path.as_str());
        // The error of a list entry has the place of the list; the message quotes the entry.
        let spelled = self.text.get(span.clone()).unwrap_or_default();
        let quoted = error.message().split('"').nth(1).map(|word| format!("\"{word}\""));
        let shift = quoted.and_then(|word| spelled.find(&word)).unwrap_or(0);
        ConfigError::Invalid {
            at: self.place(span.start + shift),
            key: key.to_owned(),
            why: error.message().trim_end().to_owned(),
            suggestion: String::new(),
        }
    }
}
