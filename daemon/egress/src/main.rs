//! `palisade-egress`: carries the network connections of sessions, on the socket that is its
//! standard input. The broker or systemd starts it; it is not meant to be started by people.

use std::{os::fd::AsFd as _, process::ExitCode};

fn main() -> ExitCode {
    // The program is started through a descriptor, and the kernel would use its number as the name.
    rustix::thread::set_name(c"palisade-egress").unwrap_or_default();
    let socket = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(socket) => socket,
        Err(error) => {
            eprintln!("palisade-egress: standard input is not a socket: {error}");
            return ExitCode::FAILURE;
        }
    };
    match palisade_egress::run(socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("palisade-egress: {error}");
            ExitCode::FAILURE
        }
    }
}
