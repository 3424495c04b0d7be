//! A tool as the APIs of models and the Model Context Protocol describe one.

use crate::{plain_schema::plain_schema, strict_schema::strict_schema};
use palisade_protocol::{AuditOperation, PermissionClass, ToolSpec};
use serde_json::{Value, json};

/// The titles of the built-in tools, for people.
const TITLES: [(&str, &str); 25] = [
    ("apply_patch", "Apply a patch"),
    ("bash", "Run a shell command"),
    ("delete_file", "Delete a file"),
    ("diagnostics", "Run the project's checkers"),
    ("edit", "Edit a file"),
    ("glob", "Find files by name"),
    ("grep", "Search in files"),
    ("job_commit", "Commit a job's changes"),
    ("job_input", "Write to a job"),
    ("job_kill", "End a job"),
    ("job_list", "List jobs"),
    ("job_output", "Read a job's output"),
    ("list_files", "List files"),
    ("make_dir", "Make a directory"),
    ("move_file", "Move a file"),
    ("multi_edit", "Edit several places"),
    ("read_file", "Read a file"),
    ("realpath", "Resolve a path"),
    ("stat", "Describe a file"),
    ("todo_read", "Read the task list"),
    ("todo_write", "Write the task list"),
    ("tool_search", "Find tools"),
    ("undo", "Undo a call"),
    ("web_fetch", "Fetch a web page"),
    ("write_file", "Write a file"),
];

/// The built-in tools that change something, and nothing more when they are called again.
const IDEMPOTENT: [&str; 3] = ["delete_file", "make_dir", "todo_write"];

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelTool {
    /// The tool's name.
    pub name: String,
    /// A title for people.
    pub title: String,
    /// A description for the model.
    pub description: String,
    /// JSON Schema of the arguments, in a form that every API accepts: no references, no lists of
    /// types, no `$schema`, `format` or `default`; `properties` is always present.
    pub schema: Value,
    /// The annotations that tell clients of the Model Context Protocol about the tool's effects.
    pub hints: ToolHints,
}

/// The four annotations of the Model Context Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolHints {
    /// True if the tool changes nothing.
    pub read_only: bool,
    /// True if the tool exists to destroy something. A tool that can only lose data by way of an
    /// approval, such as `bash`, is not destructive.
    pub destructive: bool,
    /// True if a second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// True if the tool reaches beyond the session's workspace and network rules.
    pub open_world: bool,
}

impl ModelTool {
    /// Returns the schema for APIs that hold a model to it: every argument is required, and one that
    /// may be left out may be `null`, which the daemon takes as absent. `None` if there is no such
    /// form.
    #[must_use]
    pub fn strict_schema(&self) -> Option<Value> {
        strict_schema(&self.schema)
    }
}

impl ToolHints {
    /// Returns the annotations as the Model Context Protocol writes them.
    #[must_use]
    pub fn to_json(self) -> Value {
        json!({
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        })
    }
}

impl From<&ToolSpec> for ModelTool {
    fn from(tool: &ToolSpec) -> Self {
        let name = tool.name.as_str();
        let known = TITLES.iter().find(|(tool, _)| *tool == name).map(|(_, title)| *title);
        let metadata = &tool.metadata;
        // A tool that changes the session's own notes needs no approval, but it does change them.
        let read_only = metadata.read_only && metadata.audit_operation == AuditOperation::Read;
        let fetches = metadata.permission_class == PermissionClass::Webfetch;
        let hints = ToolHints {
            read_only,
            destructive: metadata.destructive && !read_only,
            idempotent: read_only || IDEMPOTENT.contains(&name),
            // A provider's process is outside of the sandbox.
            open_world: fetches || known.is_none(),
        };
        let schema = serde_json::from_str(tool.schema.as_str()).unwrap_or_default();
        Self {
            name: name.to_owned(),
            title: known.map_or_else(|| readable(name), str::to_owned),
            description: tool.description.clone(),
            schema: plain_schema(&schema),
            hints,
        }
    }
}

/// Turns a name into a title: `fetch_page` into `Fetch page`.
fn readable(name: &str) -> String {
    let mut words = name.replace('_', " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::{JsonText, ToolMetadata};

    fn tool(name: &str, metadata: ToolMetadata) -> ModelTool {
        ModelTool::from(&ToolSpec {
            name: name.parse().unwrap(),
            aliases: Vec::new(),
            description: "Does it.".to_owned(),
            schema: JsonText::parse("{\"type\":\"object\"}".to_owned()).unwrap(),
            metadata,
        })
    }

    #[test]
    fn all_four_hints_are_told() {
        let metadata = |read_only, destructive, audit_operation| ToolMetadata {
            read_only,
            destructive,
            audit_operation,
            ..ToolMetadata::default()
        };
        let hints = |name: &str, metadata| {
            let ToolHints { read_only, destructive, idempotent, open_world } =
                tool(name, metadata).hints;
            (read_only, destructive, idempotent, open_world)
        };
        let read = metadata(true, false, AuditOperation::Read);
        assert_eq!(hints("read_file", read.clone()), (true, false, true, false));
        let notes = metadata(true, false, AuditOperation::Invoke);
        assert_eq!(hints("todo_write", notes), (false, false, true, false));
        let execute = metadata(false, false, AuditOperation::Execute);
        assert_eq!(hints("bash", execute), (false, false, false, false));
        let delete = metadata(false, true, AuditOperation::Delete);
        assert_eq!(hints("delete_file", delete), (false, true, true, false));
        let fetch = ToolMetadata { permission_class: PermissionClass::Webfetch, ..read };
        assert_eq!(hints("web_fetch", fetch), (true, false, true, true));
        assert_eq!(hints("deploy", ToolMetadata::default()), (false, true, false, true));
    }

    #[test]
    fn every_tool_has_a_title() {
        assert_eq!(tool("bash", ToolMetadata::default()).title, "Run a shell command");
        assert_eq!(tool("fetch_page", ToolMetadata::default()).title, "Fetch page");
    }
}
