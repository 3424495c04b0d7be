//! Checks arguments against a tool's JSON Schema. Valid ones are parsed; for invalid ones the error
//! names every violation. Runs in the broker. Pure: no I/O.

use jsonschema::{
    PatternOptions, ValidationError, Validator, error::ValidationErrorKind, paths::Location,
};
use palisade_protocol::{Call, ErrorCode, JsonText, ToolSpec, WireError};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The number of violations that an error names; the rest are counted.
const NAMED: usize = 8;

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
        let field = match error.path().to_string() {
            path if path == "." => "arguments".to_owned(),
            path => path,
        };
        let why = error.inner().to_string();
        let mut found = violations(tool, call).unwrap_or_default();
        if found.is_empty() {
            found.push(Violation { field, why });
        } else if let Some(violation) = found.iter_mut().find(|found| found.field == field) {
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

fn violations(tool: &ToolSpec, call: &Call) -> Result<Vec<Violation>, String> {
    let arguments: Value =
        serde_json::from_str(call.arguments.as_str()).map_err(|error| error.to_string())?;
    Ok(against(&compile(&schema(tool))?, &arguments))
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
    vec![Violation { field: field(place), why: error.to_string() }]
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
