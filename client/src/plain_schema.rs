//! Rewrites a tool's JSON Schema so that every model's API and every validator accepts it.

use serde_json::{Map, Value, json};

/// The maximum depth of references. A schema that refers to itself is cut there.
const MAX_DEPTH: usize = 12;

/// Keywords that some APIs refuse, and that tell a model nothing.
const DROPPED: [&str; 9] = [
    "$schema",
    "$id",
    "$defs",
    "$comment",
    "definitions",
    "title",
    "format",
    "default",
    "examples",
];

/// Returns a schema that means the same to a model and uses only what every API accepts:
///
/// - an object has `properties`, if need be none;
/// - no references, no lists of types, no `null` as an alternative to leaving an argument out;
/// - the values of an enumeration are in `enum`, and what they mean is in the description;
/// - a default value is in the description.
#[must_use]
pub(crate) fn plain_schema(schema: &Value) -> Value {
    let definitions =
        ["$defs", "definitions"].iter().filter_map(|key| schema.get(key)?.as_object());
    let definitions: Vec<&Map<String, Value>> = definitions.collect();
    let mut top = plain(schema, &definitions, 0);
    if let Some(top) = top.as_object_mut() {
        top.insert("type".to_owned(), json!("object"));
        top.entry("properties").or_insert_with(|| json!({}));
        // It only says which tool this is.
        top.remove("description");
    }
    top
}

fn plain(schema: &Value, definitions: &[&Map<String, Value>], depth: usize) -> Value {
    let Some(object) = schema.as_object() else { return json!({}) };
    let mut object = referred(object, definitions, depth);
    flatten_alternatives(&mut object, definitions);
    let description = description(&object);
    for keyword in DROPPED {
        object.remove(keyword);
    }
    if let Some(text) = description {
        object.insert("description".to_owned(), Value::String(text));
    }
    if let Some(value) = object.remove("const") {
        object.insert("enum".to_owned(), json!([value]));
    }
    single_type(&mut object);
    if depth < MAX_DEPTH {
        below(&mut object, definitions, depth + 1);
    } else {
        object.retain(|key, _| ["type", "description", "enum"].contains(&key.as_str()));
    }
    if object.get("type") == Some(&json!("object")) {
        object.entry("properties").or_insert_with(|| json!({}));
    }
    Value::Object(object)
}

/// Makes what stands inside a schema plain.
fn below(object: &mut Map<String, Value>, definitions: &[&Map<String, Value>], depth: usize) {
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        for property in properties.values_mut() {
            *property = plain(property, definitions, depth);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key)
            && inner.is_object()
        {
            *inner = plain(inner, definitions, depth);
        }
    }
    for key in ["anyOf", "allOf", "prefixItems"] {
        if let Some(Value::Array(alternatives)) = object.get_mut(key) {
            for alternative in alternatives {
                *alternative = plain(alternative, definitions, depth);
            }
        }
    }
}

/// Replaces a reference by what it refers to. Keys beside the reference take precedence.
fn referred(
    object: &Map<String, Value>,
    definitions: &[&Map<String, Value>],
    depth: usize,
) -> Map<String, Value> {
    let mut object = object.clone();
    for _ in depth..MAX_DEPTH {
        let Some(reference) = object.remove("$ref") else { break };
        let name = reference.as_str().and_then(|text| text.rsplit('/').next()).unwrap_or_default();
        let target = definitions.iter().find_map(|all| all.get(name)?.as_object());
        for (key, value) in target.into_iter().flatten() {
            object.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    object.remove("$ref");
    object
}

/// Merges `oneOf` and `anyOf` into the schema, where that is possible: `null` beside one
/// alternative, or a list of constants.
fn flatten_alternatives(object: &mut Map<String, Value>, definitions: &[&Map<String, Value>]) {
    for key in ["oneOf", "anyOf"] {
        let Some(Value::Array(alternatives)) = object.remove(key) else { continue };
        let mut left: Vec<Map<String, Value>> = alternatives
            .iter()
            .filter_map(Value::as_object)
            .filter(|alternative| alternative.get("type") != Some(&json!("null")))
            .map(|alternative| referred(alternative, definitions, 0))
            .collect();
        if let [only] = &mut left[..] {
            for (key, value) in std::mem::take(only) {
                object.entry(key).or_insert(value);
            }
            // The inserted schema may have alternatives itself.
            return flatten_alternatives(object, definitions);
        }
        let constants: Vec<Value> =
            left.iter().filter_map(|one| one.get("const")).cloned().collect();
        if constants.len() == left.len() && !left.is_empty() {
            let meanings = left.iter().filter_map(|one| {
                let meaning = one.get("description")?.as_str()?;
                Some(format!("{}: {meaning}", shown(one.get("const")?)))
            });
            let said = object.get("description").and_then(Value::as_str).unwrap_or_default();
            let text = std::iter::once(said.to_owned()).chain(meanings).collect::<Vec<_>>();
            object.insert("description".to_owned(), Value::String(text.join(" ")));
            if constants.iter().all(Value::is_string) {
                object.insert("type".to_owned(), json!("string"));
            }
            object.insert("enum".to_owned(), Value::Array(constants));
        } else if !left.is_empty() {
            let left = left.into_iter().map(Value::Object).collect();
            object.insert("anyOf".to_owned(), Value::Array(left));
        }
    }
}

/// Returns the description in one line, with the default value.
fn description(object: &Map<String, Value>) -> Option<String> {
    let said = object.get("description").and_then(Value::as_str).unwrap_or_default();
    let words: Vec<&str> = said.split_whitespace().collect();
    let mut text = words.join(" ");
    if let Some(value) = object.get("default").filter(|value| !value.is_null()) {
        text.push_str(&format!(" Default: {}.", shown(value)));
    }
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn shown(value: &Value) -> String {
    match value.as_str() {
        Some(text) => format!("`{text}`"),
        None => value.to_string(),
    }
}

/// Replaces a list of types by its only type besides `null`, or by alternatives.
fn single_type(object: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = object.get("type") else { return };
    let left: Vec<Value> = types.iter().filter(|kind| **kind != json!("null")).cloned().collect();
    if let [only] = &left[..] {
        object.insert("type".to_owned(), only.clone());
        return;
    }
    object.remove("type");
    let left = left.into_iter().map(|kind| json!({"type": kind})).collect();
    object.insert("anyOf".to_owned(), Value::Array(left));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_apis_refuse_is_rewritten() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T",
            "description": "Arguments of `t`.", "type": "object", "required": ["mode"],
            "properties": {
                "limit": {"type": ["integer", "null"], "format": "uint64", "minimum": 0},
                "title": {"type": "string", "description": "Two\nlines."},
                "all": {"type": "boolean", "default": true},
                "mode": {"$ref": "#/$defs/Mode", "description": "How.", "default": "fast"},
                "signal": {"anyOf": [{"$ref": "#/$defs/Signal"}, {"type": "null"}]},
                "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
                "either": {"type": ["string", "integer"]},
            },
            "$defs": {
                "Mode": {"description": "Unused.", "oneOf": [
                    {"const": "fast", "description": "Soon.", "type": "string"},
                    {"const": "slow", "description": "Later.", "type": "string"}]},
                "Signal": {"anyOf": [{"type": "string"}, {"type": "integer", "format": "uint8"}]},
                "Edit": {"type": "object", "properties": {"mode": {"$ref": "#/$defs/Mode"}}},
            },
        });
        let expected = json!({
            "type": "object", "required": ["mode"],
            "properties": {
                "limit": {"type": "integer", "minimum": 0},
                "title": {"type": "string", "description": "Two lines."},
                "all": {"type": "boolean", "description": "Default: true."},
                "mode": {"type": "string", "enum": ["fast", "slow"],
                    "description": "How. `fast`: Soon. `slow`: Later. Default: `fast`."},
                "signal": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "edits": {"type": "array", "items": {"type": "object", "properties": {
                    "mode": {"type": "string", "enum": ["fast", "slow"],
                        "description": "Unused. `fast`: Soon. `slow`: Later."}}}},
                "env": {"type": "object", "properties": {},
                    "additionalProperties": {"type": "string"}},
                "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            },
        });
        assert_eq!(plain_schema(&schema), expected);
    }

    #[test]
    fn a_schema_without_arguments_still_has_properties() {
        let expected = json!({"type": "object", "properties": {}});
        assert_eq!(plain_schema(&json!({"type": "object"})), expected);
        assert_eq!(plain_schema(&json!(true)), expected);
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/Tree"}},
            "$defs": {"Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}},
                "Loop": {"$ref": "#/$defs/Loop"}}});
        let text = plain_schema(&schema).to_string();
        assert!(!text.contains("$ref") && text.len() < 2000, "{text}");
        let looped =
            json!({"properties": {"x": {"$ref": "#/$defs/Loop"}}, "$defs": schema["$defs"]});
        assert_eq!(plain_schema(&looped)["properties"], json!({"x": {}}));
    }
}
