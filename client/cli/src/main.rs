//! `palisade`: the command line. Runs as whoever types it, without privilege of its own.

mod analyze;
mod answer;
mod approve;
mod audit;
mod call;
mod commands;
mod completions;
mod connect;
mod doctor;
mod duration;
mod exit;
mod failure;
mod grants;
mod interrupt;
mod man;
mod operator;
mod options;
mod output;
mod paint;
mod pending;
mod print;
mod profile;
mod programs;
mod receipt;
mod run;
mod status;
mod stream;
mod tools;
mod visible;

use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::parse(std::env::args_os()) {
        Ok(command) => ExitCode::from(commands::perform(command)),
        Err(status) => ExitCode::from(status),
    }
}
