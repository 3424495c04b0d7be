//! `palisade mcp`: becomes the program that serves the Model Context Protocol.

use crate::{failure::Failure, programs};
use clap::Args;
use palisade_options::{McpOptions, McpSubcommand};
use std::ffi::OsString;

/// Serve the tools over the Model Context Protocol, on standard input and output or over HTTP
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "\
For agents that speak the Model Context Protocol: name this command as a server in their
configuration. Switch off the agent's own shell and file tools, which are not confined
(docs/agents.md). The session is opened at the first call. It ends, with everything that runs in it,
at the end of standard input.

A call that takes longer than --wait, or waits for approval, is answered with a ticket. The same
call with that ticket returns its result. A result has at most --max-output characters; the tool
read_output reads the rest.

With --listen the server speaks HTTP on this host until it gets a signal, at any path. Each client
has a session of its own. On a loopback address they have to show the token of --token-file, as
`Authorization: Bearer TOKEN`. A Unix socket is made for this user only.

`palisade mcp wrap -- COMMAND` runs another server confined, and passes its tools on to the agent.
With [mcp.servers.NAME] in the file of --servers, this server does the same for several, and offers
their tools as mcp_NAME_TOOL.

Without a running daemon, a private daemon is started. No approver can reach that one, so what needs
approval is denied.

Exit status: 0 at the end of input or after a signal; 2 invalid command line; 125 Palisade failed.

Examples:
  palisade mcp --workspace ~/src/project
  palisade mcp --profile readonly --tools read_file,grep,glob
  palisade mcp --listen 127.0.0.1:8137 --token-file ~/.config/palisade/token
  claude mcp add palisade -- palisade mcp --workspace \"$PWD\""
)]
pub(crate) struct Mcp {
    /// Checked here, like the options; the program reads them itself.
    #[command(subcommand)]
    _subcommand: Option<McpSubcommand>,
    #[command(flatten)]
    _options: McpOptions,
}

impl Mcp {
    /// Becomes the server. Returns only if that fails.
    pub(crate) fn perform(self) -> Result<u8, Failure> {
        let words: Vec<OsString> = std::env::args_os().skip(2).collect();
        Err(programs::exec_companion("palisade-mcp", &words))
    }
}
