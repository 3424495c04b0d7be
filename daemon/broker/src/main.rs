//! `palisaded`: hears clients and tool output, without privilege.

use clap::Parser as _;
use palisade_broker::{Options, StartError, start};
use std::{error::Error as _, process::ExitCode};

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            eprintln!("palisaded: {text}");
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
