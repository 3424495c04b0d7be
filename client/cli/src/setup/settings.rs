//! Settings of a configuration, whatever the format of its file: a value at a path of keys.

use serde_json::{Map, Value};

/// A setting.
#[derive(Debug)]
pub(super) struct Setting {
    /// The keys, from the outermost table to the setting's own. There is at least one.
    pub(super) path: Vec<&'static str>,
    pub(super) content: Content,
}

/// The content of a setting.
#[derive(Debug)]
pub(super) enum Content {
    /// The value is exactly this one.
    Exactly(Value),
    /// The value is a list that has these texts, and possibly others.
    Including(Vec<&'static str>),
}

impl Setting {
    /// Creates a setting that has exactly this value.
    pub(super) fn exactly(path: &[&'static str], value: impl Into<Value>) -> Self {
        Self { path: path.to_vec(), content: Content::Exactly(value.into()) }
    }

    /// Creates a setting whose list has these texts.
    pub(super) fn including(path: &[&'static str], texts: &[&'static str]) -> Self {
        Self { path: path.to_vec(), content: Content::Including(texts.to_vec()) }
    }

    /// Returns the keys in one text.
    pub(super) fn name(&self) -> String {
        self.path.join(".")
    }

    /// Returns the texts that a list still lacks.
    pub(super) fn absent<'a>(texts: &'a [&'static str], list: &[Value]) -> Vec<&'a str> {
        texts.iter().copied().filter(|text| !list.iter().any(|item| item == text)).collect()
    }

    /// Returns `true` if a configuration has the setting.
    pub(super) fn holds(&self, configuration: &Value) -> bool {
        let found =
            self.path.iter().try_fold(configuration, |value, key| value.as_object()?.get(*key));
        match (&self.content, found) {
            (_, None) => false,
            (Content::Exactly(value), Some(found)) => value == found,
            (Content::Including(texts), Some(found)) => {
                found.as_array().is_some_and(|list| Self::absent(texts, list).is_empty())
            }
        }
    }

    /// Puts the setting into a configuration; `None` if something on its path is not a table, or
    /// its value is not a list.
    pub(super) fn put(&self, configuration: &mut Value) -> Option<()> {
        let (last, above) = self.path.split_last()?;
        let mut table = configuration.as_object_mut()?;
        for key in above {
            let inner = table.entry(*key).or_insert_with(|| Value::Object(Map::new()));
            table = inner.as_object_mut()?;
        }
        match &self.content {
            Content::Exactly(value) => {
                table.insert((*last).to_owned(), value.clone());
            }
            Content::Including(texts) => {
                let list = table.entry(*last).or_insert_with(|| Value::Array(Vec::new()));
                let list = list.as_array_mut()?;
                let absent: Vec<Value> =
                    Self::absent(texts, list).into_iter().map(Value::from).collect();
                list.extend(absent);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_setting_is_added_beside_what_is_there() {
        let mut configuration = json!({"a": {"b": 1}, "list": ["x"]});
        let settings = [
            Setting::exactly(&["a", "c"], true),
            Setting::exactly(&["d", "e"], json!({"f": []})),
            Setting::including(&["list"], &["x", "y"]),
        ];
        for setting in &settings {
            assert!(!setting.holds(&configuration), "{}", setting.name());
            setting.put(&mut configuration).unwrap();
            assert!(setting.holds(&configuration), "{}", setting.name());
        }
        let expected = json!({"a": {"b": 1, "c": true}, "d": {"e": {"f": []}}, "list": ["x", "y"]});
        assert_eq!(configuration, expected);
    }

    #[test]
    fn a_value_of_another_kind_is_not_replaced() {
        for mut configuration in [json!([]), json!({"a": "text"}), json!({"a": {"list": 1}})] {
            let setting = Setting::including(&["a", "list"], &["x"]);
            assert_eq!(setting.put(&mut configuration), None, "{configuration}");
        }
    }
}
