//! Starts and ends the process of an egress room. This is the only file of the folder that starts a
//! process.

use super::error::NetworkError;
use palisade_programs::Program;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    process::{Child, Command, Stdio},
};

/// The program's file name, and the name that `ps` shows.
pub(crate) const NAME: &str = "palisade-egress";

/// A running egress room. It is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct RoomProcess(Child);

impl Drop for RoomProcess {
    fn drop(&mut self) {
        // The process may have ended already. Then the kill has no effect, and it is still reaped.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts the program on one end of a socket pair, and returns the other end.
pub(super) fn start(program: &Program) -> Result<(RoomProcess, OwnedFd), NetworkError> {
    let failed = |source| NetworkError::Start { path: program.path().to_owned(), source };
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (ours, theirs) = socketpair(kind.0, kind.1, SocketFlags::CLOEXEC, None)
        .map_err(|errno| failed(errno.into()))?;
    let child = command(program)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed)?;
    Ok((RoomProcess(child), ours))
}

#[allow(clippy::disallowed_methods, reason = "this is the file that starts an egress room")]
fn command(program: &Program) -> Command {
    let mut command = Command::new(program.entry());
    command.arg0(NAME).env_clear().current_dir("/");
    command
}
