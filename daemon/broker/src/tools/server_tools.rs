//! The tools of MCP servers, `mcp_SERVER_TOOL`, and the whole list of a server's tools, `mcp_SERVER`.
//! The daemon judges such a call, asks approvers and records it. A relay outside of the sandbox
//! carries it out; where the server is a job of the session, the call is the input of that job. Any
//! name of this form is known, and none is listed. Runs in the broker. Pure: no I/O.

use super::{
    job_input, schema,
    tool::{Parse, Tool, ToolOrigin},
};
use crate::base::task::{ParsedArguments, SessionTask, Task};
use palisade_protocol::{
    AuditOperation, Call, JsonText, PermissionClass, ToolMetadata, ToolName, ToolSpec, WireError,
    arguments as wire,
};
use schemars::{Schema, schema_for};
use serde_json::Value;

/// The beginning of the names, which no other tool may have.
const PREFIX: &str = "mcp_";

/// The part of a server that a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerPart {
    Tool,
    List,
}

/// Returns `true` if no provider may have this name.
pub(super) fn is_reserved(name: &ToolName) -> bool {
    let start = name.as_str().get(..PREFIX.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Makes the tool of this name; `None` if it is not the name of a server's.
pub(super) fn tool(name: &ToolName) -> Option<Tool> {
    let (parse, schema, part): (Parse, Schema, _) = match part_of(name)? {
        part @ ServerPart::Tool => (parse_call, schema_for!(wire::ServerCall), part),
        part @ ServerPart::List => (parse_list, schema_for!(wire::ServerTools), part),
    };
    let (text, aliases) = match part {
        // A rule about the input of jobs is about these calls too.
        ServerPart::Tool => ("Calls a tool of an MCP server.", vec!["job_input".parse().ok()?]),
        ServerPart::List => ("Accepts the changed tools of an MCP server.", Vec::new()),
    };
    let metadata = ToolMetadata {
        concurrency_safe: true,
        read_only: false,
        destructive: false,
        permission_class: PermissionClass::Generic,
        audit_operation: AuditOperation::Invoke,
        requires_checkpoint: part == ServerPart::List,
        requires_reverse_thinking: false,
        search_hint: String::new(),
    };
    let (name, description) = (name.clone(), text.to_owned());
    let schema = JsonText::render(&schema).ok()?;
    let spec = ToolSpec { name, aliases, description, schema, metadata };
    Some(Tool { spec, origin: ToolOrigin::BuiltIn(parse) })
}

/// Returns what a name stands for. The name of a server has no `_`.
fn part_of(name: &ToolName) -> Option<ServerPart> {
    let rest = name.as_str().strip_prefix(PREFIX)?;
    let (server, part) = match rest.split_once('_') {
        Some((_, "")) => return None,
        Some((server, _)) => (server, ServerPart::Tool),
        None => (rest, ServerPart::List),
    };
    (!server.is_empty()).then_some(part)
}

fn parse_call(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let arguments: Value = serde_json::from_str(call.arguments.as_str()).unwrap_or_default();
    if arguments.get("job").is_some() {
        return job_input::parse(tool, call);
    }
    let wire::ServerCall { arguments } = schema::parse(tool, call)?;
    Ok(Task::Errand(SessionTask::ServerCall(arguments)).into())
}

fn parse_list(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let tools: wire::ServerTools = schema::parse(tool, call)?;
    Ok(Task::Errand(SessionTask::ServerTools(tools)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::task::JobTask;
    use palisade_protocol::CallOptions;
    use serde_json::json;

    fn parse(name: &str, arguments: &Value) -> Result<Task, WireError> {
        let tool = tool(&name.parse().unwrap()).unwrap();
        let call = Call {
            tool: name.parse().unwrap(),
            arguments: JsonText::render(arguments).unwrap(),
            reason: None,
            options: CallOptions::default(),
        };
        tool.parse(&call).map(|parsed| parsed.task)
    }

    #[test]
    fn a_name_says_whether_it_is_a_tool_or_the_list() {
        let part = |name: &str| part_of(&name.parse().unwrap());
        assert_eq!(part("mcp_git_log"), Some(ServerPart::Tool));
        assert_eq!(part("mcp_git_log_all"), Some(ServerPart::Tool));
        assert_eq!(part("mcp_git"), Some(ServerPart::List));
        for name in ["mcp_", "mcp__x", "mcp_git_", "Mcp_git_log", "git", "mcp-git_log"] {
            assert_eq!(part(name), None, "{name}");
        }
        assert!(is_reserved(&"MCP_x".parse().unwrap()) && !is_reserved(&"mcp".parse().unwrap()));
    }

    #[test]
    fn a_call_is_the_input_of_a_job_or_carried_out_elsewhere() {
        let input = parse("mcp_git_log", &json!({"job": 3, "data": "x"})).unwrap();
        assert!(matches!(input, Task::Job(JobTask::Input { job: 3, .. })), "{input:?}");
        // An argument of the server's own tool may have any name.
        let elsewhere = parse("mcp_git_log", &json!({"arguments": {"job": 3}})).unwrap();
        let expected = json!({"job": 3}).as_object().unwrap().clone();
        assert_eq!(elsewhere, Task::Errand(SessionTask::ServerCall(expected)));
        for wrong in [json!({}), json!({"arguments": 1}), json!({"job": 3, "arguments": {}})] {
            assert!(parse("mcp_git_log", &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_list_always_needs_approval() {
        let needs =
            |name: &str| tool(&name.parse().unwrap()).unwrap().spec.metadata.requires_checkpoint;
        assert!(needs("mcp_git") && !needs("mcp_git_log"));
    }
}
