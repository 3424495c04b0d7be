//! Checks arguments against a tool's JSON Schema. Valid ones are parsed; for invalid ones the error
//! names every violation. Runs in the broker. Pure: no I/O.

use super::other_names;
use jsonschema::{
    JsonType, PatternOptions, ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind},
    paths::Location,
};
use palisade_protocol::{Call, ErrorCode, JsonText, ToolSpec, WireError};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The number of violations that an error names; the rest are counted.
const NAMED: usize = 8;

/// The end of the advice about a number or a boolean that came as a string.
const UNQUOTED: &str = "without quotes";

/// Compiles a schema. It may not refer to anything outside itself. Only patterns that match in
/// linear time are allowed, since the schema may come from a provider.
pub(super) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::options().with_pattern_options(PatternOptions::regex()).build(schema).map_err(
        |error| match error.instance_path().as_str() {
            "" => error.to_string(),
            place => format!("at {place}: {error}"),
        },
    )
}

/// Checks arguments against a schema, and returns them; names everything that is wrong with them.
/// An argument that is `null` and may not be is taken as absent.
pub(super) fn hold(
    tool: &ToolSpec,
    validator: &Validator,
    call: &Call,
) -> Result<JsonText, WireError> {
    let arguments: Value = match serde_json::from_str(call.arguments.as_str()) {
        Ok(arguments) => arguments,
        Err(error) => {
            let field = "arguments".to_owned();
            return Err(refuse(tool, vec![Violation { field, why: error.to_string() }]));
        }
    };
    let found = against(validator, &arguments);
    if found.is_empty() {
        return Ok(call.arguments.clone());
    }
    without_nulls(&arguments)
        .filter(|present| validator.is_valid(present))
        .and_then(|present| JsonText::render(&present).ok())
        .ok_or_else(|| refuse(tool, found))
}

/// Parses arguments into the tool's own type. Only if that fails are they checked against the
/// schema, which can name all violations at once. An argument that is `null` and may not be is
/// taken as absent: APIs that require every argument have no other way to leave one out.
pub(super) fn parse<A: DeserializeOwned>(tool: &ToolSpec, call: &Call) -> Result<A, WireError> {
    let mut json = serde_json::Deserializer::from_str(call.arguments.as_str());
    serde_path_to_error::deserialize(&mut json).or_else(|error| {
        let arguments: Option<Value> = serde_json::from_str(call.arguments.as_str()).ok();
        let present = arguments.as_ref().and_then(without_nulls);
        if let Some(parsed) = present.and_then(|present| A::deserialize(present).ok()) {
            return Ok(parsed);
        }
        // The schema knows each argument by one name only.
        let schema = schema(tool);
        let usual = arguments.map(|given| other_names::with_usual_names(&schema, &given));
        let error = match usual.as_ref().map(serde_path_to_error::deserialize::<_, A>) {
            Some(Err(error)) => (error.path().to_string(), error.inner().to_string()),
            Some(Ok(_)) | None => (error.path().to_string(), error.inner().to_string()),
        };
        let (field, why) = match error {
            (path, why) if path == "." => ("arguments".to_owned(), why),
            error => error,
        };
        let mut found =
            usual.and_then(|usual| violations(&schema, &usual).ok()).unwrap_or_default();
        if found.is_empty() {
            found.push(Violation { field, why });
        } else if let Some(violation) = found.iter_mut().find(|found| found.field == field)
            && !violation.why.ends_with(UNQUOTED)
        {
            // The type's own message says more than that none of several schemas matches.
            violation.why = why;
        }
        Err(refuse(tool, found))
    })
}

/// Returns arguments without those that are `null`; `None` if there are none of these.
fn without_nulls(arguments: &Value) -> Option<Value> {
    fn present(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter().filter(|(_, value)| !value.is_null());
                Value::Object(fields.map(|(key, value)| (key.clone(), present(value))).collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(present).collect()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }
    let present = present(arguments);
    (present != *arguments).then_some(present)
}

/// An invalid argument and what is wrong with it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    field: String,
    why: String,
}

/// Returns everything that is wrong with arguments that have the schema's names.
fn violations(schema: &Value, arguments: &Value) -> Result<Vec<Violation>, String> {
    let mut found = against(&compile(schema)?, arguments);
    let properties = schema.get("properties").and_then(Value::as_object);
    for violation in &mut found {
        let usual = properties.and_then(|known| other_names::usual(&violation.field, known));
        if let Some(usual) = usual {
            violation.why = format!("it is another name of `{usual}`, which is given too");
        }
    }
    Ok(found)
}

fn against(validator: &Validator, arguments: &Value) -> Vec<Violation> {
    let mut found: Vec<_> = validator.iter_errors(arguments).flat_map(|e| named(&e)).collect();
    found.sort();
    found.dedup();
    found
}

fn refuse(tool: &ToolSpec, found: Vec<Violation>) -> WireError {
    let rest = found.len().saturating_sub(NAMED);
    let named = found.iter().take(NAMED).map(|v| format!("`{}`: {}", v.field, v.why));
    let mut message = named.collect::<Vec<_>>().join("; ");
    if rest > 0 {
        message.push_str(&format!("; and {rest} more"));
    }
    WireError::new(ErrorCode::InvalidArguments, message, takes(tool))
}

/// Turns one error of the validator into violations, one for each unknown argument.
fn named(error: &ValidationError<'_>) -> Vec<Violation> {
    let place = error.instance_path();
    let below = |name: &str| match field(place) {
        place if place == "arguments" => name.to_owned(),
        place => format!("{place}.{name}"),
    };
    let missing = "it is required but missing";
    if let ValidationErrorKind::Required { property } = error.kind() {
        let field = below(property.as_str().unwrap_or_default());
        return vec![Violation { field, why: missing.to_owned() }];
    }
    if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
        let why = "there is no such argument";
        let violation = |name: &String| Violation { field: below(name), why: why.to_owned() };
        return unexpected.iter().map(violation).collect();
    }
    let why = quoted(error).unwrap_or_else(|| error.to_string());
    vec![Violation { field: field(place), why }]
}

/// Says what to write in place of a string that has a boolean or a number in it, where that is
/// what the schema asks for.
fn quoted(error: &ValidationError<'_>) -> Option<String> {
    let ValidationErrorKind::Type { kind } = error.kind() else { return None };
    let text = error.instance().as_str()?;
    let meant: Value = serde_json::from_str(&text.trim().to_ascii_lowercase()).ok()?;
    let takes = |wanted| match kind {
        TypeKind::Single(kind) => *kind == wanted,
        TypeKind::Multiple(kinds) => kinds.contains(wanted),
    };
    let is_it = match &meant {
        Value::Bool(_) => takes(JsonType::Boolean),
        Value::Number(number) => {
            takes(JsonType::Number) || (!number.is_f64() && takes(JsonType::Integer))
        }
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => false,
    };
    is_it.then(|| format!("it is the string {text:?}; write {meant} {UNQUOTED}"))
}

/// Formats a location in the arguments as a person would write it: `edits[1].old_string`.
fn field(place: &Location) -> String {
    let mut field = String::new();
    for segment in place.as_str().split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        if segment.bytes().all(|byte| byte.is_ascii_digit()) {
            field.push_str(&format!("[{segment}]"));
        } else {
            if !field.is_empty() {
                field.push('.');
            }
            field.push_str(&segment);
        }
    }
    if field.is_empty() { "arguments".to_owned() } else { field }
}

/// Returns the schema of a tool's arguments.
fn schema(tool: &ToolSpec) -> Value {
    serde_json::from_str(tool.schema.as_str()).unwrap_or_default()
}

/// Returns a hint that lists the tool's arguments.
fn takes(tool: &ToolSpec) -> String {
    let schema = self::schema(tool);
    let names = schema["properties"].as_object().map(|p| p.keys().cloned().collect::<Vec<_>>());
    format!("{} takes {}", tool.name, names.unwrap_or_default().join(", "))
}
