//! A configuration's text as a tree with places: unknown keys are found here, and whatever goes
//! wrong is located by it. Broker, pure.

use super::{
    error::ConfigError,
    keys,
    place::{Place, Written},
    values::Absolute,
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

/// A text that is TOML with known keys only.
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

    /// The values of the text.
    pub(super) fn values<T: serde::de::DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(self.text).map_err(|error| self.failed(&error))
    }

    /// A value with its place.
    pub(super) fn written<T>(&self, spanned: Option<Spanned<T>>) -> Option<Written<T>> {
        spanned.map(|spanned| {
            let at = self.place(spanned.span().start);
            Written { value: spanned.into_inner(), at }
        })
    }

    /// A path with its place.
    pub(super) fn path(&self, spanned: Option<Spanned<Absolute>>) -> Option<Written<PathBuf>> {
        self.written(spanned).map(|Written { value: Absolute(value), at }| Written { value, at })
    }

    /// A count with its place.
    pub(super) fn count(&self, spanned: Option<Spanned<NonZeroU32>>) -> Option<Written<u32>> {
        self.written(spanned).map(|Written { value, at }| Written { value: value.get(), at })
    }

    fn place(&self, offset: usize) -> Place {
        let end =
            (0..=offset.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at));
        let before = self.text.get(..end.unwrap_or(0)).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        Place {
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
                    why: "is no key".to_owned(),
                    suggestion: keys::meant(&path),
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
                    why: format!("is a section, not {}", value.get_ref().type_str()),
                    suggestion: format!("begin it with [{path}]"),
                    key: path,
                });
            };
            self.table(&path, inner)?;
        }
        Ok(())
    }

    /// What the parser or serde says, with the key that it is about.
    fn failed(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or(0..0);
        let within = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
        let around = self.keys.iter().rev().find(|(_, name, value)| within(name) || within(value));
        let key = around.map_or("", |(path, ..)| path.as_str());
        // An entry's own error has the list's place; the entry is quoted in it.
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
