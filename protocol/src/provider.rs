//! What a provider says and hears on the provider socket: a process that registers tools of its own
//! at run time and answers calls of them. The other sockets refuse all of it.

use crate::{JsonText, ToolMetadata, ToolName, object};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The daemon's number for one call of a provided tool; a provider's own, and never used twice.
pub type Invocation = u64;

/// Registers tools, all of them or none. The connection's end takes them away.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provide {
    /// One of the same name of this connection is replaced.
    #[serde(deserialize_with = "object::list")]
    pub tools: Vec<ProvidedTool>,
}

/// A tool of a provider's.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProvidedTool {
    /// Its own name; not one of a built-in tool.
    pub name: ToolName,
    /// Names that mean the same.
    #[serde(default, deserialize_with = "object::list")]
    pub aliases: Vec<ToolName>,
    /// For the model.
    pub description: String,
    /// JSON Schema of the arguments, an object; it refers to nothing outside itself.
    pub schema: JsonText,
    /// What it says of itself. Believed only where the session's profile says so.
    #[serde(default, deserialize_with = "object::only")]
    pub metadata: ToolMetadata,
    /// Takes the place of a tool that another connection of the same user provides.
    #[serde(default)]
    pub r#override: bool,
}

/// Takes tools back. Calls of them that are under way go on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unprovide {
    /// By their own names.
    #[serde(deserialize_with = "object::list")]
    pub names: Vec<ToolName>,
}

/// How far an invocation is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvokeProgress {
    /// Which.
    pub invocation: Invocation,
    /// What is being done.
    pub message: String,
    /// Units done.
    pub done: u64,
    /// Units in all, if known.
    #[serde(default)]
    pub total: Option<u64>,
}

/// A piece of an invocation's output, before its result.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvokeOutput {
    /// Which.
    pub invocation: Invocation,
    /// At most [`crate::limits::MAX_CHUNK`] bytes.
    pub text: String,
}

/// The one result of an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvokeResult {
    /// Which.
    pub invocation: Invocation,
    /// What a model should read, after what was sent as output.
    #[serde(default)]
    pub output: String,
    /// Structured result.
    #[serde(default)]
    pub data: Option<JsonText>,
    /// Why it did not succeed.
    #[serde(default)]
    pub error: Option<String>,
}

/// To `Provide`: all of them are there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provided {
    /// All that this connection provides now, sorted.
    pub names: Vec<ToolName>,
}

/// To a provider: do this. It was judged, and approved where it had to be.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invoke {
    /// To answer it by.
    pub invocation: Invocation,
    /// The same for calls of one session and another for each other: all that is told of it.
    pub session: String,
    /// The tool's own name.
    pub tool: ToolName,
    /// They fit the tool's schema.
    pub arguments: JsonText,
    /// Why, in the agent's own words.
    pub reason: Option<String>,
    /// When the call ends without an answer.
    pub deadline_ms: u64,
}

/// To a provider: nobody waits for the result any more.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvokeCancelled {
    /// Which.
    pub invocation: Invocation,
}
