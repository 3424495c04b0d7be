//! `palisade`: the command line. Runs as the user who types it, without privilege of its own.

mod analyze;
mod approve;
mod attempt;
mod audit;
mod call;
mod commands;
mod completions;
mod disconnect;
mod doctor;
mod exit;
mod failure;
mod jobs;
mod linger;
mod man;
mod mcp;
mod net;
mod operator;
mod options;
mod output;
mod paint;
mod print;
mod profile;
mod programs;
mod receipt;
mod run;
mod setup;
mod shell;
mod status;
mod stream;
mod tools;
mod visible;
mod why;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(commands::run_line(std::env::args_os()))
}
