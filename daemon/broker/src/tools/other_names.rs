//! The names that other agents' tools give to arguments, put back to this project's own. The types
//! of the arguments accept both; a schema knows only one. Runs in the broker. Pure: no I/O.

use serde_json::{Map, Value};

/// The other names of arguments, each with the name in the schema. Only a name that a schema lacks
/// is another one's.
const OTHER_NAMES: [(&str, &str); 33] = [
    ("file_path", "path"),
    ("filePath", "path"),
    ("dir_path", "path"),
    ("directory", "path"),
    ("contents", "content"),
    ("file_text", "content"),
    ("old_str", "old_string"),
    ("oldString", "old_string"),
    ("old_text", "old_string"),
    ("new_str", "new_string"),
    ("newString", "new_string"),
    ("new_text", "new_string"),
    ("replaceAll", "replace_all"),
    ("input", "patch"),
    ("patch_text", "patch"),
    ("source", "from"),
    ("old_path", "from"),
    ("destination", "to"),
    ("new_path", "to"),
    ("timeout", "timeout_ms"),
    ("cmd", "command"),
    ("workdir", "cwd"),
    ("working_directory", "cwd"),
    ("run_in_background", "background"),
    ("query", "pattern"),
    ("include", "glob"),
    ("-i", "case_insensitive"),
    ("output_mode", "mode"),
    ("-C", "context"),
    ("-B", "before"),
    ("-A", "after"),
    ("head_limit", "limit"),
    ("todos", "items"),
];

/// The other values of arguments: the argument, the value, and the one in the schema.
const OTHER_VALUES: [(&str, &str, &str); 1] = [("mode", "files_with_matches", "files")];

/// Returns the name in the schema for another name of an argument.
pub(super) fn usual<'a>(name: &str, properties: &'a Map<String, Value>) -> Option<&'a str> {
    if properties.contains_key(name) {
        return None;
    }
    let meant = OTHER_NAMES.iter().filter(|(other, _)| *other == name);
    let mut known = meant.filter_map(|(_, usual)| properties.get_key_value(*usual));
    known.next().map(|(usual, _)| usual.as_str())
}

/// Returns arguments with the names that the schema has. An argument that is there under its usual
/// name too keeps the other one.
pub(super) fn with_usual_names(schema: &Value, arguments: &Value) -> Value {
    renamed(schema, schema, arguments)
}

fn renamed(whole: &Value, schema: &Value, value: &Value) -> Value {
    let schema = referred(whole, schema);
    match (value, schema.get("properties").and_then(Value::as_object), schema.get("items")) {
        (Value::Object(fields), Some(properties), _) => {
            let fields = fields.iter().map(|(name, value)| {
                let usual = usual(name, properties).filter(|usual| !fields.contains_key(*usual));
                let name = usual.unwrap_or(name);
                let below = properties.get(name).unwrap_or(&Value::Null);
                let is_other = |(argument, other, _): &&(&str, &str, &str)| {
                    *argument == name && value.as_str() == Some(*other)
                };
                match OTHER_VALUES.iter().find(is_other) {
                    Some((_, _, usual)) => (name.to_owned(), Value::from(*usual)),
                    None => (name.to_owned(), renamed(whole, below, value)),
                }
            });
            Value::Object(fields.collect())
        }
        (Value::Array(values), _, Some(items)) => {
            Value::Array(values.iter().map(|value| renamed(whole, items, value)).collect())
        }
        _ => value.clone(),
    }
}

/// Returns what a schema refers to, or the schema itself.
fn referred<'a>(whole: &'a Value, schema: &'a Value) -> &'a Value {
    let pointer = schema.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix('#'));
    pointer.and_then(|pointer| whole.pointer(pointer)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::arguments as wire;
    use schemars::{JsonSchema, schema_for};
    use serde::{
        Deserialize, Deserializer,
        de::{Error as _, Visitor, value::Error},
        forward_to_deserialize_any,
    };
    use serde_json::json;

    /// Records the names that a type accepts.
    struct Names<'a>(&'a mut Vec<&'static str>);

    impl<'de> Deserializer<'de> for Names<'_> {
        type Error = Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            names: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            self.0.extend(names);
            Err(Error::custom("recorded"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("it is no struct"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
            ignored_any
        }
    }

    /// Returns the accepted names that the schema lacks.
    fn others<A: JsonSchema + for<'de> Deserialize<'de>>() -> Vec<&'static str> {
        let mut names = Vec::new();
        A::deserialize(Names(&mut names)).map(drop).unwrap_err();
        assert!(!names.is_empty());
        let schema = schema_for!(A).to_value();
        let properties = schema["properties"].as_object().unwrap();
        names.retain(|name| !properties.contains_key(*name));
        for other in &names {
            assert!(usual(other, properties).is_some(), "{other} is in no list");
        }
        names
    }

    #[test]
    fn every_other_name_that_a_type_accepts_is_known() {
        let found = [
            others::<wire::Bash>(),
            others::<wire::ReadFile>(),
            others::<wire::WriteFile>(),
            others::<wire::Edit>(),
            others::<wire::MultiEdit>(),
            others::<wire::FileEdits>(),
            others::<wire::TextEdit>(),
            others::<wire::ApplyPatch>(),
            others::<wire::MoveFile>(),
            others::<wire::MakeDir>(),
            others::<wire::Undo>(),
            others::<wire::DeleteFile>(),
            others::<wire::Glob>(),
            others::<wire::Grep>(),
            others::<wire::ListFiles>(),
            others::<wire::Stat>(),
            others::<wire::RealPath>(),
            others::<wire::JobInput>(),
            others::<wire::JobCommit>(),
            others::<wire::JobKill>(),
            others::<wire::JobOutput>(),
            others::<wire::TodoWrite>(),
            others::<wire::ToolSearch>(),
            others::<wire::WebFetch>(),
            others::<wire::Diagnostics>(),
        ]
        .concat();
        assert!(found.contains(&"old_str") && found.contains(&"run_in_background"), "{found:?}");
        for (other, _) in OTHER_NAMES {
            assert!(found.contains(&other), "no type accepts {other}");
        }
    }

    #[test]
    fn names_are_put_back_at_any_depth_and_none_is_lost() {
        let schema = schema_for!(wire::MultiEdit).to_value();
        let given = json!({"filePath": "a", "edits": [{"old_str": "b", "new_str": "c", "x": 1}]});
        let expected =
            json!({"path": "a", "edits": [{"old_string": "b", "new_string": "c", "x": 1}]});
        assert_eq!(with_usual_names(&schema, &given), expected);
        let both = json!({"path": "a", "file_path": "b"});
        assert_eq!(with_usual_names(&schema, &both), both);
        let schema = schema_for!(wire::Grep).to_value();
        let given = json!({"query": "a", "output_mode": "files_with_matches"});
        let expected = json!({"pattern": "a", "mode": "files"});
        assert_eq!(with_usual_names(&schema, &given), expected);
        // `input` is an argument of its own here.
        let schema = schema_for!(wire::Bash).to_value();
        let own = json!({"cmd": "a", "input": true});
        assert_eq!(with_usual_names(&schema, &own), json!({"command": "a", "input": true}));
    }
}
