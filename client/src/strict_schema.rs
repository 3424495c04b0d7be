//! Rewrites a plain schema for APIs that hold a model to it: every argument is required, and one that
//! may be left out may be `null`.

use serde_json::{Map, Value, json};

/// Keywords that the strict modes know, besides those that are rewritten.
const KEPT: [&str; 10] = [
    "type",
    "description",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];

/// Returns the strict form of a plain schema. An optional argument that has none, such as an object
/// with any keys, is left out; `None` if a required one has none.
pub(crate) fn strict_schema(schema: &Value) -> Option<Value> {
    let object = schema.as_object()?;
    let mut strict: Map<String, Value> = object
        .iter()
        .filter(|(key, _)| KEPT.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if let Some(alternatives) = object.get("anyOf") {
        let alternatives: Option<Vec<Value>> =
            alternatives.as_array()?.iter().map(strict_schema).collect();
        strict.remove("type");
        strict.insert("anyOf".to_owned(), Value::Array(alternatives?));
        return Some(Value::Object(strict));
    }
    match object.get("type")?.as_str()? {
        "object" => {
            let properties = properties(object)?;
            let names: Vec<&String> = properties.keys().collect();
            strict.insert("required".to_owned(), json!(names));
            strict.insert("properties".to_owned(), Value::Object(properties));
            strict.insert("additionalProperties".to_owned(), json!(false));
        }
        "array" => {
            strict.insert("items".to_owned(), strict_schema(object.get("items")?)?);
        }
        _ => {}
    }
    Some(Value::Object(strict))
}

fn properties(object: &Map<String, Value>) -> Option<Map<String, Value>> {
    let none = Map::new();
    let properties = object.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let is_open = object.get("additionalProperties").is_some_and(|more| *more != json!(false));
    if is_open && properties.is_empty() {
        return None;
    }
    let required = object.get("required").and_then(Value::as_array);
    let mut strict = Map::new();
    for (name, schema) in properties {
        let is_required = required.is_some_and(|names| names.iter().any(|known| known == name));
        match strict_schema(schema) {
            Some(schema) if is_required => strict.insert(name.clone(), schema),
            Some(schema) => strict.insert(name.clone(), nullable(schema)),
            None if is_required => return None,
            None => None,
        };
    }
    Some(strict)
}

/// Adds `null` to the values that a schema allows.
fn nullable(mut schema: Value) -> Value {
    let Some(object) = schema.as_object_mut() else { return schema };
    if let Some(Value::Array(alternatives)) = object.get_mut("anyOf") {
        alternatives.push(json!({"type": "null"}));
    }
    if let Some(kind) = object.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.push(Value::Null);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_is_required_and_optional_ones_may_be_null() {
        let schema = json!({
            "type": "object", "required": ["path", "edits"], "additionalProperties": false,
            "properties": {
                "path": {"type": "string", "description": "Which."},
                "limit": {"type": "integer", "minimum": 0},
                "mode": {"type": "string", "enum": ["fast", "slow"]},
                "signal": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "env": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
                "edits": {"type": "array", "items": {"type": "object", "required": ["old"],
                    "properties": {"old": {"type": "string", "minLength": 1},
                        "all": {"type": "boolean"}}}},
            },
        });
        let expected = json!({
            "type": "object", "required": ["edits", "limit", "mode", "path", "signal"],
            "additionalProperties": false,
            "properties": {
                "path": {"type": "string", "description": "Which."},
                "limit": {"type": ["integer", "null"], "minimum": 0},
                "mode": {"type": ["string", "null"], "enum": ["fast", "slow", null]},
                "signal": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
                "edits": {"type": "array", "items": {"type": "object", "required": ["all", "old"],
                    "additionalProperties": false,
                    "properties": {"old": {"type": "string"}, "all": {"type": ["boolean", "null"]}}}},
            },
        });
        assert_eq!(strict_schema(&schema), Some(expected));
    }

    #[test]
    fn what_has_no_strict_form_is_not_made_one() {
        let map = json!({"type": "object", "properties": {}, "additionalProperties": true});
        let schema = json!({"type": "object", "required": ["map"], "properties": {"map": map}});
        assert_eq!(strict_schema(&schema), None);
        let any = json!({"type": "object", "required": ["any"], "properties": {"any": {}}});
        assert_eq!(strict_schema(&any), None);
    }
}
