//! The options of the MCP server.

use crate::{ListenAddress, SessionTerms, duration};
use clap::Args;
use std::{path::PathBuf, time::Duration};

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
    /// Serve over HTTP instead, at a loopback address and port (127.0.0.1:3000) or the path of a Unix socket
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<ListenAddress>,
    /// A file with the token that clients of --listen have to show; needed except on a Unix socket
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub token_file: Option<PathBuf>,
}
