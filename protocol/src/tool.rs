//! The description of a tool, for models and for the daemon.

use crate::{JsonText, ToolName};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A tool's description: what a model needs to call it and what the daemon needs to judge calls of
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// The tool's own name.
    pub name: ToolName,
    /// Other names of the same tool.
    pub aliases: Vec<ToolName>,
    /// A description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: JsonText,
    /// The properties that calls are judged by.
    pub metadata: ToolMetadata,
}

/// The properties of a tool that its calls are judged by. Each default is the cautious value.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolMetadata {
    /// True if the tool may run at the same time as other calls of its session.
    pub concurrency_safe: bool,
    /// True if the tool changes nothing.
    pub read_only: bool,
    /// True if the tool may destroy what existed before.
    pub destructive: bool,
    /// The permission class that the tool belongs to.
    pub permission_class: PermissionClass,
    /// The operation that the audit log records for the tool.
    pub audit_operation: AuditOperation,
    /// True if calls always need approval, in every mode but `never`.
    pub requires_checkpoint: bool,
    /// True if a call must contain its reverse thinking.
    pub requires_reverse_thinking: bool,
    /// Words by which `tool_search` finds the tool.
    pub search_hint: String,
}

impl Default for ToolMetadata {
    fn default() -> Self {
        Self {
            concurrency_safe: false,
            read_only: false,
            destructive: true,
            permission_class: PermissionClass::Generic,
            audit_operation: AuditOperation::Invoke,
            requires_checkpoint: true,
            requires_reverse_thinking: false,
            search_hint: String::new(),
        }
    }
}

/// The permission class of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionClass {
    /// Runs programs.
    Bash,
    /// Changes files.
    File,
    /// Fetches from the network.
    Webfetch,
    /// Only reads.
    Readonly,
    /// Anything else.
    Generic,
}

/// The operation that the audit log records for a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOperation {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Changes in place.
    Edit,
    /// Deletes.
    Delete,
    /// Runs a program.
    Execute,
    /// Anything else.
    Invoke,
}
