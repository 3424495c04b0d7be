//! Parses the contents of a `tool` block: one JSON object. Pure: no I/O.

use super::{Fenced, Position};
use palisade_protocol::{JsonText, ToolName};
use serde_json::{Map, Value};

/// The accepted spellings of the key for the tool's name.
const TOOL: [&str; 2] = ["tool", "name"];
/// The accepted spellings of the key for the arguments.
const ARGUMENTS: [&str; 4] = ["arguments", "args", "input", "parameters"];

/// Parses the call in a block; the error says what is wrong with it.
pub(super) fn read(body: &str, at: Position) -> Result<Fenced, String> {
    if body.trim().is_empty() {
        return Err("the block is empty: write one JSON object in it".to_owned());
    }
    let wrong = |error: serde_json::Error| format!("the block is not JSON: {error}");
    let mut object = match serde_json::from_str(body).map_err(wrong)? {
        Value::Object(object) => object,
        Value::Array(_) => return Err("one block is one call: write one block for each".to_owned()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err("the block is not a JSON object".to_owned());
        }
    };
    // Text that parsers read differently, such as a repeated key, is refused here as the daemon
    // does.
    JsonText::parse(body.to_owned()).map_err(wrong)?;
    let tool = match one_of(&mut object, &TOOL)? {
        Some(Value::String(name)) => name,
        Some(_) => return Err("`tool` must be a string".to_owned()),
        None => return Err("`tool` is missing: give the name of the tool".to_owned()),
    };
    if let Err(error) = tool.parse::<ToolName>() {
        return Err(format!("`tool` is not a valid tool name: {error}"));
    }
    let arguments = match one_of(&mut object, &ARGUMENTS)? {
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err("`arguments` must be an object".to_owned()),
        None => Map::new(),
    };
    let reason = match object.remove("reason") {
        Some(Value::String(reason)) => Some(reason),
        Some(Value::Null) | None => None,
        Some(_) => return Err("`reason` must be a string".to_owned()),
    };
    match object.keys().next() {
        Some(key) => Err(format!(
            "`{}` is not allowed here: the keys are `tool`, `arguments` and `reason`; the tool's \
             own arguments go into `arguments`",
            key.escape_debug()
        )),
        None => Ok(Fenced { tool, arguments: Value::Object(arguments), reason, at }),
    }
}

/// Removes and returns the value of a key under any of its spellings; two spellings are an error.
fn one_of(object: &mut Map<String, Value>, spellings: &[&str]) -> Result<Option<Value>, String> {
    let mut found: Option<(&str, Value)> = None;
    for spelling in spellings {
        if let Some(value) = object.remove(*spelling) {
            if let Some((first, _)) = found {
                return Err(format!("`{first}` and `{spelling}` mean the same: give one"));
            }
            found = Some((spelling, value));
        }
    }
    Ok(found.map(|(_, value)| value))
}
