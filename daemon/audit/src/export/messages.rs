//! Exports the history as the messages a model expects: tool calls and their results. Pure: no I/O.

use crate::{
    line::Entry,
    record::{Call, CallResult, Record},
};
use serde_json::{Value, json};

/// The vendor's format of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `tool_use` and `tool_result` blocks.
    Anthropic,
    /// `tool_calls` and messages of the role `tool`.
    Openai,
}

/// Converts records, in the order of the log, to messages. Calls that ran in parallel become one
/// assistant message, as models produce them.
#[derive(Debug)]
pub struct Messages {
    style: Style,
    done: Vec<Value>,
    calls: Vec<(Call, Option<CallResult>)>,
}

impl Messages {
    /// Creates an empty list of messages.
    #[must_use]
    pub const fn new(style: Style) -> Self {
        Self { style, done: Vec::new(), calls: Vec::new() }
    }

    /// Adds a record. Records other than calls and results are skipped.
    pub fn add(&mut self, entry: &Entry) {
        match &entry.record {
            Record::Call(call) => self.calls.push((call.clone(), None)),
            Record::Result(result) => {
                let known = |(call, _): &&mut (Call, _)| call.call_id == result.call_id;
                if let Some((_, place)) = self.calls.iter_mut().find(known) {
                    *place = Some(result.clone());
                }
                if self.calls.iter().all(|(_, result)| result.is_some()) {
                    self.flush();
                }
            }
            Record::Start(_)
            | Record::SessionOpen(_)
            | Record::SessionClose(_)
            | Record::ApprovalRequest(_)
            | Record::Answer(_)
            | Record::Repair(_)
            | Record::JobEnd(_)
            | Record::Rotate(_)
            | Record::Effects(_)
            | Record::TakenBack(_)
            | Record::Forgotten(_)
            | Record::Archive(_)
            | Record::Signature(_)
            | Record::Connection(_)
            | Record::Grant(_) => {}
        }
    }

    /// Returns the messages as a JSON array.
    #[must_use]
    pub fn finish(mut self) -> Value {
        self.flush();
        Value::Array(self.done)
    }

    fn flush(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        if calls.is_empty() {
            return;
        }
        match self.style {
            Style::Anthropic => self.anthropic(&calls),
            Style::Openai => self.openai(&calls),
        }
    }

    fn anthropic(&mut self, calls: &[(Call, Option<CallResult>)]) {
        let mut said = Vec::new();
        said.extend(reasons(calls).map(|reason| json!({"type": "text", "text": reason})));
        said.extend(calls.iter().map(|(call, _)| {
            json!({"type": "tool_use", "id": call.call_id, "name": call.tool,
                "input": call.arguments.value()})
        }));
        let results: Vec<_> = calls
            .iter()
            .map(|(call, result)| {
                let failed = result.as_ref().is_none_or(|result| !result.success);
                json!({"type": "tool_result", "tool_use_id": call.call_id,
                    "content": content(result.as_ref()), "is_error": failed})
            })
            .collect();
        self.done.push(json!({"role": "assistant", "content": said}));
        self.done.push(json!({"role": "user", "content": results}));
    }

    fn openai(&mut self, calls: &[(Call, Option<CallResult>)]) {
        let reasons = reasons(calls).collect::<Vec<_>>().join("\n");
        let made: Vec<_> = calls
            .iter()
            .map(|(call, _)| {
                json!({"id": call.call_id, "type": "function", "function":
                    {"name": call.tool, "arguments": call.arguments.value().to_string()}})
            })
            .collect();
        let text = if reasons.is_empty() { Value::Null } else { Value::String(reasons) };
        self.done.push(json!({"role": "assistant", "content": text, "tool_calls": made}));
        self.done.extend(calls.iter().map(|(call, result)| {
            json!({"role": "tool", "tool_call_id": call.call_id, "content": content(result.as_ref())})
        }));
    }
}

fn reasons(calls: &[(Call, Option<CallResult>)]) -> impl Iterator<Item = String> {
    calls.iter().filter_map(|(call, _)| call.reason.as_ref().map(ToString::to_string))
}

fn content(result: Option<&CallResult>) -> String {
    let Some(result) = result else {
        return "no result was recorded: the call did not end".to_owned();
    };
    let (output, message) = (super::output(result), result.message.as_ref());
    match message {
        Some(message) if output.is_empty() => message.to_string(),
        Some(message) => format!("{output}\n{message}"),
        None => output,
    }
}
