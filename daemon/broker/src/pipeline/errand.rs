//! Calls that concern the session itself: its to-do list and its tools. A call about an MCP server
//! ends here once it is allowed; a relay carries it out. Runs in the broker.

use crate::{
    base::{error::CallError, outcome::Outcome, task::SessionTask},
    cells::session::Session,
    tools::{Registry, search},
};
use palisade_protocol::{
    JsonText,
    arguments::{TodoItem, TodoStatus},
};
use serde_json::json;
use std::fmt::Write as _;

/// Carries out such a call.
pub(crate) fn run(errand: SessionTask, session: &Session, registry: &Registry) -> Outcome {
    let done = match errand {
        SessionTask::TodoRead => listed(&session.todos.read()),
        SessionTask::TodoWrite(items) => {
            let done = listed(&items);
            session.todos.write(items);
            done
        }
        SessionTask::ToolSearch { query, limit } => found(&query, limit, session, registry),
        // An approver may have changed the arguments.
        SessionTask::ServerCall(arguments) => {
            outcome(String::new(), &json!({"arguments": arguments}))
        }
        SessionTask::ServerTools(tools) => outcome(String::new(), &json!({"digest": tools.digest})),
    };
    done.unwrap_or_else(|error| CallError::Io(error.into()).into())
}

fn outcome(output: String, data: &serde_json::Value) -> Result<Outcome, serde_json::Error> {
    Ok(Outcome { output, data: Some(JsonText::render(data)?), ..Outcome::default() })
}

fn listed(items: &[TodoItem]) -> Result<Outcome, serde_json::Error> {
    let mut text = String::new();
    for item in items {
        let mark = match item.status {
            TodoStatus::Pending => ' ',
            TodoStatus::InProgress => '>',
            TodoStatus::Completed => 'x',
        };
        // Writing to a string does not fail.
        writeln!(text, "[{mark}] {}", item.content).ok();
    }
    let count = |status| items.iter().filter(|item| item.status == status).count();
    let counts = json!({
        "pending": count(TodoStatus::Pending),
        "in_progress": count(TodoStatus::InProgress),
        "completed": count(TodoStatus::Completed),
    });
    outcome(text, &json!({"items": items, "counts": counts}))
}

fn found(
    query: &str,
    limit: usize,
    session: &Session,
    registry: &Registry,
) -> Result<Outcome, serde_json::Error> {
    let mut tools = registry.list();
    tools.retain(|tool| session.profile.allows_tool(&tool.spec));
    let tools = search(tools, query);
    let mut text = String::new();
    let shown = tools.iter().take(limit).map(|tool| {
        let spec = &tool.spec;
        writeln!(text, "{}: {}", spec.name, spec.description).ok();
        json!({"name": spec.name, "aliases": spec.aliases, "description": spec.description})
    });
    let shown: Vec<_> = shown.collect();
    outcome(text, &json!({"tools": shown, "total": tools.len()}))
}
