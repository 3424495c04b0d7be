//! The command line of the program.

use crate::{serve, wrap};
use clap::Parser;
use palisade_options::{McpOptions, McpSubcommand};
use std::process::ExitCode;

/// Serves the tools of Palisade over the Model Context Protocol, on standard input and output
#[derive(Debug, Parser)]
#[command(name = "palisade-mcp", version)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Program {
    #[command(subcommand)]
    subcommand: Option<McpSubcommand>,
    #[command(flatten)]
    options: McpOptions,
}

/// Runs the program and returns its exit status.
pub(crate) fn run() -> ExitCode {
    let Program { subcommand, options } = Program::parse();
    let ended = match subcommand {
        None => serve::run(options).map_err(|error| error.to_string()),
        Some(McpSubcommand::Wrap(wrap)) => wrap::run(&wrap).map_err(|error| error.to_string()),
    };
    ended.map_or_else(
        |error| {
            eprintln!("error: {error}");
            ExitCode::from(125)
        },
        |()| ExitCode::SUCCESS,
    )
}
