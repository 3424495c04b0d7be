//! The agents, and what each needs to use Palisade instead of its own tools.

use super::settings::Setting;
use crate::failure::Failure;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::{env, fmt, path::PathBuf};

/// An agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Agent {
    /// Claude Code
    Claude,
    /// OpenAI Codex
    Codex,
    /// Cursor
    Cursor,
    /// Gemini CLI
    Gemini,
    /// Visual Studio Code with GitHub Copilot
    Vscode,
    /// goose
    Goose,
    /// opencode
    Opencode,
}

/// The command that starts the server.
#[derive(Debug)]
pub(super) struct ServerCommand {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) workspace: PathBuf,
}

impl ServerCommand {
    /// Returns the server as most agents describe one.
    fn entry(&self) -> Value {
        json!({"command": self.program, "args": self.arguments})
    }

    /// Returns the program and its arguments in one list.
    pub(super) fn words(&self) -> Vec<&str> {
        std::iter::once(&self.program).chain(&self.arguments).map(String::as_str).collect()
    }
}

/// The source of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It was tried with this version.
    Tried(&'static str),
    Documentation,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tried(version) => write!(f, "tried with version {version}"),
            Self::Documentation => f.write_str("from its documentation; not tried"),
        }
    }
}

/// A configuration file.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) format: Format,
}

/// The format of a file, and what it has to say.
#[derive(Debug)]
pub(super) enum Format {
    /// JSON, possibly with comments.
    Json(Vec<Setting>),
    Toml(Vec<Setting>),
    /// Text that can be added at the end of a YAML file that does not have this key yet.
    Block {
        key: &'static str,
        text: String,
    },
    /// A file that has exactly this text.
    Whole(String),
}

/// The configuration of an agent.
#[derive(Debug)]
pub(super) struct AgentSetup {
    pub(super) title: &'static str,
    pub(super) evidence: Evidence,
    pub(super) files: Vec<ConfigFile>,
    /// The command that starts the agent.
    pub(super) start: &'static str,
    /// The agent's own list of its servers, if it has one, and where to ask for it.
    pub(super) listing: Option<(&'static str, &'static [&'static str])>,
    pub(super) directory: PathBuf,
    /// The parts of the agent that still reach the host unconfined.
    pub(super) gaps: &'static [&'static str],
}

/// The built-in tools of Claude Code that reach files, programs or the network.
const CLAUDE_TOOLS: [&str; 18] = [
    "Agent",
    "Bash",
    "BashOutput",
    "Edit",
    "Glob",
    "Grep",
    "KillShell",
    "LSP",
    "Monitor",
    "NotebookEdit",
    "Read",
    "ScheduleWakeup",
    "Skill",
    "Task",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
];

/// The built-in tools of opencode, by the names of their permissions.
const OPENCODE_TOOLS: [&str; 11] = [
    "bash",
    "edit",
    "external_directory",
    "glob",
    "grep",
    "list",
    "lsp",
    "read",
    "skill",
    "task",
    "webfetch",
];

impl Agent {
    /// Returns the agent's configuration for a server.
    pub(super) fn setup(self, server: &ServerCommand) -> Result<AgentSetup, Failure> {
        match self {
            Self::Claude => Ok(claude(server)),
            Self::Codex => codex(server),
            Self::Cursor => Ok(cursor(server)),
            Self::Gemini => gemini(server),
            Self::Vscode => Ok(vscode(server)),
            Self::Goose => goose(server),
            Self::Opencode => Ok(opencode(server)),
        }
    }
}

fn claude(server: &ServerCommand) -> AgentSetup {
    let settings = vec![
        Setting::including(&["permissions", "deny"], &CLAUDE_TOOLS),
        Setting::including(&["permissions", "allow"], &["mcp__palisade"]),
        Setting::including(&["enabledMcpjsonServers"], &["palisade"]),
    ];
    AgentSetup {
        title: "Claude Code",
        evidence: Evidence::Tried("2.1.325"),
        files: vec![servers(server, ".mcp.json"), json(server, ".claude/settings.json", settings)],
        start: "claude --tools \"\" --strict-mcp-config --mcp-config .mcp.json --allowedTools mcp__palisade",
        listing: Some(("claude", &["mcp", "list"])),
        directory: server.workspace.clone(),
        gaps: &[
            "hooks, the status line and plugins, which Claude Code runs itself",
            "without --tools \"\", built-in tools that a later version adds",
            "without --strict-mcp-config, servers that are configured elsewhere",
        ],
    }
}

fn codex(server: &ServerCommand) -> Result<AgentSetup, Failure> {
    let palisade = |key, value: Value| Setting::exactly(&["mcp_servers", "palisade", key], value);
    let settings = vec![
        Setting::exactly(&["sandbox_mode"], "read-only"),
        Setting::exactly(&["web_search"], "disabled"),
        Setting::exactly(&["features", "shell_tool"], false),
        Setting::exactly(&["features", "unified_exec"], false),
        Setting::exactly(&["features", "view_image"], false),
        Setting::exactly(&["features", "multi_agent"], false),
        palisade("command", json!(server.program)),
        palisade("args", json!(server.arguments)),
        palisade("required", json!(true)),
        palisade("default_tools_approval_mode", json!("approve")),
        palisade("tool_timeout_sec", json!(300)),
    ];
    let path = directory("CODEX_HOME", ".codex")?.join("config.toml");
    Ok(AgentSetup {
        title: "Codex",
        evidence: Evidence::Tried("0.166.0"),
        files: vec![ConfigFile { path, format: Format::Toml(settings) }],
        start: "codex",
        listing: Some(("codex", &["mcp", "list"])),
        directory: server.workspace.clone(),
        gaps: &[
            "apply_patch, where the model has it: Codex runs it itself, in its read-only sandbox, and \
             asks before it writes",
            "hooks, notify programs and servers that are configured elsewhere",
        ],
    })
}

fn cursor(server: &ServerCommand) -> AgentSetup {
    let permissions = vec![
        Setting::including(&["permissions", "deny"], &["Shell(*)", "Read(**)", "Write(**)"]),
        Setting::including(&["permissions", "allow"], &["Mcp(palisade:*)"]),
    ];
    AgentSetup {
        title: "Cursor",
        evidence: Evidence::Documentation,
        files: vec![
            servers(server, ".cursor/mcp.json"),
            json(server, ".cursor/cli.json", permissions),
        ],
        start: "cursor-agent",
        listing: Some(("cursor-agent", &["mcp", "list"])),
        directory: server.workspace.clone(),
        gaps: &[
            "the editor: the permissions are those of cursor-agent. Its own terminal and file \
             tools are switched off only by a custom mode",
        ],
    }
}

fn gemini(server: &ServerCommand) -> Result<AgentSetup, Failure> {
    let mut entry = server.entry();
    entry["trust"] = json!(true);
    let settings = vec![
        Setting::exactly(&["mcpServers", "palisade"], entry),
        Setting::exactly(&["tools", "core"], json!(["mcp_palisade_*"])),
    ];
    // In a folder that is not trusted, the workspace's own file would be ignored.
    let path = home(".gemini")?.join("settings.json");
    Ok(AgentSetup {
        title: "Gemini CLI",
        evidence: Evidence::Tried("0.61.0"),
        files: vec![ConfigFile { path, format: Format::Json(settings) }],
        start: "gemini   and trust the folder; before that it starts no server",
        listing: Some(("gemini", &["mcp", "list"])),
        directory: server.workspace.clone(),
        gaps: &["lines that you begin with ! yourself, hooks and extensions"],
    })
}

fn vscode(server: &ServerCommand) -> AgentSetup {
    let mut entry = server.entry();
    entry["type"] = json!("stdio");
    let agent = "---\nname: palisade\ndescription: Works in a sandbox, through Palisade.\n\
                 tools: ['palisade/*']\n---\nUse the tools of Palisade for commands and files.\n";
    let path = server.workspace.join(".github/agents/palisade.agent.md");
    AgentSetup {
        title: "Visual Studio Code",
        evidence: Evidence::Documentation,
        files: vec![
            json(
                server,
                ".vscode/mcp.json",
                vec![Setting::exactly(&["servers", "palisade"], entry)],
            ),
            ConfigFile { path, format: Format::Whole(agent.to_owned()) },
        ],
        start: "code .   and choose the agent `palisade` in the chat",
        listing: None,
        directory: server.workspace.clone(),
        gaps: &[
            "every other agent of the chat: only `palisade` is without the built-in tools",
            "tasks, extensions and the terminal, which Visual Studio Code runs itself",
        ],
    }
}

fn goose(server: &ServerCommand) -> Result<AgentSetup, Failure> {
    let quoted: Vec<String> = server.arguments.iter().map(|text| json!(text).to_string()).collect();
    let text = format!(
        "extensions:\n  palisade:\n    enabled: true\n    type: stdio\n    name: palisade\n    \
         cmd: {}\n    args: [{}]\n    timeout: 300\n  developer:\n    enabled: false\n    type: \
         builtin\n    name: developer\n",
        json!(server.program),
        quoted.join(", "),
    );
    let path = directory("XDG_CONFIG_HOME", ".config")?.join("goose/config.yaml");
    Ok(AgentSetup {
        title: "goose",
        evidence: Evidence::Documentation,
        files: vec![ConfigFile { path, format: Format::Block { key: "extensions", text } }],
        start: "goose session",
        listing: None,
        directory: server.workspace.clone(),
        gaps: &[
            "other extensions that are enabled: each runs with your rights",
            "the extension manager, with which a model can enable an extension",
        ],
    })
}

fn opencode(server: &ServerCommand) -> AgentSetup {
    let entry = json!({"type": "local", "command": server.words(), "enabled": true});
    let mut settings = vec![
        Setting::exactly(&["mcp", "palisade"], entry),
        Setting::exactly(&["permission", "*"], "deny"),
    ];
    settings.extend(OPENCODE_TOOLS.map(|tool| Setting::exactly(&["permission", tool], "deny")));
    settings.push(Setting::exactly(&["permission", "palisade_*"], "allow"));
    let commented = server.workspace.join("opencode.jsonc");
    let name = if commented.exists() { "opencode.jsonc" } else { "opencode.json" };
    AgentSetup {
        title: "opencode",
        evidence: Evidence::Tried("1.18.33"),
        files: vec![json(server, name, settings)],
        start: "opencode",
        listing: Some(("opencode", &["mcp", "list"])),
        directory: server.workspace.clone(),
        gaps: &["lines that you begin with ! yourself, plugins and formatters"],
    }
}

/// Returns a file of the workspace that has JSON settings.
fn json(server: &ServerCommand, name: &str, settings: Vec<Setting>) -> ConfigFile {
    ConfigFile { path: server.workspace.join(name), format: Format::Json(settings) }
}

/// Returns a file of the workspace that lists servers as most agents do.
fn servers(server: &ServerCommand, name: &str) -> ConfigFile {
    json(server, name, vec![Setting::exactly(&["mcpServers", "palisade"], server.entry())])
}

/// Returns the directory that a variable names, or the one in the user's home.
fn directory(variable: &str, usual: &str) -> Result<PathBuf, Failure> {
    absolute(variable).map_or_else(|| home(usual), Ok)
}

/// Returns a directory in the user's home.
fn home(name: &str) -> Result<PathBuf, Failure> {
    let home = absolute("HOME");
    home.map(|home| home.join(name))
        .ok_or_else(|| Failure::new("there is no home directory", "set $HOME"))
}

fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
