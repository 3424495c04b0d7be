//! `palisade-launcher`: started by the broker with their socket as standard input, or by systemd
//! with the listening socket there.

use palisade_launcher::arguments::{self, Parsed};
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match arguments::parse(std::env::args().skip(1)) {
        Ok(Parsed::Run(options)) => options,
        Ok(Parsed::Help) => {
            print!("{}", arguments::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("palisade-launcher: {error}\n\n{}", arguments::HELP);
            return ExitCode::from(64);
        }
    };
    match palisade_launcher::run(*options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("palisade-launcher: {error}");
            ExitCode::FAILURE
        }
    }
}
