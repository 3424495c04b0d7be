//! A server that has been introduced: what it said about itself, and the tools that it has.

use super::{
    label::ServerLabel,
    life::{LifeError, ServerLife, ServerSetup},
    message::printable,
    tool_list::ToolList,
};
use crate::activity::Activity;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

/// The capabilities of a server that are announced to the agent, without their options.
const CAPABILITIES: [&str; 3] = ["tools", "resources", "prompts"];

/// The maximum length of the version of the protocol, in characters.
const MAX_VERSION: usize = 200;

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

    /// Returns the server's answer to `initialize` for the agent, with this label and without its
    /// instructions.
    pub(super) fn welcome(&self, label: &ServerLabel) -> Value {
        let capabilities = CAPABILITIES.iter().filter(|name| has(&self.answer, name));
        let capabilities: Map<String, Value> =
            capabilities.map(|&name| (name.to_owned(), json!({}))).collect();
        let version = self.answer.get("protocolVersion").and_then(Value::as_str);
        json!({
            "protocolVersion": printable(version.unwrap_or("unknown"), MAX_VERSION),
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

/// Returns `true` if an answer to `initialize` names a capability.
fn has(answer: &Value, capability: &str) -> bool {
    answer.get("capabilities").and_then(|all| all.get(capability)).is_some_and(Value::is_object)
}

/// Returns the instructions in an answer to `initialize`.
fn instructions(answer: &Value) -> &str {
    answer.get("instructions").and_then(Value::as_str).unwrap_or_default()
}
