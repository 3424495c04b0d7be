//! How a tool describes itself.

use crate::{JsonText, ToolName};
use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A tool: what a model needs to call it and what the judge needs to judge it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// Its own name.
    pub name: ToolName,
    /// Names that mean the same.
    pub aliases: Vec<ToolName>,
    /// For the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: JsonText,
    /// For the judge.
    pub metadata: ToolMetadata,
}

/// What the judge needs to know. The default is the careful answer to each question.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolMetadata {
    /// May run beside other calls of its session.
    pub concurrency_safe: bool,
    /// Changes nothing.
    pub read_only: bool,
    /// May destroy what existed before.
    pub destructive: bool,
    /// What permission it falls under.
    pub permission_class: PermissionClass,
    /// How the audit names it.
    pub audit_operation: AuditOperation,
    /// Asked about whatever the mode (but `never`).
    pub requires_checkpoint: bool,
    /// Needs its deliverable in the call.
    pub requires_reverse_thinking: bool,
    /// Words that find it.
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

/// What permission a tool falls under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionClass {
    /// Runs programs.
    Bash,
    /// Changes files.
    File,
    /// Fetches from the network.
    Webfetch,
    /// Only looks.
    Readonly,
    /// Anything else.
    Generic,
}

/// How the audit names what a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOperation {
    /// Looks.
    Read,
    /// Writes.
    Write,
    /// Changes in place.
    Edit,
    /// Removes.
    Delete,
    /// Runs.
    Execute,
    /// Anything else.
    Invoke,
}
