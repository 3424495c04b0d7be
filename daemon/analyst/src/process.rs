//! The analyst's process: found and started. The only file of this crate that starts one.

use crate::supervisor::SupervisorError;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Starts the program on one end of a socket pair; the other end.
pub(crate) fn start(program: &Path) -> Result<(Child, OwnedFd), SupervisorError> {
    let failed = |source| SupervisorError::Start { path: PathBuf::from(program), source };
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|errno| failed(errno.into()))?;
    let child = command(program)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    Ok((child, ours))
}

#[allow(clippy::disallowed_methods, reason = "this is the file that starts the analyst")]
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir("/");
    command
}
