//! A profile's text, with the source positions of its keys for errors. Pure: no I/O.

use crate::{
    Origin, ProfileError, Source, TomlFault, TomlText,
    keys::{self, AcceptedValues},
};

/// A profile's text, known to be valid TOML with no unknown keys.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    source: Source<'a>,
    text: TomlText<'a>,
}

impl<'a> Document<'a> {
    /// Parses a profile's text, and refuses unknown keys.
    pub(crate) fn read(source: Source<'a>) -> Result<Self, ProfileError> {
        let text = TomlText::read(source.text, &keys::known());
        let text = text.map_err(|fault| failed(&source, fault))?;
        Ok(Self { source, text })
    }

    /// Deserializes the text into typed values.
    pub(crate) fn values<T: serde::de::DeserializeOwned>(&self) -> Result<T, ProfileError> {
        self.text.values().map_err(|fault| failed(&self.source, fault))
    }

    pub(crate) const fn source(&self) -> &Source<'a> {
        &self.source
    }

    /// Returns the source position of a byte offset.
    pub(crate) fn origin(&self, offset: usize) -> Origin {
        origin(&self.source, self.text.position(offset))
    }

    /// Returns the source position of a key's name, or the start of the file if the key is missing.
    pub(crate) fn place(&self, path: &str) -> Origin {
        self.origin(self.text.offset(path))
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
}

fn origin(source: &Source<'_>, (line, column): (usize, usize)) -> Origin {
    Origin { profile: source.name.to_owned(), file: source.file.to_owned(), line, column }
}

/// Converts an error in the text, and suggests a word if the key takes words.
fn failed(source: &Source<'_>, fault: TomlFault) -> ProfileError {
    let at = origin(source, (fault.line, fault.column));
    let suggestion = match keys::find(&fault.key).map(|key| key.takes) {
        Some(AcceptedValues::Words(words)) => {
            palisade_text::nearest(&fault.value, words.iter().copied())
                .map_or_else(|| format!("the values are {}", words.join(", ")), suggestion)
        }
        Some(AcceptedValues::Names | AcceptedValues::Value) | None => fault.suggestion,
    };
    let why = fault.why.split(", expected one of").next().unwrap_or_default();
    let why = why.split(", expected `").next().unwrap_or_default();
    invalid(at, &fault.key, why.trim_end(), suggestion)
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
