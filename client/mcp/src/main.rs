//! `palisade-mcp`: a Model Context Protocol server on standard input and output, or over HTTP on this
//! host. Runs as the user whose agent starts it, without privilege of its own; `palisade mcp` starts
//! it too.

mod call;
mod catalog;
mod http;
mod lines;
mod listen;
mod pages;
mod render;
mod serve;
mod server;
mod sessions;
mod tickets;
mod transport;

use clap::Parser;
use palisade_options::McpOptions;
use std::process::ExitCode;

/// Serves the tools of Palisade over the Model Context Protocol, on standard input and output
#[derive(Debug, Parser)]
#[command(name = "palisade-mcp", version)]
struct Program {
    #[command(flatten)]
    options: McpOptions,
}

fn main() -> ExitCode {
    match serve::run(Program::parse().options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(125)
        }
    }
}
