//! The options of `palisade mcp wrap`.

use crate::{AskMode, Connection, SessionTerms, duration};
use clap::{Args, Subcommand};
use std::{path::PathBuf, time::Duration};

/// The longest name of a wrapped server, in bytes.
const MAX_NAME: usize = 64;

/// The subcommands of `palisade mcp`.
#[derive(Debug, Subcommand)]
pub enum McpSubcommand {
    /// Run a server of the Model Context Protocol confined, between an agent and its tools
    Wrap(Box<WrapOptions>),
}

/// The options of `palisade mcp wrap`, which are those of `palisade-mcp wrap` too.
#[derive(Debug, Args)]
#[command(after_help = "\
In an agent's configuration, put `palisade mcp wrap --` in front of the command of any server that
speaks on standard input and output. The server runs as a job in a session of its own.

By default it has profile readonly: no network, nothing of the user's home but toolchains, and a
directory of its own instead of a workspace. So install the server first, or name a profile with
the paths and hosts that it needs (docs/agents.md).

The server's list of tools, its instructions and the name that it gives itself are recorded at the
first start. If they change, an approver is asked, and every call is refused until they are
approved, or accepted with --accept-tools. Rules of the profile name its tools as mcp_NAME_TOOL. The
server's hints that a tool is harmless are replaced. Its requests to the agent (sampling,
elicitation, roots) are refused.

What the server changed in a writable workspace is committed after each call of a tool. If that is
denied, its changes are discarded and the server is started anew at the next call. So is a server
that ends, does not answer within --timeout, or sends too much.

Exit status: 0 at the end of input or after a signal; 2 invalid command line; 125 Palisade failed.

Examples:
  palisade mcp wrap --workspace ~/src/project -- mcp-server-git
  palisade mcp wrap --name notes --profile notes -- node /opt/notes/server.js
  palisade mcp wrap --name notes --profile notes --accept-tools -- node /opt/notes/server.js")]
pub struct WrapOptions {
    /// The options that select a daemon.
    #[command(flatten)]
    pub connection: Connection,
    /// The profile of the server's session
    #[arg(long, value_name = "NAME", default_value = "readonly")]
    pub profile: String,
    /// The directory that the server may see, and change if the profile says so [default: an empty
    /// directory of its own]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// When to ask for approval; can only be stricter than the profile. With sensitive, every message
    /// to the server needs approval
    #[arg(long, value_name = "MODE")]
    pub ask: Option<AskMode>,
    /// A host to which the server may connect by name, as for `palisade run`; may be given several times
    #[arg(long, value_name = "NAME")]
    pub allow_domain: Vec<String>,
    /// The server's name, under which its list of tools is recorded [default: made from the command]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<String>,
    /// The file that records the accepted list of tools [default:
    /// $XDG_STATE_HOME/palisade-mcp/NAME/tools.json]
    #[arg(long, value_name = "FILE")]
    pub pin: Option<PathBuf>,
    /// Show how the server's list of tools differs from the recorded one, record it, and exit; asks first
    /// at a terminal
    #[arg(long)]
    pub accept_tools: bool,
    /// How long a request to the server may take
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration::parse)]
    pub timeout: Duration,
    /// The maximum length of a result's text, in characters
    #[arg(long, value_name = "CHARACTERS", default_value_t = 30_000,
          value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    pub max_output: u32,
    /// The server's program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<String>,
}

impl WrapOptions {
    /// Returns the terms of the server's session in this workspace.
    #[must_use]
    pub fn terms(&self, workspace: PathBuf) -> SessionTerms {
        SessionTerms {
            connection: self.connection.clone(),
            profile: Some(self.profile.clone()),
            workspace,
            ask: self.ask,
            guard: None,
            allow_domain: self.allow_domain.clone(),
        }
    }
}

/// Parses the name of a server. It becomes the name of a directory.
fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if text.is_empty() || text.len() > MAX_NAME || text.starts_with(['.', '-']) {
        return Err(format!(
            "a name has 1 to {MAX_NAME} characters and begins with a letter or a digit"
        ));
    }
    if !text.chars().all(is_plain) {
        return Err("a name has only letters, digits, `.`, `_` and `-`".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_name_of_one_directory() {
        for name in ["git", "server-filesystem", "a.b_c-1"] {
            assert_eq!(parse_name(name).as_deref(), Ok(name));
        }
        for name in ["", ".", "..", ".x", "-x", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert!(parse_name(name).is_err(), "{name}");
        }
    }
}
