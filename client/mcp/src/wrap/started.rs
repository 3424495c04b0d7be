//! A server that has been introduced: what it said about itself, and the tools that it has.

use super::{
    label::ServerLabel,
    life::{LifeError, ServerLife, ServerSetup},
    tool_list::ToolList,
};
use crate::activity::Activity;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

/// The capabilities of a server that are announced to the agent, without their options.
const CAPABILITIES: [&str; 3] = ["tools", "resources", "prompts"];

/// A server that has answered `initialize`.
#[derive(Debug)]
pub(super) struct StartedServer {
    pub(super) life: ServerLife,
    /// Its answer to `initialize`.
    answer: Value,
    /// The tools that it has, whether or not they are accepted.
    pub(super) list: ToolList,
}

impl StartedServer {
    /// Starts a server and reads its tools. Tells whether that waits for approval.
    pub(super) async fn start(
        setup: &ServerSetup,
        introduction: &Map<String, Value>,
        told: watch::Sender<Activity>,
    ) -> Result<Self, LifeError> {
        let mut life = ServerLife::start(setup, told).await?;
        match introduce(&mut life, introduction).await {
            Ok((answer, list)) => Ok(Self { life, answer, list }),
            Err(error) => {
                life.end().await;
                Err(error)
            }
        }
    }

    /// Reads the tools again if the server said that they have changed.
    pub(super) async fn refresh(&mut self) -> Result<(), LifeError> {
        if self.life.has_new_tools && has(&self.answer, "tools") {
            self.list = read_tools(&mut self.life, &self.answer).await?;
        }
        Ok(())
    }

    /// Returns the name and version that the server gives itself.
    pub(super) fn label(&self) -> ServerLabel {
        ServerLabel::of_answer(&self.answer)
    }

    /// Returns the server's answer to an `initialize` of the agent, with this label and without its
    /// instructions.
    pub(super) fn welcome(&self, label: &ServerLabel, asked: &Map<String, Value>) -> Value {
        let capabilities = CAPABILITIES.iter().filter(|name| has(&self.answer, name));
        let capabilities: Map<String, Value> =
            capabilities.map(|&name| (name.to_owned(), json!({}))).collect();
        json!({
            "protocolVersion": protocol_version(&self.answer, asked),
            "capabilities": capabilities,
            "serverInfo": label.shown(),
        })
    }
}

async fn introduce(
    life: &mut ServerLife,
    introduction: &Map<String, Value>,
) -> Result<(Value, ToolList), LifeError> {
    let answer = life.initialize(introduction).await?;
    let list = read_tools(life, &answer).await?;
    Ok((answer, list))
}

/// Reads the tools of a server that gave this answer to `initialize`.
async fn read_tools(life: &mut ServerLife, answer: &Value) -> Result<ToolList, LifeError> {
    let list = if has(answer, "tools") {
        life.tools(instructions(answer)).await?
    } else {
        life.no_tools(instructions(answer))?
    };
    Ok(list.with_label(Some(ServerLabel::of_answer(answer).recorded())))
}

/// Returns the version of the protocol that a server names: a date, or what the agent asked for. Another
/// text is not passed on.
fn protocol_version<'a>(answer: &'a Value, asked: &Map<String, Value>) -> &'a str {
    let named = answer.get("protocolVersion");
    let is_asked = named == asked.get("protocolVersion");
    let named = named.and_then(Value::as_str).filter(|named| is_asked || is_date(named));
    named.unwrap_or("unknown")
}

/// Returns `true` for a text like `2025-11-25`.
fn is_date(text: &str) -> bool {
    let is_digit = |position| position != 4 && position != 7;
    let fits = |(position, byte): (usize, u8)| {
        if is_digit(position) { byte.is_ascii_digit() } else { byte == b'-' }
    };
    text.len() == 10 && text.bytes().enumerate().all(fits)
}

/// Returns `true` if an answer to `initialize` names a capability.
fn has(answer: &Value, capability: &str) -> bool {
    answer.get("capabilities").and_then(|all| all.get(capability)).is_some_and(Value::is_object)
}

/// Returns the instructions in an answer to `initialize`.
fn instructions(answer: &Value) -> &str {
    answer.get("instructions").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_the_protocol_is_a_date_or_what_was_asked_for() {
        let version = |named: Value, asked: &str| {
            let asked = Map::from_iter([("protocolVersion".to_owned(), json!(asked))]);
            protocol_version(&json!({"protocolVersion": named}), &asked).to_owned()
        };
        assert_eq!(version(json!("2025-06-18"), "2025-11-25"), "2025-06-18");
        assert_eq!(version(json!("DRAFT-2026-v1"), "DRAFT-2026-v1"), "DRAFT-2026-v1");
        for other in
            ["DRAFT-2026-v1", "2025-11-25 obey", "2025-11-2x", "2025/11/25", "é025-11-2", ""]
        {
            assert_eq!(version(json!(other), "2025-11-25"), "unknown", "{other}");
        }
        assert_eq!(version(json!(7), "2025-11-25"), "unknown");
    }
}
