//! Puts settings into the text of a configuration file and leaves everything else as it is.

use super::{
    agents::{ConfigFile, Format},
    settings::{Content, Setting},
};
use crate::failure::Failure;
use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstRootNode},
};
use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item, Table, TableLike};

/// JSON with comments and trailing commas, as editors and most agents read it.
const JSON: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Returns the text of a new file.
pub(super) fn fresh(file: &ConfigFile) -> Result<String, Failure> {
    match &file.format {
        Format::Json(settings) => {
            let mut configuration = json!({});
            put_all(settings, &mut configuration).map_err(|key| unfit(file, &key))?;
            serde_json::to_string_pretty(&configuration)
                .map(|text| text + "\n")
                .map_err(|error| Failure::new(format!("can not write as JSON: {error}"), ""))
        }
        Format::Toml(settings) => {
            toml_with("", settings).ok_or_else(|| unfit(file, "the settings"))
        }
        Format::Block { text, .. } | Format::Whole(text) => Ok(text.clone()),
    }
}

/// Returns the text of a file with the settings in it.
pub(super) fn with_settings(file: &ConfigFile, text: &str) -> Result<String, Failure> {
    match &file.format {
        Format::Json(settings) | Format::Toml(settings) => {
            let before = read(file, text)?;
            let mut expected = before.clone();
            put_all(settings, &mut expected).map_err(|key| unfit(file, &key))?;
            if expected == before {
                return Ok(text.to_owned());
            }
            let changed = match &file.format {
                Format::Toml(_) => toml_with(text, settings),
                Format::Json(_) | Format::Block { .. } | Format::Whole(_) => {
                    json_with(text, settings, &before)
                }
            };
            let changed = changed.ok_or_else(|| unfit(file, "the file"))?;
            // Whatever the text is like: nothing else may have changed. A key that is there twice
            // would be such a case.
            if read(file, &changed)? != expected {
                return Err(unfit(file, "a key that is there twice, or the file"));
            }
            Ok(changed)
        }
        Format::Block { key, text: block } => {
            if text.contains(block.as_str()) {
                return Ok(text.to_owned());
            }
            let is_unclear = |line: &str| {
                let name = line.trim_start_matches(['"', '\'']);
                name.starts_with(key)
                    || line.starts_with(['{', '[', '-', '.', '%', '?', '&', '!', '\t'])
            };
            if text.lines().any(is_unclear) {
                return Err(unfit(file, &format!("`{key}`, which is there already, or the file")));
            }
            let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            Ok(format!("{text}{newline}{block}"))
        }
        Format::Whole(whole) if text == whole => Ok(text.to_owned()),
        Format::Whole(_) => Err(unfit(file, "the file")),
    }
}

/// Returns what a file still lacks.
pub(super) fn missing(file: &ConfigFile, text: &str) -> Result<Vec<String>, Failure> {
    let missing = match &file.format {
        Format::Json(settings) | Format::Toml(settings) => {
            let configuration = read(file, text)?;
            let missing = settings.iter().filter(|setting| !setting.holds(&configuration));
            missing.map(Setting::name).collect()
        }
        Format::Block { key, text: block } if !text.contains(block.as_str()) => {
            vec![(*key).to_owned()]
        }
        Format::Whole(whole) if text != whole => vec!["the file".to_owned()],
        Format::Block { .. } | Format::Whole(_) => Vec::new(),
    };
    Ok(missing)
}

/// Reads a configuration. An empty file is an empty one.
fn read(file: &ConfigFile, text: &str) -> Result<Value, Failure> {
    let parsed = match &file.format {
        Format::Toml(_) => toml::from_str::<Value>(text).map_err(|error| error.to_string()),
        Format::Json(_) | Format::Block { .. } | Format::Whole(_) => {
            jsonc_parser::parse_to_serde_value::<Value>(text, &JSON)
                .map_err(|error| error.to_string())
        }
    };
    match parsed {
        Ok(Value::Null) => Ok(json!({})),
        Ok(configuration) => Ok(configuration),
        Err(why) => Err(Failure::new(
            format!("{} can not be read: {why}", file.path.display()),
            "mend it, or move it away; no file was changed",
        )),
    }
}

fn put_all(settings: &[Setting], configuration: &mut Value) -> Result<(), String> {
    settings.iter().try_for_each(|setting| setting.put(configuration).ok_or_else(|| setting.name()))
}

fn unfit(file: &ConfigFile, what: &str) -> Failure {
    Failure::new(
        format!("{}: {what} can not be changed without losing something", file.path.display()),
        "add by hand what the command prints without --write; no file was changed",
    )
}

/// Puts settings into JSON, and keeps order, layout and comments.
fn json_with(text: &str, settings: &[Setting], before: &Value) -> Option<String> {
    let root = CstRootNode::parse(text, &JSON).ok()?;
    let top = root.object_value_or_create()?;
    for setting in settings.iter().filter(|setting| !setting.holds(before)) {
        let (last, above) = setting.path.split_last()?;
        let mut table = top.clone();
        for key in above {
            table = table.object_value_or_create(key)?;
        }
        match &setting.content {
            Content::Exactly(value) => match table.get(last) {
                Some(property) => property.set_value(input(value)),
                None => drop(table.append(last, input(value))),
            },
            Content::Including(texts) => {
                let list = table.array_value_or_create(last)?;
                let there = list.elements();
                let there: Vec<Value> = there
                    .iter()
                    .filter_map(|item| item.as_string_lit()?.decoded_value().ok())
                    .map(Value::from)
                    .collect();
                for text in Setting::absent(texts, &there) {
                    list.append(CstInputValue::from(text));
                }
            }
        }
    }
    Some(root.to_string())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => CstInputValue::Object(
            fields.iter().map(|(key, value)| (key.clone(), input(value))).collect(),
        ),
    }
}

/// Puts settings into TOML, and keeps order, layout and comments.
fn toml_with(text: &str, settings: &[Setting]) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    for setting in settings {
        let (last, above) = setting.path.split_last()?;
        let mut table: &mut dyn TableLike = document.as_table_mut();
        for key in above {
            let inner = table.entry(key).or_insert_with(|| {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            });
            table = inner.as_table_like_mut()?;
        }
        // No TOML configuration has a list that settings are added to.
        let Content::Exactly(value) = &setting.content else { return None };
        let mut value = toml_value(value)?;
        match table.get_mut(last) {
            Some(item) => {
                // The comments around the old value stay.
                if let Some(old) = item.as_value() {
                    *value.decor_mut() = old.decor().clone();
                }
                *item = Item::Value(value);
            }
            None => drop(table.insert(last, Item::Value(value))),
        }
    }
    Some(document.to_string())
}

fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    match value {
        Value::Bool(value) => Some((*value).into()),
        Value::Number(number) => number.as_i64().map(Into::into),
        Value::String(text) => Some(text.as_str().into()),
        Value::Array(items) => {
            let items: Option<toml_edit::Array> = items.iter().map(toml_value).collect();
            items.map(Into::into)
        }
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests;
