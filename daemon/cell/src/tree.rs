//! Signals and ends everything that a program started, as a whole, wherever it hides. Runs in the
//! cell.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use palisade_plan::cell::End;
use rustix::{io::Errno, process::WaitOptions};

/// The way to find the processes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessTree {
    /// This process is the first of its PID namespace. `kill(-1)` reaches exactly the call's
    /// processes, all at once, and none of them can fork past it.
    Namespace,
    /// There is no PID namespace, as the profile permits. Orphans are reparented to this process,
    /// so that its children can be found, killed and reaped until none is left.
    Children,
}

impl ProcessTree {
    pub(crate) fn new() -> std::io::Result<Self> {
        if rustix::process::getpid() == rustix::process::Pid::INIT {
            return Ok(Self::Namespace);
        }
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        // If the death signal killed this process, it could not end the others. The launcher's
        // socket also tells it when the launcher ends, and leaves time for that.
        rustix::process::set_parent_process_death_signal(None)?;
        Ok(Self::Children)
    }

    /// Ends what is left of a call when this process ends. In a PID namespace the kernel does that.
    pub(crate) fn end_with_this_process(self) {
        match self {
            Self::Namespace => {}
            Self::Children => {
                self.end();
            }
        }
    }

    /// Signals every process of a call. Processes that have ended are ignored.
    pub(crate) fn signal(self, leader: i32, number: i32) {
        let Ok(signal) = Signal::try_from(number) else { return };
        match self {
            Self::Namespace => ignore_gone(kill(Pid::from_raw(-1), signal)),
            Self::Children => {
                ignore_gone(kill(Pid::from_raw(-leader), signal));
                for pid in children() {
                    ignore_gone(kill(pid, signal));
                }
            }
        }
    }

    /// Kills and reaps every process of a call, and returns how many had to be killed.
    pub(crate) fn end(self) -> u32 {
        let mut ended = 0;
        // Most programs leave nothing behind, so check that first. Everything left descends from
        // this process, and `kill(-1)` looks at every process of the host.
        let mut patience = WaitOptions::NOHANG;
        loop {
            match reap(patience) {
                Ok(Some((_, End::Signal(libc::SIGKILL)))) => ended += 1,
                // It had ended by itself and only needed reaping, or there are processes to kill.
                Ok(_) => {}
                // `ECHILD`, the only error of this call: no child is left.
                Err(_) => return ended,
            }
            // In a namespace the first kill reaches all, and looks at every process to do so.
            if self == Self::Children || patience == WaitOptions::NOHANG {
                self.kill();
            }
            patience = WaitOptions::empty();
        }
    }

    fn kill(self) {
        match self {
            Self::Namespace => ignore_gone(kill(Pid::from_raw(-1), Signal::SIGKILL)),
            Self::Children => {
                for pid in children() {
                    ignore_gone(kill(pid, Signal::SIGKILL));
                }
            }
        }
    }
}

/// Reaps one child that has ended, by whatever signal: nix knows no real-time signals, and reports
/// a child that one ended as an error. Returns `None` if all children still run and `patience` says
/// not to wait.
///
/// # Errors
/// `ECHILD` if there are no children.
pub(crate) fn reap(patience: WaitOptions) -> rustix::io::Result<Option<(i32, End)>> {
    // Also children that a program made without a signal for their end.
    let options = patience | WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    loop {
        let (pid, status) = match rustix::process::wait(options) {
            Ok(Some(ended)) => ended,
            Ok(None) => return Ok(None),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        let end = match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => End::Exit(status),
            (None, Some(signal)) => End::Signal(signal),
            // It was stopped, which nobody asked to hear of.
            (None, None) => continue,
        };
        return Ok(Some((pid.as_raw_nonzero().get(), end)));
    }
}

/// Ignores errors: a process that ended before it was signalled needs no signal.
fn ignore_gone(result: nix::Result<()>) {
    match result {
        Ok(()) | Err(_) => {}
    }
}

/// Returns this process's children, as `/proc` lists them.
fn children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero();
    let listed = std::fs::read_to_string(format!("/proc/self/task/{own}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect()
}
