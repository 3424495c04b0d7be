//! The servers of others whose tools this server offers beside the daemon's: the file that names them,
//! and their tools and calls.

use crate::wrap::{InnerServer, WrapError};
use palisade_client::{ModelTool, ToolHints};
use palisade_options::{Connection, ServerName};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{task::JoinSet, time::timeout};

/// The time that a server may take to list its tools before the list goes on without them.
const LISTING: Duration = Duration::from_secs(10);

/// The maximum size of the file, in bytes.
const MAX_FILE: u64 = 1 << 20;

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
    /// Starts the servers that a file names; none if there is no file and none was named.
    pub(crate) fn start(
        named: Option<&Path>,
        connection: &Connection,
        max_output: usize,
    ) -> Result<Self, ServersError> {
        let Some((path, text)) = read(named)? else { return Ok(Self::default()) };
        let invalid = |why: String| ServersError::Invalid { path: path.clone(), why };
        let file: ServersFile =
            toml::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        let mut servers = BTreeMap::new();
        for (name, table) in file.mcp.servers {
            let name = ServerName::parse(&name)
                .map_err(|why| invalid(format!("mcp.servers.{name:?}: {why}")))?;
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
    ) -> Result<Value, String> {
        match self.servers.get(server) {
            Some(server) => server.call(tool, arguments).await,
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

/// Converts a tool of a server to one that is offered. The server's hints are not believed.
pub(crate) fn offered(server: &str, tool: &Value) -> Option<(String, ModelTool)> {
    let text = |key: &str| tool.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("name")?;
    let mut schema = tool.get("inputSchema")?.clone();
    if let Value::Object(schema) = &mut schema {
        schema.entry("type").or_insert_with(|| "object".into());
        schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let shown: String = name.chars().map(plain).collect();
    let hints =
        ToolHints { read_only: false, destructive: true, idempotent: false, open_world: true };
    let model = ModelTool {
        name: format!("mcp_{server}_{shown}"),
        title: format!("{server}: {}", text("title").unwrap_or_else(|| name.clone())),
        description: text("description").unwrap_or_default(),
        schema,
        hints,
    };
    Some((name, model))
}

/// Reads the named file, or the usual one if it exists.
fn read(named: Option<&Path>) -> Result<Option<(PathBuf, String)>, ServersError> {
    let usual = usual_file();
    let Some(path) = named.map(Path::to_owned).or(usual) else { return Ok(None) };
    let failed = |source| ServersError::Read { path: path.clone(), source };
    let text = match fs::metadata(&path) {
        Ok(found) if found.len() > MAX_FILE => {
            let why = format!("it has more than {MAX_FILE} bytes");
            return Err(ServersError::Invalid { path, why });
        }
        Ok(_) => fs::read_to_string(&path).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    Ok(Some((path, text)))
}

/// Returns the file that is read if none is named.
fn usual_file() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/etc/palisade/mcp.toml"));
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
}
