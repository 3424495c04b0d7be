//! Starts and ends the analyst's process. This is the only file of the crate that starts a process.

use crate::error::SupervisorError;
use nix::{time::clock_getcpuclockid, unistd::Pid};
use palisade_programs::Program;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// The process name that `ps` shows.
const NAME: &str = "palisade-analyst";

/// A running analyst process. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the processor time that the process has used; `None` if the kernel does not report
    /// it.
    #[must_use]
    pub fn worked(&self) -> Option<Duration> {
        let pid = Pid::from_raw(i32::try_from(self.id()).ok()?);
        Some(clock_getcpuclockid(pid).ok()?.now().ok()?.into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already. Then the kill has no effect, and it is still reaped.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts the program on one end of a socket pair, and returns the other end.
///
/// # Errors
/// If the program can not be started.
pub fn start(program: &Program) -> Result<(Process, OwnedFd), SupervisorError> {
    let failed = |source| SupervisorError::Start { path: program.path().to_owned(), source };
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|errno| failed(errno.into()))?;
    let child = command(program)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    Ok((Process(child), ours))
}

#[allow(clippy::disallowed_methods, reason = "this is the file that starts the analyst")]
fn command(program: &Program) -> Command {
    let mut command = Command::new(program.entry());
    command.arg0(NAME).env_clear().current_dir("/");
    command
}
