//! `palisade`: the command line. Runs as whoever types it, without privilege of its own.

mod analyze;
mod approve;
mod attempt;
mod audit;
mod call;
mod commands;
mod completions;
mod connect;
mod doctor;
mod duration;
mod exit;
mod failure;
mod interrupt;
mod jobs;
mod man;
mod operator;
mod options;
mod output;
mod paint;
mod print;
mod profile;
mod programs;
mod receipt;
mod run;
mod status;
mod stream;
mod tools;
mod visible;
mod why;

use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::parse(std::env::args_os()) {
        Ok(command) => ExitCode::from(commands::perform(command)),
        Err(status) => ExitCode::from(status),
    }
}
