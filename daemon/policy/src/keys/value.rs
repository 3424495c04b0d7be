//! The values of keys: how they are written, and how they are shown. Pure: no I/O.

use super::{AcceptedValues, Described};
use crate::{limits::ENDLESS, size::Size, written::List};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, num::NonZeroU64};
use toml::Spanned;

/// A value that is not a list: the value of a key, or one entry of its list.
pub(crate) trait Single: Described + Clone + PartialEq + DeserializeOwned {
    /// Returns the value as messages and comparisons show it.
    fn shown(&self) -> String;
}

/// The value of a key.
pub(crate) trait KeyValue: Described + Clone + PartialEq {
    /// The value as a profile file has it, with the source positions of what can be wrong.
    type Written: DeserializeOwned;

    /// Returns the value as the documentation shows it.
    fn documented(&self) -> String;
}

impl<T: Single> KeyValue for T {
    type Written = T;

    fn documented(&self) -> String {
        match T::TAKES {
            AcceptedValues::Words(_) => format!("`{}`", self.shown()),
            AcceptedValues::Names | AcceptedValues::Value => self.shown(),
        }
    }
}

impl<T: Single> KeyValue for Vec<T> {
    type Written = List<T>;

    fn documented(&self) -> String {
        match self.as_slice() {
            [] => "none".to_owned(),
            several => several.iter().map(KeyValue::documented).collect::<Vec<_>>().join(", "),
        }
    }
}

/// A list that does not restrict anything if it is absent.
impl<T: Single> KeyValue for Option<Vec<T>> {
    type Written = List<T>;

    fn documented(&self) -> String {
        self.as_ref().map_or_else(|| "all".to_owned(), KeyValue::documented)
    }
}

/// Texts under names that the profile chooses.
impl<K: Single + Ord> KeyValue for BTreeMap<K, String> {
    type Written = BTreeMap<K, Spanned<String>>;

    fn documented(&self) -> String {
        let shown = self.iter().map(|(name, value)| format!("`{}={value}`", name.shown()));
        if self.is_empty() { "none".to_owned() } else { shown.collect::<Vec<_>>().join(", ") }
    }
}

impl<K: Single> Described for BTreeMap<K, String> {
    const TAKES: AcceptedValues = AcceptedValues::Names;

    fn described() -> String {
        "table of texts".to_owned()
    }

    fn list_described() -> String {
        "list of tables of texts".to_owned()
    }
}

impl Single for bool {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Single for u64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Single for Size {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Single for NonZeroU64 {
    fn shown(&self) -> String {
        if *self == ENDLESS { "unlimited".to_owned() } else { self.to_string() }
    }
}
