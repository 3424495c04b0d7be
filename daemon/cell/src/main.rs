//! `palisade-cell`: started by the launcher only, with the launcher's socket as standard input.

use std::process::ExitCode;

fn main() -> ExitCode {
    match palisade_cell::enter() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("palisade-cell: {error}");
            ExitCode::FAILURE
        }
    }
}
