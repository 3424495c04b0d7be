//! The arguments of the tools that work on the session itself.

use crate::RawPath;
use serde::{Deserialize, Serialize};

/// Arguments of `todo_write`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TodoWrite {
    /// The whole list; it replaces the previous one.
    #[serde(alias = "todos")]
    pub items: Vec<TodoItem>,
}

/// An item of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// The task.
    pub content: String,
    /// The state of the task.
    pub status: TodoStatus,
    /// Your own id for the item; must be unique in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not started.
    Pending,
    /// In progress.
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
    /// Words to search for in names, aliases, hints and descriptions.
    pub query: String,
    /// The maximum number of tools to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Arguments of `diagnostics`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Diagnostics {
    /// Report only on these files, or on files below these directories; on all if absent.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<String>>"))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RawPath>,
    /// Milliseconds after which the checkers are killed.
    #[serde(skip_serializing_if = "Option::is_none", alias = "timeout")]
    pub timeout_ms: Option<u64>,
}
