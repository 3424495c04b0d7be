//! Formats tools for people and for the APIs of models.

use crate::paint::{Paint, Style, harmless};
use palisade_client::{ModelTool, ToolSpec};
use serde_json::{Value, json};

/// Parses the schema. If it is not valid JSON, the schema of any object is returned.
fn schema(tool: &ToolSpec) -> Value {
    serde_json::from_str(tool.schema.as_str()).unwrap_or_else(|_| json!({"type": "object"}))
}

/// Formats tools for OpenAI function calling.
pub(crate) fn openai(tools: &[ToolSpec]) -> Vec<Value> {
    let one = |tool: ModelTool| {
        json!({"type": "function", "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
        }})
    };
    tools.iter().map(ModelTool::from).map(one).collect()
}

/// Formats tools for OpenAI function calling in strict mode. A tool whose arguments can not be
/// written in that form is not strict.
pub(crate) fn openai_strict(tools: &[ToolSpec]) -> Vec<Value> {
    let one = |tool: ModelTool| {
        let strict = tool.strict_schema();
        json!({"type": "function", "function": {
            "name": tool.name,
            "description": tool.description,
            "strict": strict.is_some(),
            "parameters": strict.unwrap_or(tool.schema),
        }})
    };
    tools.iter().map(ModelTool::from).map(one).collect()
}

/// Formats tools for Anthropic tool use.
pub(crate) fn anthropic(tools: &[ToolSpec]) -> Vec<Value> {
    let one = |tool: ModelTool| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.schema,
        })
    };
    tools.iter().map(ModelTool::from).map(one).collect()
}

/// Formats tools for the Model Context Protocol.
pub(crate) fn mcp(tools: &[ToolSpec]) -> Vec<Value> {
    let one = |tool: ModelTool| {
        json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": tool.schema,
            "annotations": tool.hints.to_json(),
        })
    };
    tools.iter().map(ModelTool::from).map(one).collect()
}

/// Formats tools for people: name, aliases, description, each argument.
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
        (tool.metadata.requires_checkpoint, "needs approval"),
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
    use palisade_protocol::{AuditOperation, JsonText, ToolMetadata};

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
                audit_operation: AuditOperation::Read,
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
    fn strict_openai_requires_every_argument() {
        let [strict] = &openai_strict(&[tool()])[..] else { panic!("not one tool") };
        let function = &strict["function"];
        assert_eq!(function["strict"], true, "{strict}");
        assert_eq!(function["parameters"]["required"], json!(["limit", "path"]));
        let limit = json!({"type": ["integer", "null"], "description": "How many."});
        assert_eq!(function["parameters"]["properties"]["limit"], limit);
        let map = JsonText::parse(
            r#"{"type":"object","properties":{"m":{"type":"object","additionalProperties":true}},
            "required":["m"]}"#
                .to_owned(),
        );
        let open = ToolSpec { schema: map.unwrap(), ..tool() };
        let [lenient] = &openai_strict(&[open])[..] else { panic!("not one tool") };
        assert_eq!(lenient["function"]["strict"], false, "{lenient}");
    }

    #[test]
    fn anthropic_has_an_input_schema() {
        let expected = json!([{"name": "read_file", "description": "Reads a file.",
            "input_schema": schema_value()}]);
        assert_eq!(json!(anthropic(&[tool()])), expected);
    }

    #[test]
    fn mcp_has_annotations() {
        let expected = json!([{"name": "read_file", "title": "Read a file",
            "description": "Reads a file.", "inputSchema": schema_value(),
            "annotations": {"readOnlyHint": true, "destructiveHint": false,
                "idempotentHint": true, "openWorldHint": false}}]);
        assert_eq!(json!(mcp(&[tool()])), expected);
    }

    #[test]
    fn people_see_required_arguments_first() {
        let expected = "read_file (Read) [read-only]\n  Reads a file.\n    path         Which file. \
                        (required)\n    limit        How many.\n";
        assert_eq!(text(&[tool()], Paint::Plain), expected);
    }
}
