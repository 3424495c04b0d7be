//! The options of the MCP server.

use crate::{ListenAddress, SessionTerms, duration};
use clap::Args;
use std::{path::PathBuf, time::Duration};

/// The longest name of a server in the file of servers, in bytes.
const MAX_SERVER_NAME: usize = 32;

/// The name of a server whose tools are offered as `mcp_NAME_TOOL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerName(String);

impl ServerName {
    /// Parses a name. It has no `_`, so that the name of a tool says which server it belongs to.
    ///
    /// # Errors
    /// Says what a name may have.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_plain || text.starts_with('-') || !(1..=MAX_SERVER_NAME).contains(&text.len()) {
            return Err(format!(
                "a name has 1 to {MAX_SERVER_NAME} letters, digits and `-`, and begins with a \
                 letter or a digit"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The options of `palisade mcp`, which are those of the program `palisade-mcp` too.
#[derive(Debug, Args)]
pub struct McpOptions {
    /// The session that calls are made in.
    #[command(flatten)]
    pub terms: SessionTerms,
    /// Offer only these tools, by name or alias; separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub tools: Vec<String>,
    /// The maximum length of a result's text, in characters
    #[arg(long, value_name = "CHARACTERS", default_value_t = 30_000,
          value_parser = clap::value_parser!(u32).range(1000..=1_000_000))]
    pub max_output: u32,
    /// How long a call may take before it is answered with a ticket: 500ms, 30s, 2m
    #[arg(long, value_name = "TIME", default_value = "50s", value_parser = duration::parse)]
    pub wait: Duration,
    /// A file that names servers of others, whose tools are offered too [default:
    /// /etc/palisade/mcp.toml and mcp.toml in the user's configuration directory, if they exist]
    #[arg(long, value_name = "FILE")]
    pub servers: Option<PathBuf>,
    /// Ask the person who uses the agent for approval, in the agent's own client (elicitation). Only where
    /// the profile has `handlers.agent_client`, and nothing can be lost
    #[arg(long)]
    pub elicit: bool,
    /// Show the person who uses the agent this address while a call waits for approval, in a client that
    /// can (elicitation, url mode). It is where the approvers answer; the client's answer decides nothing
    #[arg(long, value_name = "URL", value_parser = web_address)]
    pub approve_at: Option<String>,
    /// Serve over HTTP instead, at a loopback address and port (127.0.0.1:3000) or the path of a Unix socket
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<ListenAddress>,
    /// A file with the token that clients of --listen have to show; needed except on a Unix socket
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub token_file: Option<PathBuf>,
}

/// Parses the address of a page.
fn web_address(text: &str) -> Result<String, String> {
    let is_page = ["https://", "http://"].iter().any(|scheme| {
        text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
    });
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    match is_page && is_plain {
        true => Ok(text.to_owned()),
        false => Err("not an address that begins with https:// or http://".to_owned()),
    }
}
