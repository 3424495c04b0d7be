//! `palisaded`: talks to clients and reads tool output, without privilege.

use clap::Parser as _;
use palisade_broker::{Options, StartError, start};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `Told` was already reported to the client, which shows it to its user.
            if !matches!(error, StartError::Told(_)) {
                eprintln!("palisaded: {}", error.text());
            }
            ExitCode::from(error.status())
        }
    }
}

fn run(options: Options) -> Result<(), StartError> {
    if !options.attempt.is_empty() {
        print!("{}", palisade_proof::report(&options.attempt));
        return Ok(());
    }
    match start(options)? {
        Some(started) => started.serve(),
        None => Ok(()),
    }
}
