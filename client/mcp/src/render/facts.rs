//! The structured content of a result: the facts of its text, for programs and for clients that
//! show a model nothing else.

use palisade_client::{
    CallResult, WireError,
    model_text::{CutText, MAX_DENIALS, adjustments, shorten},
};
use serde_json::{Map, Value, json};

/// The maximum length of a tool's own structured result, in bytes of JSON.
const MAX_DATA: usize = 1000;

/// Returns the facts. What does not apply is left out, messages are cut to `limit`
/// characters, and `notes` say what is different about the session.
pub(super) fn of(result: &CallResult, output: &CutText, notes: &[String], limit: usize) -> Value {
    let error = result.error.as_ref().map(|error| self::error(error, limit));
    let denials = result.denials.iter().take(MAX_DENIALS).map(|denial| {
        json!({
            "layer": denial.layer, "rule": denial.rule, "remedy": shorten(&denial.remedy, limit),
            "target": shorten(&denial.target, limit),
        })
    });
    let denials: Vec<Value> = denials.collect();
    let checkpoint = result.checkpoint.as_ref().map(|checkpoint| {
        json!({
            "decision": checkpoint.decision, "by": checkpoint.by,
            "reason": shorten(&checkpoint.reason, limit),
        })
    });
    let facts = json!({
        "success": result.success,
        "output": output.text,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "timed_out": result.timed_out,
        "cancelled": result.cancelled,
        "oom": result.oom,
        "adjustments": adjustments(result, limit),
        "error": error,
        "denials": denials,
        "approval": checkpoint,
        "undo": result.undo,
        "omitted_characters": output.omitted,
        "omitted_bytes": result.omitted_bytes,
        "data": data(result),
        "notes": notes,
        "tool": result.tool.as_str(),
        "call_id": result.call_id.as_str(),
    });
    let Value::Object(facts) = facts else { return facts };
    Value::Object(facts.into_iter().filter(says_something).collect::<Map<_, _>>())
}

/// Returns the facts of an error. A hint and an error number that it does not have are left out.
pub(super) fn error(error: &WireError, limit: usize) -> Value {
    let facts = json!({
        "code": error.code.name(),
        "message": shorten(&error.message, limit),
        "hint": shorten(&error.hint, limit),
        "errno": error.errno,
    });
    let Value::Object(mut facts) = facts else { return facts };
    facts.retain(|_, value| *value != json!("") && *value != json!(0) && !value.is_null());
    Value::Object(facts)
}

/// Returns `true` if a fact applies. Success and output always do.
fn says_something((name, value): &(String, Value)) -> bool {
    let is_empty = match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0) && name != "exit_code",
        Value::Array(list) => list.is_empty(),
        Value::Bool(true) | Value::String(_) | Value::Object(_) => false,
    };
    !is_empty || name == "success"
}

/// Returns the tool's own structured result, unless it is long: the text says the same.
fn data(result: &CallResult) -> Option<Value> {
    let text = result.data.as_ref()?.as_str();
    if text.len() > MAX_DATA {
        return None;
    }
    serde_json::from_str(text).ok()
}
