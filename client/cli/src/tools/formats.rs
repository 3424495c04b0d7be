//! Tools as people read them and as the models' APIs take them.

use crate::paint::{Paint, Style, harmless};
use palisade_client::ToolSpec;
use serde_json::{Value, json};

/// The schema as a value; one that is none describes any object.
fn schema(tool: &ToolSpec) -> Value {
    serde_json::from_str(tool.schema.as_str()).unwrap_or_else(|_| json!({"type": "object"}))
}

/// OpenAI function calling.
pub(crate) fn openai(tools: &[ToolSpec]) -> Vec<Value> {
    let one = |tool: &ToolSpec| {
        json!({"type": "function", "function": {
            "name": tool.name.as_str(),
            "description": tool.description,
            "parameters": schema(tool),
        }})
    };
    tools.iter().map(one).collect()
}

/// Anthropic tool use.
pub(crate) fn anthropic(tools: &[ToolSpec]) -> Vec<Value> {
    let one = |tool: &ToolSpec| {
        json!({
            "name": tool.name.as_str(),
            "description": tool.description,
            "input_schema": schema(tool),
        })
    };
    tools.iter().map(one).collect()
}

/// Model Context Protocol.
pub(crate) fn mcp(tools: &[ToolSpec]) -> Vec<Value> {
    let one = |tool: &ToolSpec| {
        json!({
            "name": tool.name.as_str(),
            "description": tool.description,
            "inputSchema": schema(tool),
            "annotations": {
                "readOnlyHint": tool.metadata.read_only,
                "destructiveHint": tool.metadata.destructive,
            },
        })
    };
    tools.iter().map(one).collect()
}

/// For people: name, aliases, what it does, each argument.
pub(crate) fn text(tools: &[ToolSpec], paint: Paint) -> String {
    tools.iter().map(|tool| entry(tool, paint)).collect::<Vec<_>>().join("\n")
}

fn entry(tool: &ToolSpec, paint: Paint) -> String {
    let mut text = paint.apply(Style::Strong, tool.name.as_str());
    if !tool.aliases.is_empty() {
        let aliases: Vec<_> = tool.aliases.iter().map(|alias| alias.as_str()).collect();
        text.push_str(&format!(" ({})", aliases.join(", ")));
    }
    let traits = [
        (tool.metadata.read_only, "read-only"),
        (tool.metadata.destructive, "destructive"),
        (tool.metadata.requires_checkpoint, "asks first"),
    ];
    for (_, name) in traits.into_iter().filter(|(has, _)| *has) {
        text.push_str(&format!(" [{name}]"));
    }
    text.push('\n');
    for line in tool.description.lines() {
        text.push_str(&format!("  {}\n", harmless(line)));
    }
    text.push_str(&arguments(&schema(tool)));
    text
}

fn arguments(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return String::new();
    };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let (first, rest): (Vec<_>, Vec<_>) =
        properties.iter().partition(|(name, _)| required.contains(&name.as_str()));
    let mut text = String::new();
    for (name, property) in first.into_iter().chain(rest) {
        let mark = if required.contains(&name.as_str()) { " (required)" } else { "" };
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        let line = format!("    {name:<12} {}{mark}", harmless(description));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::{JsonText, ToolMetadata};

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "limit":{"type":"integer","description":"How many."},
        "path":{"type":"string","description":"Which file."}},"required":["path"]}"#;

    fn tool() -> ToolSpec {
        ToolSpec {
            name: "read_file".parse().unwrap(),
            aliases: vec!["Read".parse().unwrap()],
            description: "Reads a file.".to_owned(),
            schema: JsonText::parse(SCHEMA.to_owned()).unwrap(),
            metadata: ToolMetadata {
                read_only: true,
                destructive: false,
                requires_checkpoint: false,
                ..ToolMetadata::default()
            },
        }
    }

    fn schema_value() -> Value {
        serde_json::from_str(SCHEMA).unwrap()
    }

    #[test]
    fn openai_wraps_a_function() {
        let expected = json!([{"type": "function", "function": {"name": "read_file",
            "description": "Reads a file.", "parameters": schema_value()}}]);
        assert_eq!(json!(openai(&[tool()])), expected);
    }

    #[test]
    fn anthropic_has_an_input_schema() {
        let expected = json!([{"name": "read_file", "description": "Reads a file.",
            "input_schema": schema_value()}]);
        assert_eq!(json!(anthropic(&[tool()])), expected);
    }

    #[test]
    fn mcp_has_annotations() {
        let expected = json!([{"name": "read_file", "description": "Reads a file.",
            "inputSchema": schema_value(),
            "annotations": {"readOnlyHint": true, "destructiveHint": false}}]);
        assert_eq!(json!(mcp(&[tool()])), expected);
    }

    #[test]
    fn people_see_required_arguments_first() {
        let expected = "read_file (Read) [read-only]\n  Reads a file.\n    path         Which file. \
                        (required)\n    limit        How many.\n";
        assert_eq!(text(&[tool()], Paint::Plain), expected);
    }
}
