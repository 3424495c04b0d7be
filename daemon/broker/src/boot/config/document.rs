//! The text of a configuration file, with the places of its values for errors. Pure: no I/O.

use super::{
    error::ConfigError,
    keys,
    place::{ConfigPosition, LocatedValue},
};
use palisade_policy::{TomlFault, TomlText};
use std::{path::Path, sync::Arc};
use toml::Spanned;

/// A text that is TOML and has only known keys.
#[derive(Debug)]
pub(super) struct Document<'a> {
    file: Arc<Path>,
    text: TomlText<'a>,
}

impl<'a> Document<'a> {
    pub(super) fn read(file: &Path, text: &'a str) -> Result<Self, ConfigError> {
        let file: Arc<Path> = file.into();
        let text = TomlText::read(text, &keys::known());
        let text = text.map_err(|fault| failed(&file, fault))?;
        Ok(Self { file, text })
    }

    /// Deserializes the text.
    pub(super) fn values<T: serde::de::DeserializeOwned>(&self) -> Result<T, ConfigError> {
        self.text.values().map_err(|fault| failed(&self.file, fault))
    }

    /// Returns a value with its place.
    pub(super) fn located<T, V: From<T>>(
        &self,
        spanned: Option<Spanned<T>>,
    ) -> Option<LocatedValue<V>> {
        spanned.map(|spanned| {
            let at = self.place(spanned.span().start);
            LocatedValue { value: spanned.into_inner().into(), at }
        })
    }

    fn place(&self, offset: usize) -> ConfigPosition {
        let (line, column) = self.text.position(offset);
        ConfigPosition { file: Arc::clone(&self.file), line, column }
    }
}

fn failed(file: &Arc<Path>, fault: TomlFault) -> ConfigError {
    let TomlFault { line, column, key, why, suggestion, .. } = fault;
    let at = ConfigPosition { file: Arc::clone(file), line, column };
    ConfigError::Invalid { at, key, why, suggestion }
}
