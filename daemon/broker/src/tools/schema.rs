//! Arguments against a tool's JSON Schema: what fits is parsed, what does not is named, all of it.
//! Broker, pure.

use jsonschema::{
    PatternOptions, ValidationError, Validator, error::ValidationErrorKind, paths::Location,
};
use palisade_protocol::{Call, ErrorCode, ToolSpec, WireError};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How many violations an error names; the rest are counted.
const NAMED: usize = 8;

/// Compiles a schema. It may not refer to anything outside itself, and its patterns are those that
/// take time in proportion to the text: who writes them is not always this daemon.
pub(super) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::options().with_pattern_options(PatternOptions::regex()).build(schema).map_err(
        |error| match error.instance_path().as_str() {
            "" => error.to_string(),
            place => format!("at {place}: {error}"),
        },
    )
}

/// Holds arguments against a schema, and names everything that is wrong with them.
pub(super) fn hold(tool: &ToolSpec, validator: &Validator, call: &Call) -> Result<(), WireError> {
    let found = match serde_json::from_str(call.arguments.as_str()) {
        Ok(arguments) => against(validator, &arguments),
        Err(error) => vec![Violation { field: "arguments".to_owned(), why: error.to_string() }],
    };
    if found.is_empty() { Ok(()) } else { Err(refuse(tool, found)) }
}

/// Arguments as the tool's own type. Only what does not fit is held against the schema, which can
/// name everything that is wrong with it at once.
pub(super) fn parse<A: DeserializeOwned>(tool: &ToolSpec, call: &Call) -> Result<A, WireError> {
    let mut json = serde_json::Deserializer::from_str(call.arguments.as_str());
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = match error.path().to_string() {
            path if path == "." => "arguments".to_owned(),
            path => path,
        };
        let why = error.inner().to_string();
        let mut found = violations(tool, call).unwrap_or_default();
        if found.is_empty() {
            found.push(Violation { field, why });
        } else if let Some(violation) = found.iter_mut().find(|found| found.field == field) {
            // The type's own words say more than that none of several schemas fits.
            violation.why = why;
        }
        refuse(tool, found)
    })
}

/// Where, and what is wrong there.
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

/// One error of the validator; each unknown argument is a violation of its own.
fn named(error: &ValidationError<'_>) -> Vec<Violation> {
    let place = error.instance_path();
    let below = |name: &str| match field(place) {
        place if place == "arguments" => name.to_owned(),
        place => format!("{place}.{name}"),
    };
    let missing = "it is required and missing";
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

/// A place in the arguments as a person would write it: `edits[1].old_string`.
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

/// The schema of a tool's arguments.
fn schema(tool: &ToolSpec) -> Value {
    serde_json::from_str(tool.schema.as_str()).unwrap_or_default()
}

/// What the tool takes, for a hint.
fn takes(tool: &ToolSpec) -> String {
    let schema = self::schema(tool);
    let names = schema["properties"].as_object().map(|p| p.keys().cloned().collect::<Vec<_>>());
    format!("{} takes {}", tool.name, names.unwrap_or_default().join(", "))
}
