//! The `palisade-cell` program. Only the launcher starts it, with its own socket as the standard
//! input.

use palisade_cell::StartIdentity;
use std::process::ExitCode;

fn main() -> ExitCode {
    let identity = match StartIdentity::from_arguments(std::env::args().skip(1)) {
        Ok(identity) => identity,
        Err(argument) => {
            eprintln!("palisade-cell: {argument}: only the launcher starts this program");
            return ExitCode::from(64);
        }
    };
    match palisade_cell::run(identity) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("palisade-cell: {error}");
            ExitCode::FAILURE
        }
    }
}
