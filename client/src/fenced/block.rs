//! What stands in a `tool` block: one JSON object. Pure.

use super::{Fenced, Position};
use palisade_protocol::{JsonText, ToolName};
use serde_json::{Map, Value};

/// The spellings of the tool's name.
const TOOL: [&str; 2] = ["tool", "name"];
/// The spellings of its arguments.
const ARGUMENTS: [&str; 4] = ["arguments", "args", "input", "parameters"];

/// The call in a block, or what is wrong with it.
pub(super) fn read(body: &str, at: Position) -> Result<Fenced, String> {
    if body.trim().is_empty() {
        return Err("the block is empty: write one JSON object in it".to_owned());
    }
    let wrong = |error: serde_json::Error| format!("the block is not JSON: {error}");
    let mut object = match serde_json::from_str(body).map_err(wrong)? {
        Value::Object(object) => object,
        Value::Array(_) => return Err("one block is one call: write one block for each".to_owned()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err("the block is no JSON object".to_owned());
        }
    };
    // What parsers read differently, such as a key twice, is refused here as the daemon does.
    JsonText::parse(body.to_owned()).map_err(wrong)?;
    let tool = match one_of(&mut object, &TOOL)? {
        Some(Value::String(name)) => name,
        Some(_) => return Err("`tool` must be a string".to_owned()),
        None => return Err("`tool` is missing: the name of the tool".to_owned()),
    };
    if let Err(error) = tool.parse::<ToolName>() {
        return Err(format!("`tool` is no name of a tool: {error}"));
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
            "`{}` does not belong there: the keys are `tool`, `arguments` and `reason`, and what \
             the tool takes stands in `arguments`",
            key.escape_debug()
        )),
        None => Ok(Fenced { tool, arguments: Value::Object(arguments), reason, at }),
    }
}

/// The value of a key under one of its spellings; two are an error.
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
