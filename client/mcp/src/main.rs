//! `palisade-mcp`: a Model Context Protocol server on standard input and output, or over HTTP on this
//! host; with `wrap`, a relay to a server that runs confined. Runs as the user whose agent starts it,
//! without privilege of its own; `palisade mcp` starts it too.

mod activity;
mod call;
mod catalog;
mod claims;
mod elicit;
mod explain;
mod http;
mod lines;
mod listen;
mod pages;
mod program;
mod render;
mod serve;
mod served_call;
mod server;
mod servers;
mod sessions;
mod tickets;
mod tool_name;
mod transport;
mod wrap;

use std::process::ExitCode;

fn main() -> ExitCode {
    program::run()
}
