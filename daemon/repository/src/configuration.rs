//! A repository's configuration, without included files and the environment, and how a command
//! changed it.

use crate::RepositoryError;
use gix_config::parse::{EventRef, Events};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The name of a configuration value. Section and name are in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigurationKey {
    /// The section, `remote` in `remote.origin.url`.
    pub section: String,
    /// The subsection, `origin` in `remote.origin.url`.
    pub subsection: Option<Vec<u8>>,
    /// The last part, `url` in `remote.origin.url`.
    pub name: String,
}

impl fmt::Display for ConfigurationKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.", self.section)?;
        if let Some(subsection) = &self.subsection {
            write!(formatter, "{}.", String::from_utf8_lossy(subsection))?;
        }
        write!(formatter, "{}", self.name)
    }
}

/// The values of one key, in order; `None` for a key without `=`.
pub type ConfigurationValues = Vec<Option<Vec<u8>>>;

/// All keys and values of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Configuration {
    values: BTreeMap<ConfigurationKey, ConfigurationValues>,
}

impl Configuration {
    /// Parses a configuration file.
    ///
    /// # Errors
    ///
    /// If the file is invalid, or has something that git and this parser might read differently.
    pub fn parse(bytes: &[u8]) -> Result<Self, RepositoryError> {
        let malformed = |reason| RepositoryError::malformed(b"config", reason);
        if bytes.iter().any(|byte| matches!(byte, 0 | b'\r')) || bytes.starts_with(b"\xef\xbb\xbf")
        {
            return Err(malformed("a byte that configuration does not need"));
        }
        let events = Events::from_bytes(bytes, None).map_err(|_| malformed("no configuration"))?;
        let mut configuration = Configuration::default();
        let (mut section, mut pending) = (None, None::<(ConfigurationKey, Option<Vec<u8>>)>);
        for event in events.iter() {
            match event {
                EventRef::SectionHeader { name, separator, subsection_name } => {
                    configuration.insert(pending.take());
                    let subsection = subsection_name.map(|subsection| subsection.to_vec());
                    // The old form `[section.subsection]` ignores case.
                    let ignores_case =
                        separator.is_some_and(|separator| separator.starts_with(b"."));
                    section = Some((
                        lower(name),
                        subsection.map(|subsection| match ignores_case {
                            true => subsection.to_ascii_lowercase(),
                            false => subsection,
                        }),
                    ));
                }
                EventRef::SectionValueName(name) => {
                    configuration.insert(pending.take());
                    let (section, subsection) =
                        section.clone().ok_or(malformed("a value outside of a section"))?;
                    pending =
                        Some((ConfigurationKey { section, subsection, name: lower(name) }, None));
                }
                EventRef::KeyValueSeparator => {
                    if let Some((_, value)) = &mut pending {
                        *value = Some(Vec::new());
                    }
                }
                EventRef::Value(part)
                | EventRef::ValueNotDone(part)
                | EventRef::ValueDone(part) => {
                    if let Some((_, Some(value))) = &mut pending {
                        value.extend_from_slice(part);
                    }
                }
                EventRef::Comment { .. } | EventRef::Newline(_) | EventRef::Whitespace(_) => {}
            }
        }
        configuration.insert(pending);
        Ok(configuration)
    }

    fn insert(&mut self, pending: Option<(ConfigurationKey, Option<Vec<u8>>)>) {
        if let Some((key, value)) = pending {
            let value = value.map(|raw| gix_config::value::normalize(raw.as_slice()).to_vec());
            self.values.entry(key).or_default().push(value);
        }
    }

    /// Iterates over all keys with their values.
    pub fn keys(&self) -> impl Iterator<Item = (&ConfigurationKey, &[Option<Vec<u8>>])> {
        self.values.iter().map(|(key, values)| (key, values.as_slice()))
    }

    /// Returns `true` if any key is in a subsection.
    #[must_use]
    pub fn has_subsection(&self, section: &str, subsection: &[u8]) -> bool {
        let is_there = |key: &ConfigurationKey| {
            key.section == section && key.subsection.as_deref() == Some(subsection)
        };
        self.values.keys().any(is_there)
    }

    /// Lists the keys whose values differ in a later state.
    #[must_use]
    pub fn changed_keys(&self, later: &Configuration) -> Vec<ConfigurationKey> {
        let keys: BTreeSet<_> = self.values.keys().chain(later.values.keys()).collect();
        let differs = |key: &&ConfigurationKey| self.values.get(key) != later.values.get(key);
        keys.into_iter().filter(differs).cloned().collect()
    }

    /// Returns the values of a key; `None` if it is not there.
    #[must_use]
    pub fn values(&self, key: &ConfigurationKey) -> Option<&[Option<Vec<u8>>]> {
        self.values.get(key).map(Vec::as_slice)
    }
}

fn lower(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_ascii_lowercase()
}
