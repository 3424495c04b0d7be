//! Separates a process from what it inherited from its parent: session, signals, umask, standard
//! streams. Runs in the cell.

use crate::{failure::StepFailure, kernel};
use rustix::fs::{Mode, OFlags};

/// Starts a new session, and resets the signal dispositions, the signal mask and the umask.
pub(crate) fn detach() -> Result<(), StepFailure> {
    // EPERM means that the process leads a session already, which is what is wanted.
    match rustix::process::setsid() {
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(StepFailure::kernel("setsid")(error)),
    }
    kernel::default_signals();
    nix::sys::signal::SigSet::empty()
        .thread_set_mask()
        .map_err(StepFailure::kernel("sigprocmask"))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    Ok(())
}

/// Makes `/dev/null` the standard input, output and error.
pub(crate) fn standard_streams() -> Result<(), StepFailure> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(StepFailure::kernel("open /dev/null"))?;
    rustix::stdio::dup2_stdin(&null).map_err(StepFailure::kernel("dup2 stdin"))?;
    rustix::stdio::dup2_stdout(&null).map_err(StepFailure::kernel("dup2 stdout"))?;
    rustix::stdio::dup2_stderr(&null).map_err(StepFailure::kernel("dup2 stderr"))
}
