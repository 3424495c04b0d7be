//! Messages of the provider socket. A provider is a process that registers tools of its own at run
//! time and answers calls of them. The other sockets refuse all of these requests.

use crate::{JsonText, ToolMetadata, ToolName, object};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The daemon's number for one call of a provided tool. Numbers are per provider and never reused.
pub type Invocation = u64;

/// Registers tools, all of them or none. They are removed when the connection ends.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provide {
    /// The tools to register. A tool of the same name from this connection is replaced.
    #[serde(deserialize_with = "object::list")]
    pub tools: Vec<ProvidedTool>,
}

/// A tool that a provider registers.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvidedTool {
    /// The tool's own name; it must not be the name of a built-in tool.
    pub name: ToolName,
    /// Other names of the same tool.
    #[serde(default, deserialize_with = "object::list")]
    pub aliases: Vec<ToolName>,
    /// A description for the model.
    pub description: String,
    /// The JSON Schema of the arguments, an object. It must not refer to anything outside itself.
    pub schema: JsonText,
    /// The tool's claims about itself. They are trusted only if the session's profile says so.
    #[serde(default, deserialize_with = "object::only")]
    pub metadata: ToolMetadata,
    /// True to replace a tool that another connection of the same user provides.
    #[serde(default)]
    pub r#override: bool,
}

/// Removes registered tools. Running calls of them go on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unprovide {
    /// The tools' own names.
    #[serde(deserialize_with = "object::list")]
    pub names: Vec<ToolName>,
}

/// The progress of an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvokeProgress {
    /// The invocation's number.
    pub invocation: Invocation,
    /// The current activity.
    pub message: String,
    /// Units done.
    pub done: u64,
    /// Units in total, if known.
    #[serde(default)]
    pub total: Option<u64>,
}

/// A piece of an invocation's output, before its result.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvokeOutput {
    /// The invocation's number.
    pub invocation: Invocation,
    /// The text, at most [`crate::limits::MAX_CHUNK`] bytes.
    pub text: String,
}

/// The one result of an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvokeResult {
    /// The invocation's number.
    pub invocation: Invocation,
    /// The text for the model. It follows the text that was sent as output.
    #[serde(default)]
    pub output: String,
    /// The structured result.
    #[serde(default)]
    pub data: Option<JsonText>,
    /// The reason the invocation did not succeed.
    #[serde(default)]
    pub error: Option<String>,
}

/// The reply to `Provide`: all tools are registered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provided {
    /// The names of all tools that this connection provides now, sorted.
    pub names: Vec<ToolName>,
}

/// Tells a provider to run a tool. The call was judged, and approved if it needed approval.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invoke {
    /// The number to answer the invocation with.
    pub invocation: Invocation,
    /// An opaque session name: equal for calls of one session, different for different sessions.
    /// The provider learns nothing else about the session.
    pub session: String,
    /// The tool's own name.
    pub tool: ToolName,
    /// The arguments, which are valid for the tool's schema.
    pub arguments: JsonText,
    /// The reason for the call in the agent's own words.
    pub reason: Option<String>,
    /// The time after which the call ends without an answer.
    pub deadline_ms: u64,
}

/// Tells a provider that nobody waits for the result any more.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvokeCancelled {
    /// The invocation's number.
    pub invocation: Invocation,
}
