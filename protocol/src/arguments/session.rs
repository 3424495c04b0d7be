//! The arguments of the tools that are about the session itself.

use crate::RawPath;
use serde::{Deserialize, Serialize};

/// Arguments of `todo_write`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TodoWrite {
    /// The whole list; it replaces the one before.
    pub items: Vec<TodoItem>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// A name of your own for it; no two items share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// How far something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

/// Arguments of `todo_read`: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TodoRead {}

/// Arguments of `tool_search`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ToolSearch {
    /// Words to look for: names, aliases, hints and descriptions are searched.
    pub query: String,
    /// How many tools at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Arguments of `diagnostics`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Diagnostics {
    /// Only what is about these files, or about files below these directories; all if absent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<String>>"))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RawPath>,
    /// Milliseconds after which the checkers are killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}
