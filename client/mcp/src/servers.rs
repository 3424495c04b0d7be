//! The servers of others whose tools this server offers beside the daemon's: the file that names them,
//! and their tools and calls.

use crate::{
    served_call::ServedCall,
    tool_name,
    wrap::{InnerServer, WrapError, printable},
};
use palisade_client::{ModelTool, ToolHints, plain_schema};
use palisade_options::{Connection, ServerName};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    env, fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{task::JoinSet, time::timeout};

/// The time that a server may take to list its tools before the list goes on without them.
const LISTING: Duration = Duration::from_secs(10);

/// The file of this host's servers.
const HOST_FILE: &str = "/etc/palisade/mcp.toml";

/// The maximum size of the file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The maximum length of a tool's title, in characters.
const MAX_TITLE: usize = 200;

/// The maximum length of a tool's description, in characters.
const MAX_DESCRIPTION: usize = 16_000;

/// The reason the servers can not be offered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServersError {
    #[error("can not read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {why}", path.display())]
    Invalid { path: PathBuf, why: String },
    #[error("MCP server {name}: {source}")]
    Server { name: String, source: WrapError },
}

/// The file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServersFile {
    mcp: ServerTables,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerTables {
    servers: BTreeMap<String, ServerTable>,
}

/// One server, as the file describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerTable {
    /// The server's program.
    pub(crate) command: String,
    /// The program's arguments.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Variables of the program's environment.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// The profile of the server's session.
    #[serde(default = "default_profile")]
    pub(crate) profile: String,
    /// The directory that the server sees; an empty one of its own if absent.
    pub(crate) workspace: Option<PathBuf>,
    /// The tools that are offered; all if absent.
    pub(crate) tools: Option<Vec<String>>,
    /// The time that a request may take, in seconds.
    #[serde(default = "default_timeout")]
    pub(crate) timeout: u64,
}

fn default_profile() -> String {
    "readonly".to_owned()
}

const fn default_timeout() -> u64 {
    120
}

/// The servers that run, by name.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    servers: BTreeMap<String, Arc<InnerServer>>,
}

impl Servers {
    /// Starts the servers of a file; if none is named, those of this host and of the user.
    pub(crate) fn start(
        named: Option<&Path>,
        connection: &Connection,
        max_output: usize,
    ) -> Result<Self, ServersError> {
        let files = match named {
            Some(path) => vec![read(path)?.ok_or_else(|| missing(path))?],
            None => usual_files(Path::new(HOST_FILE), own_file().as_deref())?,
        };
        let mut servers = BTreeMap::new();
        for (name, table) in tables(files)? {
            let started = InnerServer::start(&name, table, connection, max_output);
            let name = name.as_str().to_owned();
            match started {
                Ok(server) => servers.insert(name, Arc::new(server)),
                Err(source) => return Err(ServersError::Server { name, source }),
            };
        }
        Ok(Self { servers })
    }

    /// Returns the tools of each server that lists them in time.
    pub(crate) async fn tools(&self) -> Vec<(String, Vec<Value>)> {
        let mut tasks = JoinSet::new();
        for (name, server) in &self.servers {
            let (name, server) = (name.clone(), Arc::clone(server));
            tasks.spawn(async move { (name, timeout(LISTING, server.tools()).await) });
        }
        let mut listed = Vec::new();
        while let Some(done) = tasks.join_next().await {
            match done {
                Ok((name, Ok(Ok(tools)))) => listed.push((name, tools)),
                Ok((name, Ok(Err(why)))) => eprintln!("warning: MCP server {name}: {why}"),
                Ok((name, Err(_))) => {
                    eprintln!("warning: MCP server {name} did not list its tools in {LISTING:?}");
                }
                Err(error) => eprintln!("warning: a list of tools was not read: {error}"),
            }
        }
        listed
    }

    /// Calls a tool of a server; the error is for the model.
    pub(crate) async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        served: ServedCall,
    ) -> Result<Value, String> {
        match self.servers.get(server) {
            Some(server) => server.call(tool, arguments, served).await,
            None => Err(format!("there is no MCP server {server}")),
        }
    }

    /// Ends all servers, and waits until their processes are gone.
    pub(crate) async fn close(&self) {
        for server in self.servers.values() {
            server.close().await;
        }
    }
}

/// Converts a tool of a server to one that is offered. The server's hints are not believed, and its
/// schema is one that the APIs of models accept: one that they refuse would cost the agent all its tools.
pub(crate) fn offered(server: &str, tool: &Value) -> Option<(String, ModelTool)> {
    let text = |key: &str| tool.get(key).and_then(Value::as_str);
    let name = text("name")?.to_owned();
    let mut schema = plain_schema(tool.get("inputSchema")?);
    make_visible(&mut schema);
    let hints =
        ToolHints { read_only: false, destructive: true, idempotent: false, open_world: true };
    let model = ModelTool {
        name: tool_name::offered(server, &name),
        title: format!("{server}: {}", printable(text("title").unwrap_or(&name), MAX_TITLE)),
        description: printable(text("description").unwrap_or_default(), MAX_DESCRIPTION),
        schema,
        hints,
    };
    Some((name, model))
}

/// Replaces what a person would not see in the descriptions of a schema.
fn make_visible(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "description"
                    && let Value::String(text) = value
                {
                    *text = printable(text, usize::MAX);
                } else {
                    make_visible(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(make_visible),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Parses files of servers. Each name stands for one server.
fn tables(files: Vec<(PathBuf, String)>) -> Result<Vec<(ServerName, ServerTable)>, ServersError> {
    let (mut tables, mut names) = (Vec::new(), BTreeMap::new());
    for (path, text) in files {
        let invalid = |why: String| ServersError::Invalid { path: path.clone(), why };
        let file: ServersFile =
            toml::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        for (name, table) in file.mcp.servers {
            let parsed = ServerName::parse(&name)
                .map_err(|why| invalid(format!("mcp.servers.{name:?}: {why}")))?;
            if let Some(other) = names.insert(name.clone(), path.clone()) {
                let why = format!("mcp.servers.{name} is in {} too", other.display());
                return Err(invalid(format!("{why}; choose another name")));
            }
            tables.push((parsed, table));
        }
    }
    Ok(tables)
}

/// Reads the files that are read if none is named: that of this host, which only root may change, and
/// the user's own.
fn usual_files(host: &Path, own: Option<&Path>) -> Result<Vec<(PathBuf, String)>, ServersError> {
    let mut files = Vec::new();
    if let Some(file) = read(host)? {
        let found = fs::metadata(host)
            .map_err(|source| ServersError::Read { path: host.to_owned(), source })?;
        if found.uid() != 0 || found.mode() & 0o022 != 0 {
            let why = "it starts programs for every user, and others than root may change it; make \
                       it root's, with mode 0644";
            return Err(ServersError::Invalid { path: host.to_owned(), why: why.to_owned() });
        }
        files.push(file);
    }
    let own = own.filter(|own| *own != host).map(read).transpose()?;
    files.extend(own.flatten());
    Ok(files)
}

/// Reads a file of servers; `None` if there is none.
fn read(path: &Path) -> Result<Option<(PathBuf, String)>, ServersError> {
    let failed = |source| ServersError::Read { path: path.to_owned(), source };
    let text = match fs::metadata(path) {
        Ok(found) if found.len() > MAX_FILE => {
            let why = format!("it has more than {MAX_FILE} bytes");
            return Err(ServersError::Invalid { path: path.to_owned(), why });
        }
        Ok(_) => fs::read_to_string(path).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    Ok(Some((path.to_owned(), text)))
}

fn missing(path: &Path) -> ServersError {
    ServersError::Read { path: path.to_owned(), source: io::ErrorKind::NotFound.into() }
}

/// Returns the user's own file.
fn own_file() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from(HOST_FILE));
    }
    let absolute = |variable| {
        env::var_os(variable).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
    };
    let configuration = absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(configuration.join("palisade/mcp.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_tool_has_its_server_in_its_name_and_no_harmless_hints() {
        let tool = json!({"name": "notes/read.all", "description": "d", "inputSchema": {},
            "annotations": {"readOnlyHint": true}});
        let (name, model) = offered("notes", &tool).unwrap();
        assert_eq!(
            (name.as_str(), model.name.as_str()),
            ("notes/read.all", "mcp_notes_notes_read_all")
        );
        assert!(model.hints.destructive && !model.hints.read_only && model.hints.open_world);
        assert_eq!(model.schema, json!({"type": "object", "properties": {}}));
    }

    #[test]
    fn a_servers_schema_is_one_that_every_api_accepts() {
        let schema = json!({"$schema": "x", "type": ["object", "null"], "x-own": 1, "properties": {
            "url": {"type": "string", "format": "uri", "pattern": "(", "minimum": "low",
                "description": "a\u{1b}[2J\u{202e}b\u{e0041}\u{200b}c"},
            "how": {"$ref": "#/$defs/How"}, "a b": {}}, "required": ["url", "a b"],
            "additionalProperties": false, "oneOf": [{"required": ["url"]}, {"required": ["how"]}],
            "$defs": {"How": {"anyOf": [{"const": "fast"}, {"const": "slow"}]}}});
        let tool = json!({"name": "get", "description": "d\u{1b}[2J\nd", "title": "t\u{202e}",
            "inputSchema": schema});
        let (_, model) = offered("net", &tool).unwrap();
        let replaced = '\u{fffd}';
        assert_eq!(model.description, format!("d{replaced}[2J\nd"));
        assert_eq!(model.title, format!("net: t{replaced}"));
        let description = format!("a{replaced}[2J{replaced}b{replaced}{replaced}c Pattern: `(`.");
        let expected = json!({"type": "object", "required": ["url"], "properties": {
            "url": {"type": "string", "description": description},
            "how": {"type": "string", "enum": ["fast", "slow"]}}});
        assert_eq!(model.schema, expected);
    }

    #[test]
    fn a_file_says_what_is_wrong_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mcp.toml");
        let start = |text: &str| {
            fs::write(&path, text).unwrap();
            Servers::start(Some(&path), &Connection::default(), 30_000).unwrap_err().to_string()
        };
        for (text, told) in [
            ("[mcp.servers.a]\n", "command"),
            ("[mcp.servers.a]\ncommand = \"x\"\nnetwork = true\n", "network"),
            ("[mcp.servers.a_b]\ncommand = \"x\"\n", "letters, digits and `-`"),
            ("nonsense", "mcp.toml"),
        ] {
            let found = start(text);
            assert!(found.contains(told), "{text}: {found}");
        }
        let missing = directory.path().join("missing.toml");
        let error = Servers::start(Some(&missing), &Connection::default(), 30_000).unwrap_err();
        assert!(error.to_string().contains("missing.toml"), "{error}");
    }
    #[test]
    fn the_hosts_servers_come_first_and_have_their_names_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (host, own) = (directory.path().join("host.toml"), directory.path().join("own.toml"));
        let table = |name: &str| format!("[mcp.servers.{name}]\ncommand = \"x\"\n");
        fs::write(&own, table("a")).unwrap();
        let names = |host: &Path| {
            tables(usual_files(host, Some(&own))?).map(|tables| {
                tables.iter().map(|(name, _)| name.as_str().to_owned()).collect::<Vec<_>>()
            })
        };
        assert_eq!(names(&host).unwrap(), ["a"]);
        fs::write(&host, table("b")).unwrap();
        fs::set_permissions(&host, fs::Permissions::from_mode(0o666)).unwrap();
        let refused = names(&host).unwrap_err().to_string();
        assert!(refused.contains("others than root may change it"), "{refused}");
        fs::set_permissions(&host, fs::Permissions::from_mode(0o644)).unwrap();
        if rustix::process::geteuid().is_root() {
            assert_eq!(names(&host).unwrap(), ["b", "a"]);
            fs::write(&host, table("a")).unwrap();
            let refused = names(&host).unwrap_err().to_string();
            assert!(refused.contains("choose another name"), "{refused}");
        } else {
            assert!(names(&host).is_err(), "it is not root's");
        }
    }
}
