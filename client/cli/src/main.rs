//! `palisade`: the command line. Runs as whoever types it, without privilege of its own.

mod analyze;
mod answer;
mod approve;
mod asking;
mod audit;
mod automatic;
mod call;
mod card;
mod commands;
mod completions;
mod connect;
mod desk;
mod doctor;
mod duration;
mod exit;
mod failure;
mod formats;
mod grants;
mod interrupt;
mod judge;
mod man;
mod operator;
mod options;
mod output;
mod paint;
mod pending;
mod person;
mod print;
mod programs;
mod receipt;
mod run;
mod signals;
mod status;
mod stream;
mod terminal;
mod tools;
mod visible;

use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::parse(std::env::args_os()) {
        Ok(command) => ExitCode::from(commands::perform(command)),
        Err(status) => ExitCode::from(status),
    }
}
