//! The tools that are offered: the built-in ones, known before any daemon is asked, and those of a
//! daemon that has been asked.

use crate::{servers, tool_name};
use palisade_client::{ModelTool, ToolHints, ToolSpec};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
};

/// The output of `palisade tools --format json` without providers. A test compares them.
const BUILT_IN: &str = include_str!("tools.json");

/// The name of the tool that reads what was left out of a result. It is this server's own.
pub(crate) const READ_OUTPUT: &str = "read_output";

/// The arguments that continue an earlier call: the usual one, and the one of a tool that has, or
/// may have, an argument of that name itself.
const TICKETS: [&str; 2] = ["ticket", "palisade_ticket"];

/// A tool that is offered.
#[derive(Debug)]
pub(crate) struct OfferedTool {
    pub(crate) model: ModelTool,
    /// The argument that continues an earlier call.
    pub(crate) ticket: &'static str,
    pub(crate) origin: ToolOrigin,
    aliases: Vec<String>,
}

/// The one who carries out the calls of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolOrigin {
    Daemon,
    /// A server of somebody else, which knows the tool by its own name.
    Server {
        server: String,
        tool: String,
    },
}

/// The tools that are offered.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// The names that `--tools` gives; none if all are offered.
    only: Vec<String>,
    tools: RwLock<Arc<Vec<Arc<OfferedTool>>>>,
    /// The tools of other servers, by the name of the server.
    servers: RwLock<BTreeMap<String, Vec<Arc<OfferedTool>>>>,
}

impl Catalog {
    /// Creates a catalog of the built-in tools, or of those that `only` names.
    pub(crate) fn new(only: &[String]) -> Self {
        let (tools, servers) = (RwLock::default(), RwLock::default());
        let catalog = Self { only: only.to_vec(), tools, servers };
        // A test reads the same text.
        let specs: Vec<ToolSpec> = serde_json::from_str(BUILT_IN).unwrap_or_default();
        let names: Vec<&str> = specs.iter().flat_map(names).collect();
        for name in only.iter().filter(|name| !names.contains(&name.as_str())) {
            eprintln!("note: --tools: {name} is not a built-in tool; a provider may have it");
        }
        catalog.replace(&specs);
        catalog
    }

    /// Replaces the tools by those that a daemon has.
    pub(crate) fn replace(&self, specs: &[ToolSpec]) {
        let offered = |spec: &&ToolSpec| {
            self.only.is_empty()
                || names(spec).any(|name| self.only.iter().any(|only| only == name))
        };
        let tools = specs.iter().filter(offered).map(|spec| {
            let aliases = spec.aliases.iter().map(|alias| alias.as_str().to_owned()).collect();
            Arc::new(with_ticket(ModelTool::from(spec), ToolOrigin::Daemon, aliases))
        });
        let tools = tools.chain([Arc::new(read_output())]).collect();
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
    }

    /// Replaces the tools of another server. No two of them have the same name.
    pub(crate) fn replace_server(&self, server: &str, tools: &[Value]) {
        let mut taken = BTreeSet::new();
        let tools = tools.iter().filter_map(|tool| servers::offered(server, tool));
        let tools = tools.filter_map(|(tool, mut model)| {
            if !taken.insert(model.name.clone()) {
                model.name = tool_name::told_apart(server, &tool);
                if !taken.insert(model.name.clone()) {
                    return None;
                }
            }
            Some((tool, model))
        });
        let is_offered = |(_, model): &(String, ModelTool)| {
            self.only.is_empty() || self.only.contains(&model.name)
        };
        let tools = tools.filter(is_offered).map(|(tool, model)| {
            let origin = ToolOrigin::Server { server: server.to_owned(), tool };
            Arc::new(with_ticket(model, origin, Vec::new()))
        });
        let mut servers = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        servers.insert(server.to_owned(), tools.collect());
    }

    fn tools(&self) -> Vec<Arc<OfferedTool>> {
        let own = Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner));
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        own.iter().chain(servers.values().flatten()).cloned().collect()
    }

    /// Finds a tool by name or alias.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<OfferedTool>> {
        let is_it = |tool: &&Arc<OfferedTool>| {
            tool.model.name == name || tool.aliases.iter().any(|alias| alias == name)
        };
        self.tools().iter().find(is_it).cloned()
    }

    /// Returns the names of all tools.
    pub(crate) fn names(&self) -> Vec<String> {
        self.tools().iter().map(|tool| tool.model.name.clone()).collect()
    }

    /// Returns the tools as the protocol lists them.
    pub(crate) fn list(&self) -> Vec<Tool> {
        self.tools().iter().map(|tool| listed(&tool.model)).collect()
    }
}

/// Adds the argument that continues an earlier call.
fn with_ticket(mut model: ModelTool, origin: ToolOrigin, aliases: Vec<String>) -> OfferedTool {
    let ticket = ticket_name(&model.schema);
    if let Some(properties) = model.schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(ticket.to_owned(), ticket_schema());
    }
    OfferedTool { model, ticket, origin, aliases }
}

fn names(spec: &ToolSpec) -> impl Iterator<Item = &str> {
    std::iter::once(spec.name.as_str()).chain(spec.aliases.iter().map(|alias| alias.as_str()))
}

fn listed(tool: &ModelTool) -> Tool {
    let ToolHints { read_only, destructive, idempotent, open_world } = tool.hints;
    let annotations = ToolAnnotations::with_title(tool.title.clone())
        .read_only(read_only)
        .destructive(destructive)
        .idempotent(idempotent)
        .open_world(open_world);
    let schema = tool.schema.as_object().cloned().unwrap_or_default();
    Tool::new(tool.name.clone(), tool.description.clone(), schema)
        .with_title(tool.title.clone())
        .with_annotations(annotations)
}

/// Returns the name for the argument that continues a call of a tool with this schema.
fn ticket_name(schema: &Value) -> &'static str {
    let [usual, own] = TICKETS;
    let is_closed = schema.get("additionalProperties") == Some(&json!(false));
    let has_it = schema.get("properties").is_some_and(|known| known.get(usual).is_some());
    if is_closed && !has_it { usual } else { own }
}

fn ticket_schema() -> Value {
    json!({
        "type": "string",
        "description": "Only to get the result of a call that was answered with a ticket: that \
                        ticket, beside the same arguments.",
    })
}

fn read_output() -> OfferedTool {
    let schema = json!({
        "type": "object",
        "properties": {
            "call_id": {"type": "string", "description": "The call, as its result names it."},
            "offset": {"type": "integer", "minimum": 0,
                "description": "The first byte to read. Default: 0."},
            "limit": {"type": "integer", "minimum": 1,
                "description": "How many bytes to read; as many as a result may have if absent."},
        },
        "required": ["call_id"],
        "additionalProperties": false,
    });
    let hints =
        ToolHints { read_only: true, destructive: false, idempotent: true, open_world: false };
    let model = ModelTool {
        name: READ_OUTPUT.to_owned(),
        title: "Read the rest of an output".to_owned(),
        description: "Reads what was left out of the result of an earlier call.".to_owned(),
        schema,
        hints,
    };
    OfferedTool { model, ticket: TICKETS[0], origin: ToolOrigin::Daemon, aliases: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_tools_are_known_before_a_daemon_is_asked() {
        let catalog = Catalog::new(&[]);
        let names = catalog.names();
        assert!(names.len() > 20, "{names:?}");
        assert_eq!(catalog.find("Bash").unwrap().model.name, "bash");
        assert_eq!(names.last().map(String::as_str), Some(READ_OUTPUT));
        for tool in catalog.list() {
            let text = serde_json::to_string(&tool).unwrap();
            // `format` may be the name of an argument, but no keyword.
            for refused in
                ["$ref", "$schema", "$defs", "\"format\":\"", "\"default\"", "oneOf", "null"]
            {
                assert!(!text.contains(refused), "{refused}: {text}");
            }
            assert!(tool.input_schema["properties"].is_object(), "{text}");
            assert!(!text.contains("\"type\":["), "{text}");
            let hints = tool.annotations.unwrap();
            let all = [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint];
            assert!(all.iter().all(Option::is_some) && hints.open_world_hint.is_some(), "{text}");
            assert!(tool.title.is_some_and(|title| !title.is_empty()), "{text}");
        }
    }

    #[test]
    fn a_tools_own_ticket_is_left_to_it() {
        let closed = json!({"type": "object", "properties": {}, "additionalProperties": false});
        assert_eq!(ticket_name(&closed), "ticket");
        let mut own = closed.clone();
        own["properties"]["ticket"] = json!({"type": "string"});
        let open = json!({"type": "object", "properties": {}});
        for schema in [own, open] {
            assert_eq!(ticket_name(&schema), "palisade_ticket", "{schema}");
        }
    }

    #[test]
    fn no_two_tools_of_a_server_have_one_name() {
        let catalog = Catalog::new(&[]);
        let long = "x".repeat(128);
        let tools = ["a.b", "a/b", "a_b", long.as_str()]
            .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
        catalog.replace_server("s", &tools);
        let names = catalog.names();
        let own: Vec<&String> = names.iter().filter(|name| name.starts_with("mcp_s_")).collect();
        assert_eq!((own.len(), own.iter().collect::<BTreeSet<_>>().len()), (4, 4), "{own:?}");
        assert!(own.iter().all(|name| name.len() <= 49), "{own:?}");
        for name in own {
            // Each leads to a tool of its own.
            let ToolOrigin::Server { tool, .. } = &catalog.find(name).unwrap().origin else {
                panic!("{name} is the daemon's");
            };
            let rule = tool_name::of_tool("s", tool);
            assert!(
                rule.starts_with(name.rsplit_once('-').map_or(name.as_str(), |(start, _)| start))
            );
        }
    }

    #[test]
    fn only_the_named_tools_are_offered() {
        let catalog = Catalog::new(&["Read".to_owned(), "grep".to_owned()]);
        assert_eq!(catalog.names(), ["grep", "read_file", READ_OUTPUT]);
        assert!(catalog.find("bash").is_none());
    }
}
