//! Schemas as tools have them, and as a stranger may write them.

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
    let looped = json!({"properties": {"x": {"$ref": "#/$defs/Loop"}}, "$defs": schema["$defs"]});
    assert_eq!(plain_schema(&looped)["properties"], json!({"x": {}}));
}

/// A schema that allows every object, because it is too large to be shown.
fn is_permissive(plain: &Value) -> bool {
    let Value::Object(plain) = plain else { return false };
    plain.get("properties") == Some(&json!({}))
        && plain.get("additionalProperties") == Some(&json!(true))
        && plain.get("description").and_then(Value::as_str).is_some_and(|why| why.contains("large"))
}

/// Wraps a schema in others, `depth` times.
fn nested(depth: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!({"type": "string"}), |inner, _| wrap(inner))
}

#[test]
fn references_that_lead_in_circles_end() {
    let definitions = json!({
        "A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"},
        "Any": {"anyOf": [{"$ref": "#/$defs/Any"}]},
        "One": {"oneOf": [{"$ref": "#/$defs/One"}, {"type": "null"}]},
        "All": {"allOf": [{"$ref": "#/$defs/All"}, {"$ref": "#/$defs/All"}]},
        "Two": {"anyOf": [{"$ref": "#/$defs/Two"}, {"$ref": "#/$defs/Two"}]},
    });
    for name in ["A", "B", "Any", "One", "All"] {
        let schema = json!({"type": "object", "$defs": definitions,
            "properties": {"x": {"$ref": format!("#/$defs/{name}")}}});
        assert_eq!(plain_schema(&schema)["properties"], json!({"x": {}}), "{name}");
    }
    for schema in [json!({"$ref": "#"}), json!({"$ref": "#/$defs/A", "$defs": definitions})] {
        assert_eq!(plain_schema(&schema), json!({"type": "object", "properties": {}}));
    }
    let two = json!({"properties": {"x": {"$ref": "#/$defs/Two"}}, "$defs": definitions});
    let plain = plain_schema(&two).to_string();
    assert!(plain.len() < 500, "{plain}");
    let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
    let plain = plain_schema(&tree);
    assert_eq!(plain["properties"]["right"]["properties"]["left"]["type"], "object");
    assert!(plain.to_string().len() < 2000, "{plain}");
}

#[test]
fn a_schema_that_grows_with_each_reference_is_cut() {
    for keyword in ["anyOf", "allOf", "oneOf", "properties"] {
        let mut definitions = Map::new();
        for level in 0..60 {
            let next = json!({"$ref": format!("#/$defs/L{}", level + 1)});
            let inner = match keyword {
                "properties" => json!({"a": next, "b": next, "c": next}),
                _ => json!([next, next, next]),
            };
            definitions.insert(format!("L{level}"), json!({keyword: inner}));
        }
        definitions.insert("L60".to_owned(), json!({"type": "string"}));
        let argument = json!({"$ref": "#/$defs/L0"});
        let schema = json!({"properties": {"x": argument}, "$defs": definitions});
        let plain = plain_schema(&schema);
        assert!(plain["properties"].get("x").is_some(), "{keyword}: {plain}");
        assert!(plain.to_string().len() < MAX_BYTES, "{keyword}");
    }
}

#[test]
fn a_deep_schema_is_cut() {
    // JSON that is parsed is not deeper than 128.
    for plain in [
        nested(40, |inner| json!({"type": "object", "properties": {"x": inner}})),
        nested(40, |inner| json!({"type": "array", "items": inner})),
        nested(40, |inner| json!({"additionalProperties": inner, "type": "object"})),
        nested(60, |inner| json!({"anyOf": [inner]})),
        nested(60, |inner| json!({"allOf": [inner]})),
        nested(60, |inner| json!({"anyOf": [inner, {"type": "integer"}]})),
    ] {
        let plain = plain_schema(&json!({"type": "object", "properties": {"x": plain}}));
        let text = plain.to_string();
        assert!(plain["properties"].get("x").is_some() && text.len() < 2000, "{text}");
    }
}

#[test]
fn a_large_schema_allows_every_object() {
    let many = |count: usize| -> Vec<String> { (0..count).map(|n| format!("value-{n}")).collect() };
    let argument = |schema: Value| json!({"type": "object", "properties": {"x": schema}});
    let properties: Map<String, Value> =
        many(20_000).into_iter().map(|name| (name, json!({"type": "string"}))).collect();
    for schema in [
        argument(json!({"enum": many(1_000_000)})),
        argument(json!({"const": "x".repeat(10 << 20)})),
        argument(json!({"anyOf": many(100_000)})),
        argument(json!({"allOf": vec![json!({}); 100_000]})),
        argument(json!({"enum": vec![Value::Null; 1_000_000]})),
        argument(json!({"type": "object", "required": many(1_000_000)})),
        json!({"properties": properties}),
        json!({"properties": {"x".repeat(10 << 20): {}}}),
        json!({"$ref": format!("#/{}", "x/".repeat(1 << 20))}),
    ] {
        assert!(is_permissive(&plain_schema(&schema)));
    }
    assert!(!is_permissive(&plain_schema(&argument(json!({"enum": many(1000)})))));
}

#[test]
fn a_large_value_is_not_read_once_for_each_reference() {
    let large = json!({"type": "object", "enum": ["x".repeat(1 << 20)], "default": "d".repeat(1 << 20),
        "required": vec![""; 100_000], "description": "long ".repeat(1 << 20)});
    let properties: Map<String, Value> =
        (0..4000).map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/Large"}))).collect();
    let schema = json!({"properties": properties, "$defs": {"Large": large}});
    assert!(is_permissive(&plain_schema(&schema)));
}

#[test]
fn long_texts_are_cut_and_control_characters_replaced() {
    let schema = json!({"properties": {
        "long": {"type": "string", "description": "é".repeat(1 << 20)},
        "value": {"type": "array", "default": ["x".repeat(1 << 20)]},
        "control": {"type": "string", "description": "a\u{0}\u{1b}[2J\nb\u{7f}", "default": "\u{1b}"},
    }});
    let plain = plain_schema(&schema);
    let text = |name: &str| plain["properties"][name]["description"].as_str();
    assert_eq!(text("long").unwrap().chars().count(), MAX_DESCRIPTION + 1);
    assert_eq!(text("value"), None);
    assert_eq!(text("control"), Some("a\u{fffd}\u{fffd}[2J b\u{fffd}"));
}

#[test]
fn keywords_are_kept_where_every_validator_accepts_them() {
    for (given, expected) in [
        (
            json!({"type": "string", "minimum": 1, "minLength": 1}),
            json!({"type": "string", "minLength": 1}),
        ),
        (
            json!({"type": "integer", "exclusiveMinimum": true, "multipleOf": 0}),
            json!({"type": "integer"}),
        ),
        (json!({"minimum": 1}), json!({})),
        (json!({"type": "file"}), json!({})),
        (
            json!({"type": "string", "pattern": "("}),
            json!({"type": "string", "description": "Pattern: `(`."}),
        ),
        (json!({"type": "array"}), json!({"type": "array", "items": {}})),
        (json!({"type": "array", "items": [{}, {}]}), json!({"type": "array", "items": {}})),
        (
            json!({"prefixItems": [{}], "items": {"type": "string"}}),
            json!({"type": "array", "items": {}}),
        ),
        (json!({"not": {}, "if": {}, "x-own": 1, "nullable": true, "readOnly": true}), json!({})),
        (json!({"enum": ["a", "a", null]}), json!({"type": "string", "enum": ["a"]})),
        (json!({"enum": []}), json!({})),
        (
            json!({"properties": {"a": true}, "required": ["a", "a", "b", 1]}),
            json!({"type": "object", "properties": {"a": {}}, "required": ["a"]}),
        ),
        (
            json!({"type": "object", "anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!({"type": "object", "properties": {}}),
        ),
        (
            json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}, "required": ["b"]}]}),
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]}),
        ),
        (json!(false), json!({})),
    ] {
        let plain = plain_schema(&json!({"properties": {"x": given}}));
        assert_eq!(plain["properties"]["x"], expected, "{given}");
    }
}

#[test]
fn the_top_is_an_object_without_alternatives() {
    let one = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {}},
        "required": ["a"], "additionalProperties": false});
    let other = json!({"type": "object", "properties": {"a": {"type": "integer"}, "c d": {}}});
    let plain = plain_schema(&json!({"oneOf": [one, other]}));
    assert_eq!(plain, json!({"type": "object", "properties": {"a": {}, "b": {}}}));
    for schema in [json!({"type": "string", "enum": ["a"]}), json!({"type": "array"}), json!([1])] {
        assert_eq!(plain_schema(&schema), json!({"type": "object", "properties": {}}));
    }
}

#[test]
fn a_name_that_apis_refuse_is_left_out() {
    let long = "n".repeat(MAX_NAME + 1);
    let schema = json!({"properties": {"a b": {}, "": {}, long: {}, "ok-1.x_": {"type": "object",
        "properties": {"a b": {}, "\u{1b}": {}}, "additionalProperties": false}},
        "required": ["a b", "ok-1.x_"], "additionalProperties": false});
    let inner = json!({"type": "object", "properties": {"a b": {}}});
    let expected =
        json!({"type": "object", "properties": {"ok-1.x_": inner}, "required": ["ok-1.x_"]});
    assert_eq!(plain_schema(&schema), expected);
}
