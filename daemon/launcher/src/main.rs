//! `palisade-launcher`: started by the broker with a connected socket as standard input, or by
//! systemd with a listening socket there.

use palisade_launcher::arguments::{self, CommandLineAction};
use std::process::ExitCode;

fn main() -> ExitCode {
    // The program is executed through a descriptor, and the kernel would use its number as the
    // name.
    rustix::thread::set_name(c"palisade-launcher").unwrap_or_default();
    let kernel_audit = std::env::var("PALISADE_KERNEL_AUDIT").ok();
    let options = match arguments::parse(std::env::args().skip(1), kernel_audit) {
        Ok(CommandLineAction::Run(options)) => options,
        Ok(CommandLineAction::KeepAudit) => return ended(palisade_launcher::audit::keep()),
        Ok(CommandLineAction::Help) => {
            print!("{}", arguments::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("palisade-launcher: {error}\n\n{}", arguments::HELP);
            return ExitCode::from(64);
        }
    };
    ended(palisade_launcher::run(*options))
}

fn ended<E: std::fmt::Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("palisade-launcher: {error}");
            ExitCode::FAILURE
        }
    }
}
