//! The arguments of calls about MCP servers, which a relay carries out.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Arguments of `mcp_SERVER_TOOL` where the server is not a job of the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServerCall {
    /// The arguments that the server's tool will get.
    pub arguments: Map<String, Value>,
}

/// Arguments of `mcp_SERVER`: the server's list of tools, and how it differs from the accepted one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServerTools {
    /// The digest of the list of tools.
    pub digest: String,
    /// The tools that were added, removed or changed.
    pub changes: Vec<String>,
    /// The new texts that a model would read.
    pub texts: Vec<String>,
}
